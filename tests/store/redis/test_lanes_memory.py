"""A server that lost its memory: what began before cannot become real after."""

from __future__ import annotations

import pytest

from tests.servers import PrivateRedis
from tests.store.redis.peers import Open, RedisPeer, admin
from tests.store.world import send_to, work


@pytest.fixture
async def a(open_at: Open, fresh_redis: PrivateRedis) -> RedisPeer:
    return open_at(fresh_redis.url)


def forget_everything(server: PrivateRedis) -> None:
    with admin(server) as owner:
        owner.flushall()


async def test_a_turn_of_before_cannot_commit(a: RedisPeer, fresh_redis: PrivateRedis) -> None:
    await a.put("k", "m")
    given, inline = await a.claim_one(), await a.begin("j", "m")
    forget_everything(fresh_redis)
    for turn in (given, inline):
        assert (await a.commit(turn, state=b"z", sends=[send_to("out", "s")])).status == "lost"
    await a.beat()
    for turn in (given, inline):
        assert (await a.commit(turn, state=b"z", sends=[send_to("out", "s")])).status == "lost"
        assert await a.state(turn.key) is None
    assert await a.mailbox("out") == []
    assert (await a.store.lanes(10)).in_use == 0


async def test_a_turn_of_before_cannot_fail_or_be_left(a: RedisPeer, fresh_redis: PrivateRedis) -> None:
    await a.put("k", "m")
    given, inline = await a.claim_one(), await a.begin("j")
    forget_everything(fresh_redis)
    await a.beat()
    for how in ("retry", "dead", "park", "back"):
        assert (await a.fail(given, how)).status == "lost"
    assert (await a.leave(inline)).status == "lost"
    assert not await a.store.confirm("k", given.token)
    assert await a.store.dead(10) == []


async def test_a_turn_of_before_does_not_end_the_one_of_after(a: RedisPeer, fresh_redis: PrivateRedis) -> None:
    await a.put("k", "m")
    before = await a.claim_one()
    forget_everything(fresh_redis)
    await a.put("k", "m")
    after = await a.claim_one()
    assert after.fence > before.fence
    assert (await a.commit(before, state=b"z")).status == "lost"
    await a.done(after, state=b"s")
    assert await a.state("k") == b"s"


async def test_scripts_that_the_server_forgot_are_sent_again(a: RedisPeer, fresh_redis: PrivateRedis) -> None:
    with admin(fresh_redis) as owner:
        await a.put("k", "m1", "m2")
        owner.script_flush()
        turn = await a.claim_one()
        owner.script_flush()
        following = await a.done(turn, state=b"s", next_token=a.new_token())
        assert following is not None
        assert following.ident == work("m2")
        owner.script_flush()
        assert (await a.fail(following, "dead")).status == "failed"
