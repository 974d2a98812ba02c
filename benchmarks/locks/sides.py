"""The sides of the comparison: our lock and its peers, each opened fresh for a round and made in the same way.

Peers get fair conditions: redis-py with hiredis, pools as large as they want, warm connections, their own defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol, cast

from benchmarks.plan import Target
from inturn.app import InTurn

TTL_S = 30


class AsyncLock(Protocol):
    def acquire(self) -> Coroutine[Any, Any, Any]: ...

    def release(self) -> Coroutine[Any, Any, Any]: ...


class ThreadLock(Protocol):
    def acquire(self) -> Any: ...

    def release(self) -> Any: ...


MakeLock = Callable[[str], AsyncLock]
MakeThreadLock = Callable[[str], ThreadLock]


@asynccontextmanager
async def inturn(target: Target, connections: int = 1) -> AsyncIterator[MakeLock]:
    async with InTurn(target.url, namespace=target.prefix) as app:
        yield lambda name: app.lock(name, ttl=TTL_S)


@asynccontextmanager
async def redis_py(target: Target, connections: int = 1) -> AsyncIterator[MakeLock]:
    from redis.asyncio import Redis

    async with Redis.from_url(target.url) as client:
        await asyncio.gather(*(client.ping() for _ in range(connections)))
        yield lambda name: client.lock(f"{target.prefix}:{name}", timeout=TTL_S)


@asynccontextmanager
async def pottery(target: Target, connections: int = 1) -> AsyncIterator[MakeLock]:
    from pottery import AIORedlock
    from redis.asyncio import Redis

    async with Redis.from_url(target.url) as client:
        await asyncio.gather(*(client.ping() for _ in range(connections)))

        def make(name: str) -> AsyncLock:
            lock = AIORedlock(key=f"{target.prefix}:{name}", masters={client}, auto_release_time=TTL_S)
            return cast(AsyncLock, lock)

        yield make


OpenSide = Callable[[Target, int], AbstractAsyncContextManager[MakeLock]]


@contextmanager
def python_redis_lock(target: Target, threads: ThreadPoolExecutor, connections: int) -> Iterator[MakeThreadLock]:
    """It is synchronous; it is at its best with threads that share a pool of connections."""
    import redis
    import redis_lock

    with redis.Redis.from_url(target.url) as client:
        list(threads.map(lambda _: client.ping(), range(connections)))
        yield lambda name: cast(ThreadLock, redis_lock.Lock(client, f"{target.prefix}:{name}", expire=TTL_S))
