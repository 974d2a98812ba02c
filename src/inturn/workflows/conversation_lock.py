"""A lock that the user of the orchestrator brings, such as `ConversationLock`: held around each turn, with its commit.

A store that is away is never a lock that is held: `StoreUnavailable` goes to the caller, whatever the policy is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from inturn.errors import ConversationLockError
from inturn.store import clock

log = logging.getLogger("inturn.workflows")

FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.25


class ConversationLocks(Protocol):
    def acquire(self, conversation_id: str) -> Awaitable[Callable[[], Awaitable[Any]]]:
        """Returns the function that releases it. Raises `ConversationLockError` if someone else holds it."""
        ...


@asynccontextmanager
async def holding(lock: ConversationLocks | None, conversation_id: str, wait_s: float) -> AsyncIterator[None]:
    """With `wait_s` 0 the lock is asked for once; else again and again, until `ConversationLockError`."""
    if lock is None:
        yield
        return
    release = await _taken(lock, conversation_id, wait_s)
    try:
        yield
    finally:
        try:
            await release()
        except Exception:
            # the turn's own end counts, and the lock expires
            log.warning("the lock of conversation %s could not be released", conversation_id, exc_info=True)


async def _taken(lock: ConversationLocks, conversation_id: str, wait_s: float) -> Callable[[], Awaitable[Any]]:
    until, pause_s = clock.now() + wait_s, FIRST_PAUSE_S
    while True:
        try:
            return await lock.acquire(conversation_id)
        except ConversationLockError:
            left_s = until - clock.now()
            if left_s <= 0:
                raise
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LAST_PAUSE_S)
