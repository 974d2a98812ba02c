"""Processes at a server of the test's own choice, and the owner of that server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from typing import Any, Generic, TypeVar

import pytest
import redis

from inturn.store.redis.store import RedisStore
from tests.servers import PrivateCluster, PrivateRedis, PrivateSentinels
from tests.servers.cluster import NODE_TIMEOUT_MS
from tests.servers.sentinels import DOWN_AFTER_MS, SERVICE
from tests.servers.server import PrivateGroup, free_port, keep_port
from tests.store.redis.peers import Open, RedisPeer, admin
from tests.store.redis.proxy import Proxy

PATIENCE_MS = 20_000

G = TypeVar("G", bound=PrivateGroup)


@pytest.fixture
async def open_at(namespace: str) -> AsyncIterator[Open]:
    peers: list[RedisPeer] = []

    def open_at(url: str, *, timeout_s: float = 10.0, **options: Any) -> RedisPeer:
        process = f"host:{os.getpid()}:{len(peers):04x}"
        peers.append(RedisPeer(RedisStore(url, process, timeout_s=timeout_s, **{"namespace": namespace, **options})))
        return peers[-1]

    yield open_at
    for peer in peers:
        await peer.store.close()


@pytest.fixture
def unused_tcp_port() -> Iterator[int]:
    """Nobody listens there. Not one of those that outgoing connections get: who tries such a port again and again could
    be given it for his own end, and connect to himself.
    """
    port = free_port()
    with keep_port(port) or nullcontext():
        yield port


@pytest.fixture
def owner(fresh_redis: PrivateRedis) -> Iterator[redis.Redis]:
    with admin(fresh_redis) as client:
        yield client


@pytest.fixture
async def proxy(redis_server: PrivateRedis) -> AsyncIterator[Proxy]:
    """In front of the server that all tests share."""
    async with Proxy(redis_server.port) as proxy:
        yield proxy


class Reserve(Generic[G]):
    """Servers that belong together take two seconds to find each other: the next ones do so while a test uses these.

    They may wait for minutes until they are taken. `prepare` is done to each as soon as it has started.
    """

    def __init__(self, kind: type[G], prepare: Callable[[G], None]) -> None:
        self._kind = kind
        self._prepare = prepare
        self._thread = ThreadPoolExecutor(1)
        self._next = self._thread.submit(self._start)

    def take(self) -> G:
        group = self._next.result()
        self._next = self._thread.submit(self._start)
        return group

    def _start(self) -> G:
        group = self._kind().start()
        self._prepare(group)
        return group

    def close(self) -> None:
        self._thread.shutdown()
        self._next.result().stop()


def have_patience(cluster: PrivateCluster, timeout_ms: int = PATIENCE_MS) -> None:
    """A node that gets the processor late, on a busy machine, is not replaced where nobody has killed it."""
    for node in cluster.nodes:
        node.tell("CONFIG", "SET", "cluster-node-timeout", timeout_ms)


def sentinels_have_patience(group: PrivateSentinels, timeout_ms: int = PATIENCE_MS) -> None:
    for sentinel in group.sentinels:
        sentinel.tell("SENTINEL", "SET", SERVICE, "down-after-milliseconds", timeout_ms)


@pytest.fixture(scope="session")
def clusters() -> Iterator[Reserve[PrivateCluster]]:
    with closing(Reserve(PrivateCluster, have_patience)) as reserve:
        yield reserve


@pytest.fixture(scope="session")
def sentinel_sets() -> Iterator[Reserve[PrivateSentinels]]:
    with closing(Reserve(PrivateSentinels, sentinels_have_patience)) as reserve:
        yield reserve


@pytest.fixture(scope="session")
def cluster(clusters: Reserve[PrivateCluster]) -> Iterator[PrivateCluster]:
    """One cluster for the whole run. It is shared: nobody kills or pauses its nodes, or moves its slots."""
    with clusters.take() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def moving(clusters: Reserve[PrivateCluster]) -> Iterator[PrivateCluster]:
    """A cluster of one module, whose slots may be moved."""
    with clusters.take() as cluster:
        yield cluster


@pytest.fixture
def fresh_cluster(clusters: Reserve[PrivateCluster]) -> Iterator[PrivateCluster]:
    """A cluster for one test, whose nodes may be killed."""
    with clusters.take() as cluster:
        have_patience(cluster, NODE_TIMEOUT_MS)  # none any more
        yield cluster


@pytest.fixture(scope="module")
def sentinels(sentinel_sets: Reserve[PrivateSentinels]) -> Iterator[PrivateSentinels]:
    """Those of one module. Nobody kills their master."""
    with sentinel_sets.take() as sentinels:
        yield sentinels


@pytest.fixture
def fresh_sentinels(sentinel_sets: Reserve[PrivateSentinels]) -> Iterator[PrivateSentinels]:
    """Those of one test, whose master may be killed."""
    with sentinel_sets.take() as sentinels:
        sentinels_have_patience(sentinels, DOWN_AFTER_MS)  # none any more
        yield sentinels
