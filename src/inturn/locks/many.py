"""Several names at once: all or none.

They are taken one after the other in the order of their names, which is the same for everyone: two sets may wait for
each other, but can never block each other. Those already held are renewed meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any

from inturn import arguments
from inturn.errors import ArgumentError, ArgumentTypeError, LockTimeout, NotHeld
from inturn.locks import block
from inturn.locks.block import Block, Flow, Here, here, this_task
from inturn.locks.body import Body
from inturn.locks.lease import Lease
from inturn.locks.lock import Lock
from inturn.process.process import Process
from inturn.store import clock


class LockSet:
    """`async with app.lock_all(["a", "b"]) as leases:` gives the leases by name."""

    def __init__(
        self,
        process: Process,
        names: Iterable[str],
        ttl: arguments.Seconds = 30,
        wait: arguments.Seconds | None = None,
        *,
        priority: int = 0,
        owner: str | None = None,
    ) -> None:
        if isinstance(names, str):
            raise ArgumentTypeError("names", "must be a list of names, not one name", names)
        self.names = sorted({arguments.name(name, "names") for name in names})
        if not self.names:
            raise ArgumentError("names", "must name at least one lock", [])
        self.wait_s = arguments.wait(wait)
        self._process = process
        self._options = {"ttl": ttl, "priority": priority, "owner": owner}
        self._blocks: list[Block[AsyncExitStack]] = []

    def __aenter__(self) -> Coroutine[Any, Any, dict[str, Lease]]:
        return self._enter(id(sys._getframe(1)))

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self.leave_as(this_task, id(sys._getframe(1)), error)

    async def _enter(self, frame: int) -> dict[str, Lease]:
        return await self.enter_as(here(self._process), frame)

    async def enter_as(self, us: Here, frame: int) -> dict[str, Lease]:
        started_at = clock.now()
        leases: dict[str, Lease] = {}
        async with AsyncExitStack() as stack:
            for name in self.names:
                lock = self._lock(name, started_at)
                try:
                    leases[name] = await lock.take_as(us, lock.wait_s)
                except LockTimeout as late:
                    raise LockTimeout(name, clock.now() - started_at, late.holder) from late
                body = leases[name].enter(us.task())
                stack.push_async_exit(partial(_end_block, lock, leases[name], body))
            self._blocks.append((frame, us.flow, stack.pop_all()))
        return leases

    async def leave_as(self, flow: Callable[[], Flow], frame: int, error: BaseException | None) -> None:
        stack = block.leave(self._blocks, frame, flow)
        if stack is None:
            raise NotHeld(", ".join(self.names), "its block was not entered, or was left before")
        await stack.__aexit__(type(error) if error is not None else None, error, None)

    def _lock(self, name: str, started_at: float) -> Lock:
        """The whole set shares one `wait`."""
        wait_s = None if self.wait_s is None else max(0.0, self.wait_s - (clock.now() - started_at))
        return Lock(self._process, name, wait=wait_s, **self._options)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<LockSet {self.names}>"


async def _end_block(
    lock: Lock, lease: Lease, body: Body, kind: type[BaseException] | None, error: BaseException | None, trace: object
) -> None:
    await lock.end_block(lease, body, error)
