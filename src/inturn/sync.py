"""The same, for synchronous code: one background loop per app runs the one implementation.

A synchronous body cannot be cancelled. When its lease is lost, `lease.lost` is set, and the next call (`check`,
`extend`, the end of the `with` block) raises `LeaseLost`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from inturn import app as asynchronous
from inturn.errors import LeaseLost, LockTimeout, NotHeld, StoreUnavailable
from inturn.locks import arguments
from inturn.locks.admin import LockInfo
from inturn.locks.lease import Lease as AsyncLease
from inturn.locks.lock import Lock as AsyncLock
from inturn.locks.lock import log
from inturn.process.runner import Runner
from inturn.settings import Settings

T = TypeVar("T")


class Lease:
    """What the holder holds, seen from synchronous code."""

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
        """Raise `LeaseLost` if the lease is lost: call it before every write that must not be stale."""
        self._lease.check()

    def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return self._runner.run(self._lease.extend(additional_time, replace_ttl))


class Lock:
    """A lock by name; every thread that uses it has its own hold."""

    def __init__(self, app: InTurn, lock: AsyncLock) -> None:
        self.name = lock.name
        self._app = app
        self._lock = lock
        self._threads = threading.local()

    def acquire(self, blocking: bool | None = None, blocking_timeout: arguments.Seconds | None = None) -> bool:
        return self._take(self._mine(), lambda mine: mine.acquire(blocking, blocking_timeout))

    def release(self) -> None:
        self._app.run(self._mine().release())

    def extend(self, additional_time: arguments.Seconds, replace_ttl: bool = False) -> bool:
        return self._app.run(self._mine().extend(additional_time, replace_ttl))

    def reacquire(self) -> bool:
        return self._app.run(self._mine().reacquire())

    def locked(self) -> bool:
        return self._app.run(self._lock.locked())

    def owned(self) -> bool:
        return self._app.run(self._mine().owned())

    @property
    def lease(self) -> Lease:
        return Lease(self._app.runner, self._mine().lease)

    def __enter__(self) -> Lease:
        return Lease(self._app.runner, self._take(self._mine(), lambda mine: mine.take()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except (LeaseLost, NotHeld, StoreUnavailable) as failure:
            if error is None:
                raise
            log.warning("release name=%s after an error of the body: %s", self.name, failure)

    def _take(self, mine: AsyncLock, take: Callable[[AsyncLock], Coroutine[Any, Any, T]]) -> T:
        before = mine.holds()
        taking = self._app.runner.start(take(mine))
        try:
            return taking.result()
        except Exception:
            raise
        except BaseException:
            # Ctrl-C: leave the queue; and if the lock was granted at that very moment, nobody else would release it
            taking.cancel()
            self._app.runner.start(_undo(mine, taking, before))
            raise

    def _mine(self) -> AsyncLock:
        """The owner is the calling thread, not the task on the background loop that acts for it."""
        return self._lock.owned_by(self._lock.owner or self._app.inner.process.thread_owner())


async def _undo(lock: AsyncLock, taking: Future[Any], before: int) -> None:
    await asyncio.wait({asyncio.wrap_future(taking)})
    if lock.holds() > before:
        await lock.release()


class LockSet:
    """Several names at once: all or none."""

    def __init__(self, app: InTurn, names: Iterable[str], options: dict[str, Any]) -> None:
        owner = options.pop("owner", None) or app.inner.process.thread_owner()
        self._app = app
        self._set = app.inner.lock_all(names, owner=owner, **options)

    def __enter__(self) -> dict[str, Lease]:
        leases = self._app.run(self._set.__aenter__())
        return {name: Lease(self._app.runner, lease) for name, lease in leases.items()}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.run(self._set.__aexit__(kind, error, trace))


class ReadWriteLock:
    def __init__(self, read: Lock, write: Lock) -> None:
        self._read, self._write = read, write

    def read(self) -> Lock:
        return self._read

    def write(self) -> Lock:
        return self._write


class Locks:
    def __init__(self, app: InTurn) -> None:
        self._app = app

    def list(self, limit: int = 1000) -> list[LockInfo]:
        return self._app.run(self._app.inner.locks.list(limit))

    def inspect(self, name: str) -> LockInfo | None:
        return self._app.run(self._app.inner.locks.inspect(name))

    def force_release(self, name: str) -> int:
        return self._app.run(self._app.inner.locks.force_release(name))


class InTurn:
    """`inturn.InTurn` for synchronous code. The options of the locks are the same."""

    def __init__(
        self, url: str | None = None, *, namespace: str | None = None, settings: Settings | None = None
    ) -> None:
        self.inner = asynchronous.InTurn(url, namespace=namespace, settings=settings)
        self.runner = Runner()
        self.inner.process.on_fork(self.runner.forget)
        self.locks = Locks(self)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def lock(self, name: str, ttl: arguments.Seconds | None = None, wait: arguments.Seconds | None = None,
             priority: int = 0, **options: Any) -> Lock:  # fmt: skip
        return Lock(self, self.inner.lock(name, ttl, wait, priority, **options))

    def semaphore(self, name: str, permits: int, ttl: arguments.Seconds | None = None,
                  wait: arguments.Seconds | None = None, priority: int = 0, **options: Any) -> Lock:  # fmt: skip
        return Lock(self, self.inner.semaphore(name, permits, ttl, wait, priority, **options))

    def rwlock(self, name: str, ttl: arguments.Seconds | None = None, wait: arguments.Seconds | None = None,
               priority: int = 0, **options: Any) -> ReadWriteLock:  # fmt: skip
        both = self.inner.rwlock(name, ttl, wait, priority, **options)
        return ReadWriteLock(Lock(self, both.read()), Lock(self, both.write()))

    def lock_all(self, names: Iterable[str], **options: Any) -> LockSet:
        return LockSet(self, names, options)

    def close(self) -> None:
        self.run(self.inner.close())
        self.runner.stop()

    def __enter__(self) -> InTurn:
        self.run(self.inner.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["InTurn", "Lease", "Lock", "LockTimeout", "Locks"]
