"""A lock that a caller brings, such as a `DistributedLockManager` or a lock of their own: taken, extended, released.

Its methods may be synchronous (they run in a thread, so that they do not block the loop) or async. A lock whose store
is away is not a lock that is held: that raises `StoreUnavailable`. A release that fails is logged, and never hides how
the work under the lock ended.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any, NamedTuple, Protocol, TypeVar

from inturn.errors import LockTimeout, StoreUnavailable
from inturn.store import clock

log = logging.getLogger("inturn.locks")

T = TypeVar("T")

FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.25
ANSWERS_WITHIN_S = 10.0
"""What takes longer, and longer than the lock would live, is a store that hangs."""


class BroughtLocks(Protocol):
    def acquire_lock(self, name: str, ttl: Any, /) -> Any:
        """Returns the id of the lock, or `None` if someone else holds it; may return an awaitable.

        If it cannot know, it raises, or has the attribute `last_refusal` (`"away"`), as ready-made faces do.
        """
        ...

    def release_lock(self, name: str, lock_id: str, /) -> Any: ...


class Told(NamedTuple):
    """What a method returned, and whether the store was away."""

    value: Any
    error: StoreUnavailable | None = None


class Threads:
    """Threads of our own for synchronous managers. A store that hangs keeps them; those that asyncio shares with
    everybody, to look up addresses for example, must not wait for it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._pool = None  # its threads are the parent's

    async def run(self, function: Callable[[], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MAX_THREADS, self._name)
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(function))


MAX_THREADS = 32
ACQUIRING, KEEPING = Threads("inturn-acquire"), Threads("inturn-keep")
"""Apart, so that many who wait for locks do not keep others from extending and releasing theirs."""


async def ask(manager: object, method: Callable[..., Any], *args: Any, threads: Threads = KEEPING) -> Told:
    """Calls a method of a manager, synchronous or async, without blocking the loop.

    `last_refusal` is read before anything else can call the manager: in the thread of the call, or before the loop goes
    on. The next call, for someone else, has its own.
    """

    def told(value: Any) -> Told:
        if value or getattr(manager, "last_refusal", None) != "away":
            return Told(value)
        error = getattr(manager, "last_error", None)
        is_ours = isinstance(error, StoreUnavailable)
        return Told(value, error if is_ours else StoreUnavailable("the store of the lock is away"))

    if inspect.iscoroutinefunction(method):
        return told(await method(*args))
    found = await threads.run(lambda: told(method(*args)))
    return told(await found.value) if inspect.isawaitable(found.value) else found


class BroughtLock(NamedTuple):
    """One name of it. `ttl_s` is its life; `whose` says in logs and errors what it guards."""

    lock: BroughtLocks
    name: str
    ttl_s: float
    whose: str

    async def take(self, wait_s: float) -> str | None:
        """Returns the id of the lock. With `wait_s` 0 it is asked once; else `LockTimeout` after so many seconds.

        Raises `StoreUnavailable` if the store of the lock is away.
        """
        began, pause_s = clock.now(), FIRST_PAUSE_S
        while True:
            lock_id = await self._ask()
            waited_s = clock.now() - began
            if lock_id or not wait_s:
                return lock_id or None
            if waited_s >= wait_s:
                raise LockTimeout(self.whose, waited_s)
            # those who began to wait together must not ask together: one of them gets it, and the others all miss it
            await asyncio.sleep(min(random.uniform(0.5, 1) * pause_s, wait_s - waited_s))
            pause_s = min(2 * pause_s, LAST_PAUSE_S)

    async def _ask(self) -> str | None:
        asking = asyncio.ensure_future(self._granted())
        limit_s = max(self.ttl_s, ANSWERS_WITHIN_S)
        try:
            answered, _ = await asyncio.wait([asking], timeout=limit_s)
        except asyncio.CancelledError:
            _in_background(self._give_back(asking))  # it may still be granted, and then nobody would release it
            raise
        if not answered:
            _in_background(self._give_back(asking))
            raise StoreUnavailable(f"no answer within {limit_s:g} s")
        return asking.result()

    async def _granted(self) -> str | None:
        told = await ask(self.lock, self.lock.acquire_lock, self.name, _whole(self.ttl_s), threads=ACQUIRING)
        if told.error is not None:
            raise told.error
        lock_id: str | None = told.value
        return lock_id

    async def _give_back(self, asking: asyncio.Future[str | None]) -> None:
        try:
            lock_id = await asyncio.wait_for(asking, self.ttl_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, a granted lock expires
            log.warning("the lock of %s may have been granted, and expires by itself: %s", self.whose, error)
            return
        if lock_id:
            await self.release(lock_id)

    @property
    def can_be_extended(self) -> bool:
        return getattr(self.lock, "extend_lock", None) is not None

    async def extend(self, lock_id: str, life_s: float, within_s: float = ANSWERS_WITHIN_S) -> bool:
        """Whether it is still this owner's: then it lives so long from now, or longer. Raises `StoreUnavailable` if the
        store is away. A lock that cannot be extended is taken to be ours until its life is over.
        """
        extend = getattr(self.lock, "extend_lock", None)
        if extend is None:
            return True
        try:
            async with asyncio.timeout(within_s) as limit:
                told = await ask(self.lock, extend, self.name, lock_id, _whole(life_s))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise StoreUnavailable(f"no answer within {within_s:g} s") from error
        if told.error is not None:
            raise told.error
        return bool(told.value)

    async def release(self, lock_id: str) -> bool:
        """Returns whether it was still ours, or nobody knows. Gives up when the lock has expired: then there is nothing
        left to release. It goes on without a caller who is cancelled meanwhile.
        """
        releasing = asyncio.ensure_future(self._released(lock_id))
        try:
            return await asyncio.shield(releasing)
        except asyncio.CancelledError:
            _in_background(releasing)
            raise

    async def _released(self, lock_id: str) -> bool:
        try:
            async with asyncio.timeout(self.ttl_s):
                told = await ask(self.lock, self.lock.release_lock, self.name, lock_id)
        except (Exception, asyncio.CancelledError):  # whatever the release raises, the lock expires
            log.warning("the lock of %s could not be released", self.whose, exc_info=True)
            return True
        if told.error is not None:
            log.warning("the lock of %s could not be released, and expires by itself: %s", self.whose, told.error)
        elif told.value is False:
            log.warning("the lock of %s was no longer ours when it was released", self.whose)
            return False
        return True


@asynccontextmanager
async def holding(lock: BroughtLocks | None, name: str, ttl_s: float, wait_s: float, whose: str) -> AsyncIterator[bool]:
    """Yields whether the lock is held. Waits for it as `BroughtLock.take` does."""
    if lock is None:
        yield True
        return
    held = BroughtLock(lock, name, ttl_s, whose)
    lock_id = await held.take(wait_s)
    if lock_id is None:
        yield False
        return
    try:
        yield True
    finally:
        await held.release(lock_id)


def _whole(seconds: float) -> float | int:
    """Redis refuses `EX 30.0`, and a lock of somebody's own may hand the number on."""
    return int(seconds) if float(seconds).is_integer() else seconds


_background: set[asyncio.Future[Any]] = set()


def _in_background(work: Any) -> None:
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
