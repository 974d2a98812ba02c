"""Who listens is known to the server: a process whose connection is gone is not waited for."""

from __future__ import annotations

import asyncio

import pytest
import redis

from tests.servers import PrivateRedis
from tests.store.redis.peers import Open, RedisPeer, admin
from tests.store.world import work
from tests.waiting import until


@pytest.fixture
async def a(open_at: Open, redis_url: str) -> RedisPeer:
    return open_at(redis_url)


@pytest.fixture
async def b(open_at: Open, redis_url: str) -> RedisPeer:
    return open_at(redis_url)


async def killed(peer: RedisPeer, server: PrivateRedis) -> None:
    """Its connection is closed, and the server knows it."""
    await peer.store.close()
    push = peer.store._keys[0].push(peer.store.process)

    def is_heard(owner: redis.Redis) -> object:
        return owner.execute_command("PUBSUB", "SHARDNUMSUB", push)[1]  # type: ignore[no-untyped-call]

    with admin(server) as owner:
        await until(lambda: not is_heard(owner))


async def test_a_worker_that_was_killed_a_moment_ago_is_not_chosen_to_be_woken(
    open_at: Open, redis_url: str, redis_server: PrivateRedis, a: RedisPeer, b: RedisPeer
) -> None:
    dead = [open_at(redis_url) for _ in range(3)]
    for peer in (*dead, b):
        assert await peer.claim() == []
    for peer in dead:
        await killed(peer, redis_server)
    await a.put("k", "m")
    await until(b.told_ready)
    assert (await b.claim_one()).ident == work("m")


async def test_a_turn_that_is_offered_to_a_caller_that_was_killed_lapses_soon(
    open_at: Open, redis_url: str, redis_server: PrivateRedis, a: RedisPeer, b: RedisPeer
) -> None:
    dead, turn = open_at(redis_url), await a.begin("k")
    await dead.queue_up("k")
    waiting = await b.queue_up("k")
    await killed(dead, redis_server)
    await a.done(turn)
    assert not b.told("turn", waiting)
    await asyncio.sleep(0.55)  # time passes on the server
    await a.beat()
    await b.done(await b.offered(waiting))


async def test_a_lost_push_is_found_in_the_inbox(a: RedisPeer, b: RedisPeer, redis_server: PrivateRedis) -> None:
    turn = await a.begin("k")
    waiting = await b.queue_up("k")
    await killed(b, redis_server)
    await a.done(turn)
    assert [(notice.kind, notice.token) for notice in await b.beat()] == [("turn", waiting.token)]
    await b.done(await b.take_up(waiting))
