"""A lock that the user of the responder brings, such as `VisitorLockService`: it is held around each answer.

A lock whose store is away is not a lock that is held: it raises `StoreUnavailable`, whatever the policy. A release that
fails is logged, and never hides how the answer itself ended.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

from inturn.errors import LockTimeout, StoreUnavailable
from inturn.store import clock

log = logging.getLogger("inturn.visitors")

FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.25


class VisitorLocks(Protocol):
    def acquire_lock(self, visitor_uid: str, ttl_seconds: Any) -> Any:
        """Returns the id of the lock, or `None` if someone else holds it; may return an awaitable.

        If it cannot know, it raises, or has the attribute `last_refusal` (`"away"`), as ready-made faces do.
        """
        ...

    def release_lock(self, visitor_uid: str, lock_id: str) -> Any: ...


@asynccontextmanager
async def holding(lock: VisitorLocks | None, name: str, ttl_s: float, wait_s: float) -> AsyncIterator[bool]:
    """Yields whether the lock is held. With `wait_s` 0 it is asked once; else `LockTimeout` after so many seconds.

    Raises `StoreUnavailable` if the store of the lock is away.
    """
    if lock is None:
        yield True
        return
    held = _Lock(lock, name, ttl_s)
    lock_id = await held.take(wait_s)
    if lock_id is None:
        yield False
        return
    try:
        yield True
    finally:
        await held.release(lock_id)


class _Lock(NamedTuple):
    lock: VisitorLocks
    name: str
    ttl_s: float

    async def take(self, wait_s: float) -> str | None:
        began, pause_s = clock.now(), FIRST_PAUSE_S
        while True:
            lock_id = await self._ask()
            waited_s = clock.now() - began
            if lock_id or not wait_s:
                return lock_id or None
            if waited_s >= wait_s:
                raise LockTimeout(f"visitor {self.name}", waited_s)
            await asyncio.sleep(min(pause_s, wait_s - waited_s))
            pause_s = min(2 * pause_s, LAST_PAUSE_S)

    async def _ask(self) -> str | None:
        asked = self.lock.acquire_lock(self.name, self.ttl_s)
        if not inspect.isawaitable(asked):
            return self._granted(asked)
        asking = asyncio.ensure_future(self._granted_later(asked))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            if not asking.cancelled():  # it may still be granted, and then nobody would release it
                _in_background(self._give_back(asking))
            raise

    async def _granted_later(self, asked: Awaitable[str | None]) -> str | None:
        # nothing may be awaited in between: the next call of the face, for another visitor, has its own `last_refusal`
        return self._granted(await asked)

    def _granted(self, lock_id: str | None) -> str | None:
        """Tells a lock that is held by someone else from one whose store does not answer."""
        if lock_id or getattr(self.lock, "last_refusal", None) != "away":
            return lock_id
        error = getattr(self.lock, "last_error", None)
        raise (
            error
            if isinstance(error, StoreUnavailable)
            else StoreUnavailable("the store of the visitor's lock is away")
        )

    async def _give_back(self, asking: asyncio.Future[str | None]) -> None:
        try:
            lock_id = await asyncio.wait_for(asking, self.ttl_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, a granted lock expires
            log.warning("the lock of visitor %s may have been granted, and expires by itself: %s", self.name, error)
            return
        if lock_id:
            await self.release(lock_id)

    async def release(self, lock_id: str) -> None:
        """Releases the lock. Gives up when the lock has expired: then there is nothing left to release."""
        task = asyncio.current_task()
        cancels = task.cancelling() if task is not None else 0
        try:
            async with asyncio.timeout(self.ttl_s):
                released = self.lock.release_lock(self.name, lock_id)
                was_ours = await released if inspect.isawaitable(released) else released
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > cancels:
                raise  # this task is cancelled, not the release
            # whatever the release raises, the lock expires
            log.warning("the lock of visitor %s could not be released", self.name, exc_info=True)
        else:
            if was_ours is False:
                log.warning("the lock of visitor %s was no longer ours when it was released", self.name)


_background: set[asyncio.Task[None]] = set()


def _in_background(work: Any) -> None:
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
