"""A lock of someone else's making around an answer, such as `VisitorLockService`.

Whatever happens at its release is logged, and never hides what the answer itself ended with.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from inturn.errors import LockTimeout
from inturn.store import clock

log = logging.getLogger("inturn.conversations")

FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.25


class VisitorLocks(Protocol):
    def acquire_lock(self, visitor_uid: str, ttl_seconds: Any) -> Any:
        """The id of the lock, or `None`; may be awaited."""
        ...

    def release_lock(self, visitor_uid: str, lock_id: str) -> Any: ...


@asynccontextmanager
async def holding(lock: VisitorLocks | None, visitor_uid: str, ttl_s: float, wait_s: float) -> AsyncIterator[bool]:
    """Whether it is held inside. `wait_s` 0: an absent grant is a no; else `LockTimeout` after so many seconds."""
    if lock is None:
        yield True
        return
    lock_id = await _take(lock, visitor_uid, ttl_s, wait_s)
    if lock_id is None:
        yield False
        return
    try:
        yield True
    finally:
        await _release(lock, visitor_uid, lock_id)


async def _take(lock: VisitorLocks, visitor_uid: str, ttl_s: float, wait_s: float) -> str | None:
    began, pause_s = clock.now(), FIRST_PAUSE_S
    while True:
        lock_id: str | None = await _made(lock.acquire_lock(visitor_uid, ttl_s))
        waited_s = clock.now() - began
        if lock_id or not wait_s:
            return lock_id or None
        if waited_s >= wait_s:
            raise LockTimeout(f"visitor {visitor_uid}", waited_s)
        await asyncio.sleep(min(pause_s, wait_s - waited_s))
        pause_s = min(2 * pause_s, LAST_PAUSE_S)


async def _release(lock: VisitorLocks, visitor_uid: str, lock_id: str) -> None:
    try:
        was_ours = await _made(lock.release_lock(visitor_uid, lock_id))
    except Exception:  # whatever someone else's lock raises: it ends with its life
        log.warning("the lock of visitor %s could not be released", visitor_uid, exc_info=True)
    else:
        if was_ours is False:
            log.warning("the lock of visitor %s was not ours any more when it was released", visitor_uid)


async def _made(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
