"""Promises of the policies that reviews found broken, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from inturn.store.lane import Failure
from tests.store.policies import ALLOWS, INTERRUPT, MERGE, OTHER, ROLLBACK, ids, outcome, run, steer, turns
from tests.store.world import Peer, World, send_to

BOTH = ("work", OTHER)
MOST_CUTS = 3
"""Interrupts in a row."""


async def test_a_rollback_that_supersedes_another_while_the_turn_yields_hands_on_its_count(a: Peer) -> None:
    turn = await run(a, "k", "0", rule=ROLLBACK)
    for number in range(MOST_CUTS):
        await a.put("k", f"{number}a", rule=ROLLBACK)
        assert (await a.commit(turn)).status == "lost"
        await a.put("k", f"{number}b", rule=ROLLBACK)  # while the old turn still yields
        assert await outcome(a, "k", f"{number}a") == "superseded"
        await a.fail(turn, "back")
        turn = await a.claim_one()
        assert ids(turn) == [f"{number}b"]
    await a.put("k", "last", rule=ROLLBACK)
    assert ids(await a.done(turn, next_token=a.new_token())) == ["last"]


async def test_an_interrupt_takes_along_what_waits_for_its_handler_already(a: Peer) -> None:
    """What was accepted first runs first, also if it waits behind the turn that is interrupted."""
    before = await run(a, "k", "before", handler="third")
    await a.put("k", "1", handler=OTHER, rule=ALLOWS)
    await a.put("k", "2", rule=INTERRUPT)
    await a.put("k", "waits", handler=OTHER, rule=ALLOWS)
    await a.done(before)
    turn = await a.claim_one(*BOTH)
    assert ids(turn) == ["1"]
    await a.put("k", "3", rule=INTERRUPT)
    await a.fail(turn, "back")
    assert await turns(a, *BOTH) == [["2", "3"], ["1"], ["waits"]]


async def test_a_turn_of_another_handler_is_interrupted_three_times_although_the_interrupters_commit(a: Peer) -> None:
    turn = await run(a, "k", "report", handler=OTHER, rule=ALLOWS)
    for number in range(MOST_CUTS):
        await a.put("k", f"i{number}", rule=INTERRUPT)
        assert (await a.commit(turn)).status == "lost"
        await a.fail(turn, "back")
        interrupter = await a.claim_one(*BOTH)
        assert ids(interrupter) == [f"i{number}"]
        await a.done(interrupter)
        turn = await a.claim_one(*BOTH)
        assert ids(turn) == ["report"]
    await a.put("k", "last", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "committed"
    assert await turns(a, *BOTH) == [["last"]]


@pytest.mark.parametrize(("priority", "ends"), [(-1, "committed"), (0, "lost"), (1, "lost")])
async def test_an_inline_turn_that_allows_it_is_not_interrupted_by_a_lower_priority(
    a: Peer, priority: int, ends: str
) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    await a.put("k", "1", rule=INTERRUPT, priority=priority)
    assert (await a.commit(turn)).status == ends


async def test_a_delayed_rollback_supersedes_a_turn_whose_lease_has_expired(world: World, a: Peer, b: Peer) -> None:
    await run(b, "k", "old", rule=ROLLBACK, ttl_ms=200)
    assert (await a.submit("k", "new", rule=ROLLBACK, delay_ms=180)).status == "delayed"
    await world.pass_time(300)  # nobody looked between the end of the lease and the time at which the rollback is due
    assert await turns(a) == [["new"]]
    assert await outcome(a, "k", "old") == "superseded"


async def test_a_rollback_by_a_send_supersedes_a_turn_whose_lease_has_expired(world: World, a: Peer, b: Peer) -> None:
    await run(b, "k", "old", rule=ROLLBACK, ttl_ms=200)
    sender = await a.begin("from")
    await world.pass_time(300)
    await a.done(sender, sends=[send_to("k", "new", rule=ROLLBACK)])
    assert await turns(a) == [["new"]]
    assert await outcome(a, "k", "old") == "superseded"


async def test_an_interrupt_does_not_overtake_however_many_wait(a: Peer) -> None:
    names = [f"{number:03d}" for number in range(130)]
    await a.store.stop("k", "paused", "")
    await a.put("k", *names, rule=INTERRUPT)
    await a.store.resume("k")
    turn = await a.claim_one()
    await a.put("k", "new", rule=INTERRUPT)
    await a.done(turn)  # it was left alone: those before the new one are too many to come with it
    assert [*ids(turn), *(name for burst in await turns(a) for name in burst)] == [*names, "new"]


async def test_a_turn_takes_in_about_a_thousand_messages_and_can_still_be_committed(a: Peer, b: Peer) -> None:
    rule = MERGE._replace(cap=2)
    names = [f"{number:04d}" for number in range(1300)]
    turn = await run(a, "k", "first", rule=rule)
    await asyncio.gather(*(a.submit("k", name, rule=rule) for name in names))
    seen = ids(turn)
    while new := ids((await steer(a, turn, len(seen))).messages):
        seen += new
    assert 1000 <= len(seen) <= 1100
    await a.fail(turn, "back")  # as large as it is, it is given again
    again = await b.claim_one()
    assert ids(again) == seen
    assert (await b.commit(again)).status == "committed"
    assert await outcome(a, "k", seen[-1]) == "done"
    rest = await b.claim_one()
    assert len(ids(rest)) == 2
    assert not {*ids(rest)} & {*seen}


@pytest.mark.parametrize("how", ["retry", "back", "split", "park", "dead"])
async def test_what_a_turn_that_fails_has_never_seen_goes_back_untouched(a: Peer, how: Any) -> None:
    """The reply with the new messages was lost, or its task was cancelled."""
    turn = await run(a, "k", "1", "2", rule=MERGE)
    await a.put("k", "3", rule=MERGE)
    assert ids((await steer(a, turn)).messages) == ["3"]
    error = "" if how == "back" else '{"type":"ValueError"}'
    ended = await a.store.fail(Failure(turn.key, turn.token, turn.fence, how, error=error, attempts=4, have=2))
    assert ended.status == "failed"
    messages = {message.id: message for message in (await a.store.lane("k", 10)).messages}
    assert (messages["3"].attempts, messages["3"].errors, messages["3"].lead) == (0, (), "")
    assert await outcome(a, "k", "3") == "pending"
    assert await a.store.cancel("k", "work\x003", 60_000) == "cancelled", "it has not begun"


@pytest.fixture
async def raw(world: World) -> AsyncIterator[Any]:
    async with redis.asyncio.Redis.from_url(world.url, decode_responses=True) as client:
        yield client


@pytest.fixture
def plain(namespace: str) -> str:
    return f"plain:{namespace}"


@pytest.mark.parametrize("store_url", ["redis"], indirect=True)
async def test_a_lane_that_lost_its_plain_key_to_another_of_its_process_takes_nothing_from_it(
    a: Peer, raw: Any, plain: str
) -> None:
    """A plain service deleted the key without comparing, and the next lane of the same process took it."""
    robbed = await run(a, "one", "1", shares=plain)
    await raw.delete(plain)
    turn = await run(a, "two", "2", shares=plain, ttl_ms=2000)
    await a.beat()
    assert not await a.store.confirm("one", robbed.token)
    assert (await a.commit(robbed)).status == "lost"
    await a.fail(robbed, "back")
    assert await raw.get(plain) == turn.token
    await raw.pexpire(plain, 500)
    await a.beat()
    assert await raw.pttl(plain) > 1000, "it is renewed for the lane that holds it"
    assert await a.store.confirm("two", turn.token)
    await raw.set(plain, "theirs")
    await a.beat()
    assert not await a.store.confirm("two", turn.token)


@pytest.mark.parametrize("store_url", ["redis"], indirect=True)
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
    async with asyncio.timeout(5):
        while not (rest := await a.claim()):  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.02)
    assert ids(rest[0]) == ["2"]
    assert await raw.get(theirs) == rest[0].token
    assert await raw.get(plain) is None
