"""Processes at a server of the test's own choice."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inturn.services import PrivateRedis
from inturn.store.redis.store import RedisStore
from tests.store.redis.peers import Open, RedisPeer
from tests.store.redis.proxy import Proxy


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
