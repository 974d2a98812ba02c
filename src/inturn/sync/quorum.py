"""`Quorum` for synchronous code: a lock on a majority of independent Redis servers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from threading import get_ident
from types import TracebackType
from typing import Self

from inturn import arguments
from inturn.errors import LeaseLost, LockTimeout, NotHeld, StoreUnavailable
from inturn.locks import block
from inturn.locks.block import Block, meant
from inturn.locks.lock import log
from inturn.locks.quorum.lease import QuorumLease
from inturn.locks.quorum.lock import Quorum as AsyncQuorum
from inturn.process.runner import Runner
from inturn.sync.locks import Lease

Hold = tuple[QuorumLease, int]
"""And the thread that took it."""


class QuorumLock:
    """`with quorum.lock("x") as lease:`, or `acquire` and `release`. Whoever has the object may release it.

    If threads share an object, each releases first what it took itself, and a block releases only its own.
    """

    def __init__(
        self,
        runner: Runner,
        quorum: AsyncQuorum,
        name: str,
        ttl: arguments.Seconds,
        wait: arguments.Seconds | None,
        *,
        renew: bool,
    ) -> None:
        self._runner = runner
        self._quorum = quorum
        self._ttl, self._renew = ttl, renew
        self._asked = quorum.lock(name, ttl, wait, renew=renew)
        self.name, self._wait_s = self._asked.name, self._asked.wait_s
        self._holds: list[Hold] = []
        self._blocks: list[Block[QuorumLease]] = []

    def acquire(self, blocking: bool | None = None, blocking_timeout: arguments.Seconds | None = None) -> bool:
        """Take the lock. Returns `False` if it was not granted in time."""
        wait_s = arguments.waits_for(blocking, blocking_timeout, self._wait_s)
        try:
            self._take(wait_s)
        except LockTimeout:
            return False
        return True

    def release(self) -> None:
        """`NotHeld` if it is not held by this object, `LeaseLost` if the lease was lost."""
        self._release(self._lease())

    def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return self.lease.extend(additional_time, replace_ttl)

    def locked(self) -> bool:
        """Whether anyone holds it."""
        return self._runner.run(self._asked.locked())

    @property
    def lease(self) -> Lease:
        """What is held; `NotHeld` if nothing. If several threads share the object, what this one took."""
        return Lease(self._runner, self._lease())

    def _lease(self) -> QuorumLease:
        hold = meant([hold for hold in self._holds[:] if not hold[0].is_released], get_ident(), lambda hold: hold[1])
        if hold is None:
            raise NotHeld(self.name)
        return hold[0]

    def __enter__(self) -> Lease:
        frame = id(sys._getframe(1))
        lease = self._take(self._wait_s)
        self._blocks.append((frame, get_ident(), lease))
        return Lease(self._runner, lease)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease = block.leave(self._blocks, id(sys._getframe(1)), get_ident)
        if lease is None:
            raise NotHeld(self.name, "its block was not entered, or was left before")
        try:
            self._release(lease)
        except (LeaseLost, NotHeld, StoreUnavailable) as failure:
            if error is None:
                raise
            log.warning("release name=%s after the body raised: %s", self.name, failure)

    def _release(self, lease: QuorumLease) -> None:
        hold = next((hold for hold in list(self._holds) if hold[0] is lease), None)
        if hold is not None:
            self._holds.remove(hold)
        elif not lease.is_lost():  # one that was lost may have been replaced before its block ended
            raise NotHeld(self.name, "it was released inside its block")
        self._runner.run(lease.release())

    def _take(self, wait_s: float | None) -> QuorumLease:
        lock = self._quorum.lock(self.name, self._ttl, wait_s, renew=self._renew)
        taking = self._runner.start(lock.take())
        try:
            lease = taking.result()
        except Exception:
            raise
        except BaseException:
            # Ctrl-C: ask no more. If it was granted at this very moment, nobody else would release it
            taking.cancel()
            self._runner.start(_give_back(taking))
            raise
        us = get_ident()
        for hold in self._holds[:]:
            if hold[0].is_released or (hold[1] == us and hold[0].is_lost()):
                self._holds.remove(hold)
        self._holds.append((lease, us))
        return lease


async def _give_back(taking: Future[QuorumLease]) -> None:
    await asyncio.wait({asyncio.wrap_future(taking)})
    if not taking.cancelled() and taking.exception() is None:
        taking.result().held.give_back()


class Quorum:
    """`quorum = Quorum([url1, url2, url3])`, and then `with quorum.lock("x") as lease:`."""

    def __init__(self, urls: Sequence[str], *, namespace: str = "inturn", timeout: arguments.Seconds = 0.5) -> None:
        """`timeout`: seconds that a server may take to answer; less if the ttl of a lock is short."""
        self.inner = AsyncQuorum(urls, namespace=namespace, timeout=timeout)
        self._runner = Runner()

    def lock(
        self,
        name: str,
        ttl: arguments.Seconds = 30,
        wait: arguments.Seconds | None = None,
        *,
        renew: bool = True,
    ) -> QuorumLock:
        """The arguments are those of `inturn.Quorum.lock`."""
        return QuorumLock(self._runner, self.inner, name, ttl, wait, renew=renew)

    def close(self) -> None:
        """Give back what is held, and end the connections and the threads."""
        self._runner.run(self.inner.close())
        self._runner.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
