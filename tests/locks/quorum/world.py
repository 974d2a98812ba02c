"""What the servers of a quorum say, and waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import redis

from inturn.locks.quorum import Quorum
from inturn.store.redis.quorum.store import QuorumKeys
from tests.servers import PrivateRedis
from tests.waiting import until

KEYS = QuorumKeys("inturn")
MakeQuorum = Callable[..., Quorum]


def ask(server: PrivateRedis, *command: Any) -> Any:
    with redis.Redis.from_url(server.url, decode_responses=True, socket_timeout=20) as client:
        return client.execute_command(*command)


def votes(servers: list[PrivateRedis], name: str) -> list[str | None]:
    """Whom each server has voted for; None also for one that is down."""
    return [ask(server, "GET", KEYS.lock(name)) if server.is_running else None for server in servers]


def connections(servers: list[PrivateRedis]) -> list[int]:
    """How many there are beside the one that asks."""
    return [len(ask(server, "CLIENT", "LIST").splitlines()) - 1 for server in servers]


def are_ready(quorum: Quorum) -> bool:
    """Whether all servers are connected on this loop; nothing outside tells."""
    return all(server.is_ready for server in quorum._store._servers.here())


async def until_clean(servers: list[PrivateRedis], name: str, within_s: float = 20) -> None:
    await until(lambda: votes(servers, name) == [None] * len(servers), within_s)


async def ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
