"""`VisitorLockService`: one answer at a time for a visitor. It never waits; the lock ends with its life.

The key is `ai:lock:visitor:{uid}`. It follows the plain protocol, so services in other languages share it on Redis.
"""

from __future__ import annotations

from inturn import arguments
from inturn.compat import plain
from inturn.compat.face import Face

PREFIX = "ai:lock:visitor:"


class VisitorLockService(Face):
    """One answer at a time per visitor, on the plain key `ai:lock:visitor:{uid}`.

    Over a `redis.asyncio.Redis` or an `inturn.InTurn`. If the store is away, calls return `None` or `False`.
    """

    def __init__(self, redis_client: plain.Client | plain.App) -> None:
        super().__init__(plain.async_locks(redis_client, "redis_client"))

    async def acquire_lock(self, visitor_uid: str, ttl_seconds: arguments.Seconds = 30) -> str | None:
        """Returns the id of the lock; `None` if the visitor is already being answered, or the store is away."""
        life_ms = round(arguments.ttl(ttl_seconds, "ttl_seconds") * 1000)
        return self._tell(await self._take(_key(visitor_uid), life_ms))

    async def release_lock(self, visitor_uid: str, lock_id: str) -> bool:
        """Returns whether the lock was still this owner's. If so, it is released."""
        return self._tell(await self._drop(_key(visitor_uid), arguments.name(lock_id, "lock_id")))


def _key(visitor_uid: str) -> str:
    return PREFIX + arguments.name(visitor_uid, "visitor_uid")
