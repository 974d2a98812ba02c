"""Processes at a server of one's own choice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import pytest
import redis

from inturn.services import PrivateRedis
from inturn.store.redis.store import RedisStore
from tests.store.redis.proxy import Proxy
from tests.store.world import Peer

T = TypeVar("T")


class RedisPeer(Peer):
    store: RedisStore

    def __init__(self, store: RedisStore) -> None:
        super().__init__(store)


Open = Callable[..., RedisPeer]
"""`open_at(url, timeout_s=2, ...)`: a new process, not connected yet."""


@pytest.fixture
async def open_at(namespace: str) -> AsyncIterator[Open]:
    peers: list[RedisPeer] = []

    def open_at(url: str, *, timeout_s: float = 2.0, **options: Any) -> RedisPeer:
        process = f"host:{os.getpid()}:{len(peers):04x}"
        peers.append(RedisPeer(RedisStore(url, process, timeout_s=timeout_s, **{"namespace": namespace, **options})))
        return peers[-1]

    yield open_at
    for peer in peers:
        await peer.store.close()


@pytest.fixture
async def proxy(redis_server: PrivateRedis) -> AsyncIterator[Proxy]:
    """In front of the server that all tests share."""
    async with Proxy(redis_server.port) as proxy:
        yield proxy


def admin(server: PrivateRedis, **options: Any) -> redis.Redis:
    """For what the owner of the server does to it."""
    return redis.Redis(unix_socket_path=server.socket_url.removeprefix("unix://"), **options)


async def started(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """The call is on its way."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    return task
