"""Several names at once: all or none.

They are taken one after the other in the order of their names, which is the same for everyone: two sets may wait for
each other, but can never block each other. Those already held are renewed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from types import TracebackType

from inturn import arguments
from inturn.errors import ArgumentError, ArgumentTypeError, LockTimeout, NotHeld
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
        self._owner = owner
        self._options = {"ttl": ttl, "priority": priority, "owner": owner}
        self._stacks: dict[str, AsyncExitStack] = {}

    async def __aenter__(self) -> dict[str, Lease]:
        started_at = clock.now()
        leases: dict[str, Lease] = {}
        async with AsyncExitStack() as stack:
            for name in self.names:
                lock = self._lock(name, started_at)
                try:
                    leases[name] = await stack.enter_async_context(lock)
                except LockTimeout as late:
                    raise LockTimeout(name, clock.now() - started_at, late.holder) from late
            self._stacks[self._who()] = stack.pop_all()
        return leases

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        stack = self._stacks.pop(self._who(), None)
        if stack is None:
            raise NotHeld(", ".join(self.names))
        return await stack.__aexit__(kind, error, trace)

    def _lock(self, name: str, started_at: float) -> Lock:
        """The whole set shares one `wait`."""
        wait_s = None if self.wait_s is None else max(0.0, self.wait_s - (clock.now() - started_at))
        return Lock(self._process, name, wait=wait_s, **self._options)  # type: ignore[arg-type]

    def _who(self) -> str:
        return self._owner or self._process.owner()
