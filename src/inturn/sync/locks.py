"""Locks for synchronous code."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import Future
from threading import get_ident
from types import TracebackType
from typing import Any

from inturn import arguments
from inturn.errors import LeaseLost, LockTimeout, NotHeld, StoreUnavailable
from inturn.locks import block
from inturn.locks.admin import LockInfo
from inturn.locks.admin import Locks as AsyncLocks
from inturn.locks.block import Block, Flow, Here, is_plain
from inturn.locks.lease import Lease as AsyncLease
from inturn.locks.lock import Lock as AsyncLock
from inturn.locks.lock import log
from inturn.locks.many import LockSet as AsyncLockSet
from inturn.locks.quorum.lease import QuorumLease
from inturn.process.process import Process
from inturn.process.runner import Runner


class Lease:
    """What the holder of a lock holds, also of a quorum's, for synchronous code."""

    def __init__(self, runner: Runner, lease: AsyncLease | QuorumLease) -> None:
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
        return self._lease.is_lost()

    def remaining(self) -> float:
        return self._lease.remaining()

    def check(self) -> None:
        """Raises `LeaseLost` if the lease is lost. Call it before every write that must not be stale."""
        self._lease.check()

    def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return self._runner.run(self._lease.extend(additional_time, replace_ttl))

    def release(self) -> None:
        """Give the lock back. Raises `LeaseLost` if it had been lost before."""
        self._runner.run(self._lease.release())

    def __repr__(self) -> str:
        return repr(self._lease)


class Lock:
    """A lock by name. A hold belongs to the object: any thread may release it, as in redis-py without `thread_local`.

    If threads share an object, each releases first what it took itself, and a block releases only its own.
    """

    def __init__(self, runner: Runner, lock: AsyncLock, process: Process) -> None:
        self.name = lock.name
        self._runner = runner
        self._process = process
        self._lock = lock
        self._blocks: list[Block[AsyncLease]] = []

    def acquire(self, blocking: bool | None = None, blocking_timeout: arguments.Seconds | None = None) -> bool:
        wait_s = arguments.waits_for(blocking, blocking_timeout, self._lock.wait_s)
        try:
            self._take(wait_s, is_bound=False)
        except LockTimeout:
            return False
        return True

    def release(self) -> None:
        self._runner.run(self._lock.release_as(get_ident()))

    def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return self.lease.extend(additional_time, replace_ttl)

    def reacquire(self) -> bool:
        return self.lease.extend(self._lock.full_life_s, replace_ttl=True)

    def locked(self) -> bool:
        return self._runner.run(self._lock.locked())

    def owned(self) -> bool:
        return self._runner.run(self._lock.owned())

    @property
    def lease(self) -> Lease:
        return Lease(self._runner, self._lock.lease_of(get_ident()))

    def __enter__(self) -> Lease:
        frame = sys._getframe(1)
        lease = self._take(self._lock.wait_s, is_bound=is_plain(frame))
        self._blocks.append((id(frame), get_ident(), lease))
        return Lease(self._runner, lease)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease = block.leave(self._blocks, id(sys._getframe(1)), get_ident)
        if lease is None:
            raise NotHeld(self.name, "its block was not entered, or was left before")
        try:
            self._runner.run(self._lock.release_lease(lease))
        except (LeaseLost, NotHeld, StoreUnavailable) as failure:
            if error is None:
                raise
            log.warning("release name=%s after the body raised: %s", self.name, failure)

    def _take(self, wait_s: float | None, *, is_bound: bool) -> AsyncLease:
        """`is_bound`: only this thread will release it."""
        us = thread_here(self._process)
        before = self._lock.leases_of(us.flow)
        taking: Future[AsyncLease] | None = None
        try:
            taking = self._runner.start(self._lock.take_as(us, wait_s))
            lease = taking.result()
        except Exception:
            raise
        except BaseException:
            # Ctrl-C: leave the queue. If the lock was granted at this very moment, nobody else would release it
            if taking is not None:
                taking.cancel()
            self._runner.start(_undo(self._lock, us.flow, taking, len(before)))
            raise
        _took(self._process, lease, is_bound=is_bound, is_kept=is_bound or self._lock.reentrant)
        return lease

    def __repr__(self) -> str:
        return repr(self._lock)


def thread_here(process: Process) -> Here:
    return Here(get_ident(), process.thread_owner())


def _took(process: Process, lease: AsyncLease, *, is_bound: bool, is_kept: bool) -> None:
    lease.held.is_bound = lease.held.is_bound or is_bound
    process.thread_took(lease.held, is_kept=is_kept)


async def _undo(lock: AsyncLock, flow: Flow, taking: Future[Any] | None, before: int) -> None:
    if taking is not None:
        await asyncio.wait({asyncio.wrap_future(taking)})
    leases = lock.leases_of(flow)
    if len(leases) > before:
        await lock.release_lease(leases[-1])


class LockSet:
    """Several names at once: all or none."""

    def __init__(self, runner: Runner, locks: AsyncLockSet, process: Process) -> None:
        self._runner = runner
        self._set = locks
        self._process = process

    def __enter__(self) -> dict[str, Lease]:
        frame = sys._getframe(1)
        leases = self._runner.run(self._set.enter_as(thread_here(self._process), id(frame)))
        for lease in leases.values():
            _took(self._process, lease, is_bound=is_plain(frame), is_kept=is_plain(frame))
        return {name: Lease(self._runner, lease) for name, lease in leases.items()}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        us = get_ident()  # not the thread that runs it
        self._runner.run(self._set.leave_as(lambda: us, id(sys._getframe(1)), error))

    def __repr__(self) -> str:
        return repr(self._set)


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
