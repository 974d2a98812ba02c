"""`DistributedLockManager`: locks by key and id, shared on Redis with every service that uses the plain protocol.

Nothing waits, and nothing is raised if the store is away: the answer is `None` or `False`, and `last_refusal` says why.
A lock ends with its life; `extend_lock` prolongs it.
"""

from __future__ import annotations

from inturn import arguments
from inturn.compat import plain
from inturn.compat.face import Face, SyncFace
from inturn.compat.plain import PlainLocks

PREFIX = "distributed_lock:"


class _Manager(Face):
    def __init__(self, locks: PlainLocks, default_timeout: arguments.Seconds) -> None:
        super().__init__(locks)
        self.default_timeout = arguments.ttl(default_timeout, "default_timeout")

    def _life_ms(self, timeout: arguments.Seconds | None) -> int:
        life_s = self.default_timeout if timeout is None else arguments.ttl(timeout, "timeout")
        return round(life_s * 1000)


class AsyncDistributedLockManager(_Manager):
    """Locks by key and id, on the plain keys `distributed_lock:{key}`, for async code.

    Over a `redis.asyncio.Redis` or an `inturn.InTurn`.
    """

    def __init__(self, redis_client: plain.Client | plain.App, default_timeout: arguments.Seconds = 30) -> None:
        super().__init__(plain.async_locks(redis_client, "redis_client"), default_timeout)

    async def acquire_lock(self, lock_key: str, timeout: arguments.Seconds | None = None) -> str | None:
        """Returns the id of the lock, which lives for `timeout` seconds. `None`: it is held, or the store is away."""
        return self._tell(await self._take(_key(lock_key), self._life_ms(timeout)))

    async def release_lock(self, lock_key: str, lock_id: str) -> bool:
        """Returns whether the lock was still this owner's. If so, it is released."""
        return self._tell(await self._drop(_key(lock_key), _id(lock_id)))

    async def is_locked(self, lock_key: str) -> bool:
        return self._tell(await self._is_held(_key(lock_key)))

    async def extend_lock(self, lock_key: str, lock_id: str, additional_time: arguments.Seconds) -> bool:
        """Returns whether it is this owner's. If so, it lives `additional_time` seconds from now, or longer."""
        return self._tell(await self._extend(_key(lock_key), _id(lock_id), _additional_ms(additional_time)))


class DistributedLockManager(_Manager, SyncFace):
    """Locks by key and id, on the plain keys `distributed_lock:{key}`, for synchronous code.

    Over a `redis.Redis`, an `inturn.sync.InTurn`, or an `inturn.InTurn`, which runs in a thread of the manager's own;
    `close()` ends that thread.
    """

    def __init__(
        self,
        redis_client: plain.Client | plain.App | plain.SyncApp,
        default_timeout: arguments.Seconds = 30,
    ) -> None:
        super().__init__(self._drive(redis_client, plain.locks_of_client, plain.locks_of_app), default_timeout)

    def acquire_lock(self, lock_key: str, timeout: arguments.Seconds | None = None) -> str | None:
        """Returns the id of the lock, which lives for `timeout` seconds. `None`: it is held, or the store is away."""
        return self._ask(self._take(_key(lock_key), self._life_ms(timeout)))

    def release_lock(self, lock_key: str, lock_id: str) -> bool:
        """Returns whether the lock was still this owner's. If so, it is released."""
        return self._ask(self._drop(_key(lock_key), _id(lock_id)))

    def is_locked(self, lock_key: str) -> bool:
        return self._ask(self._is_held(_key(lock_key)))

    def extend_lock(self, lock_key: str, lock_id: str, additional_time: arguments.Seconds) -> bool:
        """Returns whether it is this owner's. If so, it lives `additional_time` seconds from now, or longer."""
        return self._ask(self._extend(_key(lock_key), _id(lock_id), _additional_ms(additional_time)))


def _key(lock_key: str) -> str:
    return PREFIX + arguments.name(lock_key, "lock_key")


def _id(lock_id: str) -> str:
    return arguments.name(lock_id, "lock_id")


def _additional_ms(additional_time: arguments.Seconds) -> int:
    return round(arguments.ttl(additional_time, "additional_time") * 1000)
