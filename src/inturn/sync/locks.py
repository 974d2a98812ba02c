"""Locks for synchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from inturn import arguments
from inturn.errors import LeaseLost, NotHeld, StoreUnavailable
from inturn.locks.admin import LockInfo
from inturn.locks.admin import Locks as AsyncLocks
from inturn.locks.lease import Lease as AsyncLease
from inturn.locks.lock import Lock as AsyncLock
from inturn.locks.lock import log
from inturn.locks.many import LockSet as AsyncLockSet
from inturn.process.process import Process
from inturn.process.runner import Runner

T = TypeVar("T")


class Lease:
    """What the holder of a lock holds, for synchronous code."""

    def __init__(self, runner: Runner, lease: AsyncLease) -> None:
        self._runner = runner
        self._lease = lease

    @property
    def name(self) -> str:
        return self._lease.name

    @property
    def fence(self) -> int:
        return self._lease.fence

    @property
    def lost(self) -> bool:
        return self._lease.lost or (not self._lease.is_released and self._lease.remaining() == 0.0)

    def remaining(self) -> float:
        return self._lease.remaining()

    def check(self) -> None:
        """Raises `LeaseLost` if the lease is lost. Call it before every write that must not be stale."""
        self._lease.check()

    def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return self._runner.run(self._lease.extend(additional_time, replace_ttl))


class Lock:
    """A lock by name; every thread that uses it has its own hold."""

    def __init__(self, runner: Runner, lock: AsyncLock, process: Process) -> None:
        self.name = lock.name
        self._runner = runner
        self._process = process
        self._lock = lock
        self._threads = threading.local()

    def acquire(self, blocking: bool | None = None, blocking_timeout: arguments.Seconds | None = None) -> bool:
        return self._take(self._mine(), lambda mine: mine.acquire(blocking, blocking_timeout))

    def release(self) -> None:
        self._runner.run(self._mine().release())

    def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return self._runner.run(self._mine().extend(additional_time, replace_ttl))

    def reacquire(self) -> bool:
        return self._runner.run(self._mine().reacquire())

    def locked(self) -> bool:
        return self._runner.run(self._lock.locked())

    def owned(self) -> bool:
        return self._runner.run(self._mine().owned())

    @property
    def lease(self) -> Lease:
        return Lease(self._runner, self._mine().lease)

    def __enter__(self) -> Lease:
        return self._take(self._mine(), self._lease_of)

    async def _lease_of(self, mine: AsyncLock) -> Lease:
        return Lease(self._runner, await mine.take())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except (LeaseLost, NotHeld, StoreUnavailable) as failure:
            if error is None:
                raise
            log.warning("release name=%s after the body raised: %s", self.name, failure)

    def _take(self, mine: AsyncLock, take: Callable[[AsyncLock], Coroutine[Any, Any, T]]) -> T:
        before = mine.holds()
        taking: Future[T] | None = None
        try:
            taking = self._runner.start(take(mine))
            return taking.result()
        except Exception:
            raise
        except BaseException:
            # Ctrl-C: leave the queue. If the lock was granted at this very moment, nobody else would release it
            if taking is not None:
                taking.cancel()
            self._runner.start(_undo(mine, taking, before))
            raise

    def _mine(self) -> AsyncLock:
        """The owner is the calling thread, not the task on the background loop that acts for it."""
        return self._lock.owned_by(self._lock.owner or self._process.thread_owner())


async def _undo(lock: AsyncLock, taking: Future[Any] | None, before: int) -> None:
    if taking is not None:
        await asyncio.wait({asyncio.wrap_future(taking)})
    if lock.holds() > before:
        await lock.release()


class LockSet:
    """Several names at once: all or none."""

    def __init__(self, runner: Runner, locks: AsyncLockSet) -> None:
        self._runner = runner
        self._set = locks

    def __enter__(self) -> dict[str, Lease]:
        leases = self._runner.run(self._set.__aenter__())
        return {name: Lease(self._runner, lease) for name, lease in leases.items()}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._set.__aexit__(kind, error, trace))


class ReadWriteLock:
    def __init__(self, read: Lock, write: Lock) -> None:
        self._read, self._write = read, write

    def read(self) -> Lock:
        return self._read

    def write(self) -> Lock:
        return self._write


class Locks:
    def __init__(self, runner: Runner, locks: AsyncLocks) -> None:
        self._runner = runner
        self._locks = locks

    def list(self, limit: int = 1000) -> list[LockInfo]:
        return self._runner.run(self._locks.list(limit))

    def inspect(self, name: str) -> LockInfo | None:
        return self._runner.run(self._locks.inspect(name))

    def force_release(self, name: str) -> int:
        return self._runner.run(self._locks.force_release(name))
