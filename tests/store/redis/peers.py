"""Processes at a Redis server, and its owner."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import redis

from inturn.errors import StoreUnavailable
from inturn.store.redis.store import RedisStore
from tests.servers import PrivateRedis
from tests.store.world import Peer
from tests.waiting import until

T = TypeVar("T")
AT_ONCE_S = 10.0
"""At once is long before the call's own timeout, also on a busy machine."""


class RedisPeer(Peer):
    store: RedisStore

    def __init__(self, store: RedisStore) -> None:
        super().__init__(store)


Open = Callable[..., RedisPeer]
"""`open_at(url, timeout_s=10, ...)`: a new process, not connected yet."""


def admin(server: PrivateRedis, **options: Any) -> redis.Redis:
    """For what the owner of the server does to it."""
    return redis.Redis(unix_socket_path=server.socket_url.removeprefix("unix://"), **options)


async def started(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """The call is on its way."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    return task


async def warm_up(peer: RedisPeer) -> None:
    """It is connected, and the server knows the scripts.

    For one whose calls have so little time that, on a busy machine, not even the first may be answered.
    """
    numbers = itertools.count()

    async def is_served() -> bool:
        try:
            await peer.release(await peer.hold(f"warm {next(numbers)}"))
        except StoreUnavailable:
            return False
        return True

    await until(is_served)
