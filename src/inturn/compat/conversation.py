"""`ConversationLock`: one answer at a time for a conversation, for ten seconds; a second caller gets an error at once.

The key is `lock:conv:{id}`. It follows the plain protocol, so services in other languages share it on Redis.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from inturn import arguments
from inturn.compat import plain
from inturn.compat.counted import CountedLocks
from inturn.errors import ConversationLockError, StoreUnavailable

log = logging.getLogger("inturn.locks")

PREFIX = "lock:conv:"
LIFE_S = 10.0

Release = Callable[[], Awaitable[bool]]


class ConversationLock:
    """One answer at a time per conversation, on the plain key `lock:conv:{id}`.

    Over a `redis.asyncio.Redis` or an `inturn.InTurn`.
    """

    def __init__(self, redis_client: plain.Client | plain.App, ttl: arguments.Seconds = LIFE_S) -> None:
        self._locks = CountedLocks(plain.async_locks(redis_client, "redis_client"), log)
        self._life_s = arguments.ttl(ttl)

    async def acquire(self, conversation_id: str) -> Release:
        """Take the lock. Returns the function that releases it.

        `ConversationLockError` if the conversation is already being answered, `StoreUnavailable` if the store is away.
        """
        key = PREFIX + arguments.name(conversation_id, "conversation_id")
        try:
            lock_id = await self._locks.take(key, round(self._life_s * 1000))
        except StoreUnavailable as error:
            log.warning("refused name=%s why=away: %s", key, error)
            raise
        if lock_id is None:
            raise ConversationLockError(conversation_id)
        is_released = False

        async def release() -> bool:
            """Returns whether the lock was held until now. It raises nothing: the work is done by now."""
            nonlocal is_released
            if is_released:
                return False
            is_released = True
            try:
                status = await self._locks.drop(key, lock_id)
            except StoreUnavailable as error:
                log.warning("away name=%s: the lock expires by itself: %s", key, error)
                return False
            return status == "done"

        return release
