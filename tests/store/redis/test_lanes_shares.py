"""Shared keys: a turn also holds the plain key that services outside of inturn lock, and waits while they hold it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from inturn.store.lane import Given
from tests.store.policies import INTERRUPT, MERGE, due_in, ids, run, steer, turns
from tests.store.world import Peer, World, send_to
from tests.waiting import WITHIN_S, until

PLAIN = "ai:lock:visitor:7"
"""Other tests share the server: see `plain`."""


@pytest.fixture
async def world(redis_url: str, namespace: str) -> AsyncIterator[World]:
    world = World(redis_url, namespace)
    await world.let_time_flow()
    yield world
    await world.close()


@pytest.fixture
async def standing(redis_url: str, namespace: str) -> AsyncIterator[World]:
    """Time passes only when the test says so."""
    world = World(redis_url, namespace)
    yield world
    await world.close()


@pytest.fixture
async def raw(redis_url: str) -> AsyncIterator[Any]:
    async with redis.asyncio.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def plain(namespace: str) -> str:
    return f"{PLAIN}:{namespace}"


async def lock_plainly(raw: Any, plain: str, ms: int = 60_000) -> bool:
    """As other services do."""
    return bool(await raw.set(plain, "theirs", nx=True, px=ms))


async def held(a: Peer, plain: str, message_id: str = "1", **how: Any) -> Given:
    return await run(a, "k", message_id, shares=plain, **how)


async def test_while_a_turn_runs_others_cannot_take_the_plain_key(a: Peer, raw: Any, plain: str) -> None:
    turn = await held(a, plain)
    assert await raw.get(plain) == turn.token
    assert 0 < await raw.pttl(plain) <= 30_000
    assert not await lock_plainly(raw, plain)
    await a.done(turn)
    assert await lock_plainly(raw, plain)


async def test_while_others_hold_the_plain_key_no_turn_begins(a: Peer, raw: Any, plain: str) -> None:
    assert await lock_plainly(raw, plain)
    await a.put("k", "1", shares=plain)
    assert 0 < await due_in(a) <= 110  # it is looked at every 100 ms: who deletes it tells nobody
    await raw.delete(plain)
    await until_given(a)


async def until_given(a: Peer) -> Given:
    found: list[Given] = []
    async with asyncio.timeout(WITHIN_S):
        while not found:
            await asyncio.sleep(0.02)
            found = await a.claim()
    return found[0]


async def test_a_plain_key_that_expires_frees_the_lane(world: World, a: Peer, raw: Any, plain: str) -> None:
    assert await lock_plainly(raw, plain)
    await a.put("k", "1", shares=plain)
    assert await a.claim() == []
    await world.pass_time(60_000)
    assert (await until_given(a)).ident == "work\x001"


async def test_a_plain_key_without_an_expiry_is_waited_for_too(a: Peer, raw: Any, plain: str) -> None:
    await raw.set(plain, "theirs")
    await a.put("k", "1", shares=plain)
    assert 0 < await due_in(a) <= 110
    await raw.delete(plain)
    await until_given(a)


async def test_two_lanes_that_share_one_plain_key_take_turns(a: Peer, plain: str) -> None:
    first = await held(a, plain)
    await a.put("j", "2", shares=plain)
    assert await a.claim() == []
    await a.done(first)
    assert (await until_given(a)).key == "j"


async def test_the_beat_renews_the_plain_key(world: World, a: Peer, raw: Any, plain: str) -> None:
    await held(a, plain, ttl_ms=60_000)
    await world.pass_time(30_000)
    before = await raw.pttl(plain)
    await a.beat()
    assert await raw.pttl(plain) > before


async def test_a_turn_whose_plain_key_is_gone_loses_its_lease(a: Peer, raw: Any, plain: str) -> None:
    turn = await held(a, plain)
    await raw.delete(plain)
    assert await lock_plainly(raw, plain)
    await a.beat()
    await until(lambda: a.told("lost", turn))
    assert (await a.commit(turn, state=b"{}")).status == "lost"
    assert await raw.get(plain) == "theirs"
    assert await a.state("k") is None


async def test_a_lease_that_expires_gives_the_plain_key_back(world: World, a: Peer, raw: Any, plain: str) -> None:
    await held(a, plain, ttl_ms=200)
    b = await world.peer()
    await world.pass_time(300)
    again = await b.claim_one()
    assert await raw.get(plain) == again.token


async def test_a_commit_hands_the_plain_key_over_to_the_next_turn(a: Peer, raw: Any, plain: str) -> None:
    turn = await held(a, plain)
    await a.put("k", "2", shares=plain)
    token = a.new_token()
    following = await a.done(turn, next_token=token)
    assert following is not None
    assert await raw.get(plain) == token
    await a.done(following)
    assert await raw.get(plain) is None


@pytest.mark.parametrize("how", ["retry", "dead", "back", "park"])
async def test_every_end_of_a_turn_gives_the_plain_key_back(a: Peer, raw: Any, plain: str, how: Any) -> None:
    await a.fail(await held(a, plain), how, delay_ms=60_000)
    assert await raw.get(plain) is None


async def test_clearing_the_lane_and_unclaiming_give_the_plain_key_back(a: Peer, raw: Any, plain: str) -> None:
    await held(a, plain)
    await a.store.clear("k")
    assert await raw.get(plain) is None
    await a.put("k", "2", shares=plain)
    call = a.new_token()
    await a.claim(call=call)
    assert await raw.get(plain) == f"{call}.1"
    await a.store.unclaim(0, call)
    assert await raw.get(plain) is None


async def test_an_interrupted_turn_keeps_the_plain_key_until_it_has_yielded(a: Peer, raw: Any, plain: str) -> None:
    turn = await held(a, plain, rule=INTERRUPT)
    await a.put("k", "2", rule=INTERRUPT, shares=plain)
    assert await raw.get(plain) == turn.token
    assert not await lock_plainly(raw, plain)
    await a.fail(turn, "back")
    assert await raw.get(plain) is None
    after = await a.claim_one()
    assert ids(after) == ["1", "2"]
    assert await raw.get(plain) == after.token


async def test_an_interrupted_turn_that_does_not_yield_keeps_the_plain_key_for_a_second(
    standing: World, raw: Any, plain: str
) -> None:
    a = await standing.peer()
    await held(a, plain, rule=INTERRUPT)
    await a.put("k", "2", rule=INTERRUPT, shares=plain)
    await standing.pass_time(950)
    await a.beat()
    assert not await lock_plainly(raw, plain)
    await standing.pass_time(100)
    after = await a.claim_one()
    assert await raw.get(plain) == after.token


async def test_messages_with_different_plain_keys_are_not_gathered_or_steered(a: Peer, plain: str) -> None:
    await a.put("k", "1", rule=MERGE, shares=plain)
    await a.put("k", "2", rule=MERGE, shares=f"{plain}:other")
    turn = await a.claim_one()
    assert ids(turn) == ["1"]
    assert ids((await steer(a, turn)).messages) == []
    await a.done(turn)
    assert await turns(a) == [["2"]]


async def test_an_inline_turn_holds_the_plain_key(a: Peer, raw: Any, plain: str) -> None:
    turn = await a.begin("k", shares=plain)
    assert await raw.get(plain) == turn.token
    await a.done(turn)
    assert await raw.get(plain) is None
    left = await a.begin("k", shares=plain)
    await a.leave(left)
    assert await raw.get(plain) is None


async def test_an_inline_turn_waits_while_others_hold_the_plain_key(a: Peer, raw: Any, plain: str) -> None:
    assert await lock_plainly(raw, plain)
    waiting = await a.queue_up("k", shares=plain)
    await raw.delete(plain)
    async with asyncio.timeout(WITHIN_S):
        while not a.told("turn", waiting):
            await a.beat()
            await asyncio.sleep(0.02)
    turn = await a.take_up(waiting)
    assert await raw.get(plain) == turn.token
    await a.done(turn)


async def test_an_inline_turn_that_does_not_wait_is_busy_while_others_hold_the_plain_key(
    world: World, a: Peer, raw: Any, plain: str
) -> None:
    assert await lock_plainly(raw, plain)
    answer = await a.ask_turn("k", busy="reject", shares=plain)
    assert (answer.status, answer.holder) == ("busy", "")
    assert (await a.store.lanes(10)).lanes == []
    await raw.delete(plain)
    await a.done(await a.begin("k", busy="reject", shares=plain))


async def test_a_message_that_does_not_wait_is_rejected_while_others_hold_the_plain_key(
    a: Peer, raw: Any, plain: str
) -> None:
    assert await lock_plainly(raw, plain)
    answer = await a.submit("k", "1", busy="reject", shares=plain)
    assert (answer.status, answer.holder) == ("busy", "")
    assert (await a.store.lanes(10)).lanes == []


async def test_a_send_takes_its_plain_key_along(a: Peer, raw: Any, plain: str) -> None:
    await a.done(await a.begin("from"), sends=[send_to("k", "1", shares=plain)])
    turn = await a.claim_one()
    assert await raw.get(plain) == turn.token
    await a.done(turn)


async def test_nothing_of_a_shared_turn_is_left(world: World, a: Peer, raw: Any, plain: str) -> None:
    await a.done(await held(a, plain), window_ms=0)
    await a.store.depart()
    assert await world.left_behind() == set()
    assert await raw.get(plain) is None


async def test_who_departs_gives_its_plain_keys_back_with_its_leases(
    world: World, a: Peer, raw: Any, plain: str
) -> None:
    await held(a, plain)
    b = await world.peer()
    await a.store.depart()
    await b.beat()
    again = await b.claim_one()
    assert await raw.get(plain) == again.token


async def test_a_lane_that_lost_its_plain_key_to_another_of_its_process_takes_nothing_from_it(
    a: Peer, raw: Any, plain: str
) -> None:
    """A plain service deleted the key without comparing, and the next lane of the same process took it."""
    robbed = await run(a, "one", "1", shares=plain)
    await raw.delete(plain)
    turn = await run(a, "two", "2", shares=plain, ttl_ms=60_000)
    await a.beat()
    assert not await a.store.confirm("one", robbed.token)
    assert (await a.commit(robbed)).status == "lost"
    await a.fail(robbed, "back")
    assert await raw.get(plain) == turn.token
    await raw.pexpire(plain, 20_000)
    await a.beat()
    assert await raw.pttl(plain) > 30_000, "it is renewed for the lane that holds it"
    assert await a.store.confirm("two", turn.token)
    await raw.set(plain, "theirs")
    await a.beat()
    assert not await a.store.confirm("two", turn.token)


async def test_an_interrupt_with_another_plain_key_does_not_join_what_it_interrupts(
    a: Peer, raw: Any, plain: str
) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT, shares=plain)
    theirs = f"{plain}:theirs"
    await raw.set(theirs, "theirs", px=60_000)
    await a.put("k", "2", rule=INTERRUPT, shares=theirs)
    await a.done(turn)  # it was left alone
    assert await a.claim() == []
    await raw.delete(theirs)
    async with asyncio.timeout(WITHIN_S):
        while not (rest := await a.claim()):  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.02)
    assert ids(rest[0]) == ["2"]
    assert await raw.get(theirs) == rest[0].token
    assert await raw.get(plain) is None
