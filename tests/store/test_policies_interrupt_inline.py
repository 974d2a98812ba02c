"""Inline callers that interrupt: the turn that runs is ended as by a message, and the caller stands in the mailbox."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis.asyncio

from inturn.store.lane import PLAIN, Given, Rule
from tests.store.policies import ALLOWS, INTERRUPT, LATEST, MAX_CUTS, OTHER, ROLLBACK, ids, outcome, run, turns
from tests.store.world import WINDOW_MS, Inline, Peer, World
from tests.waiting import until

CUTS = Rule("interrupt")
"""What an inline caller asks for that interrupts, and does not allow others to."""
BOTH = Rule("interrupt", allows=True)


async def is_left_alone(peer: Peer, turn: Given | Inline) -> bool:
    return await peer.store.confirm(turn.key, turn.token)


async def test_from_its_arrival_on_the_commit_of_the_interrupted_turn_is_refused(a: Peer, b: Peer) -> None:
    turn = await a.begin("k", "mine", rule=ALLOWS)
    assert await outcome(b, "k", "mine", handler="") == "pending"
    await b.queue_up("k", rule=CUTS)
    assert (await a.commit(turn, state=b"{}")).status == "lost"
    assert await a.state("k") is None
    await until(lambda: a.told("lost", turn))
    (notice,) = a.told("lost", turn)
    assert (notice.name, notice.fence, notice.why) == ("k", turn.fence, "interrupted")
    await until(lambda: b.told_settled("k", "\0mine"))  # before it asks: that takes back a notice it has not read
    assert await outcome(b, "k", "mine", handler="") == "unknown"


async def test_it_begins_when_the_interrupted_turn_has_ended_and_not_before(a: Peer, b: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    opening = await b.queue_up("k", rule=CUTS)
    await b.beat()
    assert b.told("turn", opening) == []
    assert (await b.store.lane("k", 1)).token == ""
    assert (await a.leave(turn)).status == "lost"
    after = await b.offered(opening)
    assert after.fence > turn.fence
    await b.done(after)
    assert (await a.store.lanes(10)).lanes == []


async def test_a_turn_that_does_not_end_is_not_waited_for_longer_than_a_second(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    opening = await b.queue_up("k", rule=CUTS)
    await world.pass_time(1050)
    await b.beat()
    await b.beat()
    after = await b.offered(opening)
    assert (await a.leave(turn)).status == "lost"  # it ends too late, and ends nothing
    await b.done(after)


@pytest.mark.parametrize("rule", [PLAIN, CUTS, INTERRUPT])
async def test_an_inline_turn_that_does_not_allow_it_is_left_alone(a: Peer, b: Peer, rule: Rule) -> None:
    turn = await a.begin("k", rule=rule)
    opening = await b.queue_up("k", rule=CUTS)
    await a.done(turn)
    await b.done(await b.offered(opening))


@pytest.mark.parametrize("rule", [PLAIN, INTERRUPT, ROLLBACK])
async def test_a_turn_of_a_handler_that_does_not_allow_it_is_left_alone(a: Peer, b: Peer, rule: Rule) -> None:
    """Also if its own messages interrupt it."""
    turn = await run(a, "k", "1", rule=rule)
    opening = await b.queue_up("k", rule=CUTS)
    await a.done(turn)
    await b.done(await b.offered(opening))


async def test_the_message_of_a_handler_runs_again_directly_behind_the_caller(a: Peer, b: Peer) -> None:
    turn = await run(a, "k", "1", rule=ALLOWS)
    await a.put("k", "waits", rule=ALLOWS)
    answer = await b.store.begin(opening := b.opening("k", "mine", rule=CUTS))
    assert (answer.status, answer.ahead) == ("waiting", 0)
    assert (await a.commit(turn)).status == "lost"
    assert await a.mailbox("k") == ["mine", "1", "waits"]
    await a.fail(turn, "back")
    assert await a.claim() == []
    await b.done(await b.offered(opening))
    again = await a.claim_one()
    assert (ids(again), again.attempts) == (["1"], 1)
    await a.done(again)
    assert await turns(a) == [["waits"]]


async def test_a_burst_goes_behind_the_caller_as_one(a: Peer, b: Peer) -> None:
    merge = Rule("merge", cap=20, allows=True, window_ms=WINDOW_MS)
    turn = await run(a, "k", "1", "2", rule=merge)
    opening = await b.queue_up("k", rule=CUTS)
    await a.fail(turn, "back")
    await b.done(await b.offered(opening))
    assert await turns(a) == [["1", "2"]]


async def test_callers_who_wait_stay_in_order_before_the_message_of_the_interrupted_turn(a: Peer, b: Peer) -> None:
    turn = await run(a, "k", "1", rule=ALLOWS)
    await a.queue_up("k", "first")
    await a.put("k", "waits")
    await b.queue_up("k", "second")
    answer = await b.store.begin(b.opening("k", "mine", rule=CUTS))
    assert (answer.status, answer.ahead) == ("waiting", 2)
    assert (await a.commit(turn)).status == "lost"
    assert await a.mailbox("k") == ["first", "second", "mine", "1", "waits"]


async def test_all_who_wait_keep_their_places_when_an_inline_turn_is_interrupted(a: Peer, b: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    first = await a.queue_up("k", "first")
    await a.put("k", "waits")
    answer = await b.store.begin(mine := b.opening("k", "mine", rule=CUTS))
    assert (answer.status, answer.ahead) == ("waiting", 2)
    await a.leave(turn)
    await a.done(await a.offered(first))
    assert await turns(a) == [["waits"]]
    await b.done(await b.offered(mine))


@pytest.mark.parametrize(("priority", "ends"), [(1, "committed"), (0, "lost"), (-1, "lost")])
async def test_a_turn_of_a_higher_priority_is_left_alone(a: Peer, b: Peer, priority: int, ends: str) -> None:
    turn = await run(a, "k", "1", rule=ALLOWS, priority=priority)
    opening = await b.queue_up("k", rule=CUTS)
    assert (await a.commit(turn)).status == ends
    await a.fail(turn, "back")
    await b.done(await b.offered(opening))
    assert await turns(a) == ([] if ends == "committed" else [["1"]])


async def test_a_message_that_is_interrupted_stays_behind_the_caller_in_its_own_priority(a: Peer, b: Peer) -> None:
    turn = await run(a, "k", "1", rule=ALLOWS, priority=-1)
    await a.put("k", "2", priority=-1)
    await a.put("k", "urgent", priority=1)
    await b.queue_up("k", "mine", rule=CUTS)
    await a.fail(turn, "back")
    assert await a.mailbox("k") == ["urgent", "mine", "1", "2"]


async def test_the_turn_of_a_lane_that_is_stopped_is_left_alone(a: Peer, b: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    await a.store.stop("k", "paused", "")
    opening = await b.queue_up("k", rule=CUTS)
    await a.done(turn)
    await a.store.resume("k")
    await b.done(await b.offered(opening))


async def cut_three_times(a: Peer) -> Inline:
    turn = await a.begin("k", rule=BOTH)
    for _ in range(MAX_CUTS):
        opening = await a.queue_up("k", rule=BOTH)
        assert not await is_left_alone(a, turn)
        await a.leave(turn)
        turn = await a.offered(opening)
    return turn


async def test_after_three_interrupts_in_a_row_the_turn_is_left_alone(a: Peer, b: Peer) -> None:
    turn = await cut_three_times(a)
    fourth = await b.queue_up("k", rule=BOTH)
    await b.put("k", "1", rule=INTERRUPT)
    await a.done(turn)
    await b.done(await b.offered(fourth))
    assert await turns(a) == [["1"]]


async def test_a_commit_begins_a_new_count(a: Peer, b: Peer) -> None:
    turn = await cut_three_times(a)
    fourth = await b.queue_up("k", rule=BOTH)
    await a.done(turn)
    turn = await b.offered(fourth)
    await a.queue_up("k", rule=CUTS)
    assert (await b.commit(turn)).status == "lost"


async def test_interrupts_of_messages_and_of_callers_count_together(a: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    for number in range(MAX_CUTS):
        if number % 2:
            await a.put("k", str(number), rule=INTERRUPT)
            opening = await a.queue_up("k", rule=ALLOWS)
            await a.leave(turn)
            assert await a.store.cancel("k", f"work\0{number}", WINDOW_MS) == "cancelled"
        else:
            opening = await a.queue_up("k", rule=BOTH)
            await a.leave(turn)
        turn = await a.offered(opening)
    await a.queue_up("k", rule=CUTS)
    await a.done(turn)


async def test_a_turn_of_a_handler_is_interrupted_three_times_although_the_callers_commit(a: Peer, b: Peer) -> None:
    turn = await run(a, "k", "report", rule=ALLOWS)
    for _ in range(MAX_CUTS):
        opening = await b.queue_up("k", rule=CUTS)
        assert (await a.commit(turn)).status == "lost"
        await a.fail(turn, "back")
        await b.done(await b.offered(opening))
        turn = await a.claim_one()
        assert (ids(turn), turn.attempts) == (["report"], 1)
    last = await b.queue_up("k", rule=CUTS)
    await a.done(turn)
    await b.done(await b.offered(last))


async def test_a_begin_that_is_repeated_interrupts_nobody_more(a: Peer, b: Peer) -> None:
    """Its reply was lost. Meanwhile another caller who waited before it has its turn."""
    turn = await a.begin("k", rule=ALLOWS)
    before = await a.queue_up("k", rule=ALLOWS)
    opening = b.opening("k", rule=CUTS)
    assert [(await b.store.begin(opening)).status for _ in range(2)] == ["waiting"] * 2
    await a.leave(turn)
    another = await a.offered(before)
    answer = await b.store.begin(opening)
    assert (answer.status, answer.ahead) == ("waiting", 0)
    await a.done(another)
    mine = await b.offered(opening)
    assert (await b.take_up(opening)).fence == mine.fence
    await b.done(mine)


async def test_a_begin_that_is_repeated_while_the_turn_yields_says_the_same(a: Peer, b: Peer) -> None:
    await run(a, "k", "1", rule=ALLOWS)
    await a.queue_up("k")
    opening = b.opening("k", rule=CUTS)
    first, again = await b.store.begin(opening), await b.store.begin(opening)
    assert (first.status, first.ahead) == (again.status, again.ahead) == ("waiting", 1)
    assert await b.mailbox("k") == ["inline", "inline", "1"]


async def test_a_caller_whose_offer_was_taken_back_does_not_interrupt_in_its_turn(a: Peer, b: Peer) -> None:
    """Or two who interrupt and allow it would take the turn from each other without having begun."""
    first = await a.begin("k")
    waiting = await a.queue_up("k", rule=BOTH)
    await a.done(first)
    await until(lambda: a.told("turn", waiting))
    a.notices.clear()
    mine = await b.offered(await b.queue_up("k", rule=BOTH))  # nobody ran, so nobody is waited for
    assert (await a.store.begin(waiting)).status == "waiting"
    await b.done(mine)
    await a.done(await a.offered(waiting))


async def test_a_caller_whose_offer_lapsed_does_not_interrupt_once_more(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    opening = await b.queue_up("k", rule=CUTS)
    await a.leave(turn)
    await until(lambda: b.told("turn", opening))
    await world.pass_time(2100)
    another = await a.begin("k", rule=ALLOWS)
    assert (await b.store.begin(opening)).status == "waiting"
    await a.done(another)


async def test_who_gives_up_after_it_has_interrupted_leaves_the_lane_to_the_next(a: Peer, b: Peer) -> None:
    turn = await run(a, "k", "1", rule=ALLOWS)
    opening = await b.queue_up("k", rule=CUTS)
    assert (await b.leave(opening)).status == "left"
    assert await a.claim() == [], "it has not ended yet"
    await a.fail(turn, "back")
    assert await turns(a) == [["1"]]


async def test_who_is_refused_has_not_interrupted(a: Peer, b: Peer) -> None:
    turn = await a.begin("k", "m", rule=ALLOWS)
    await a.put("k", "1")
    refused: dict[str, Any] = {"pending": {"message_id": "m"}, "full": {"cap": 1}, "busy": {"busy": "reject"}}
    for status, how in refused.items():
        assert (await b.ask_turn("k", rule=CUTS, **how)).status == status
        assert await is_left_alone(a, turn)
    await a.done(turn)
    assert (await b.ask_turn("k", "m", rule=CUTS)).status == "duplicate"


@pytest.mark.parametrize("rule", [ROLLBACK, LATEST])
async def test_a_caller_supersedes_nobody(a: Peer, b: Peer, rule: Rule) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    await a.queue_up("k", "first")
    await a.put("k", "1", handler=OTHER)
    await b.queue_up("k", "mine", rule=rule)
    await a.done(turn)
    assert await a.mailbox("k") == ["1", "mine"]  # and the first one has its turn


async def test_a_free_lane_is_granted_at_once_and_allows_what_it_allows(a: Peer, b: Peer) -> None:
    closed, open_to_it = await a.begin("closed", rule=CUTS), await a.begin("open", rule=BOTH)
    await b.put("closed", "1", rule=INTERRUPT)
    await b.put("open", "1", rule=INTERRUPT)
    assert (await a.commit(closed)).status == "committed"
    assert (await a.commit(open_to_it)).status == "lost"


async def test_a_turn_whose_lease_has_expired_is_not_interrupted_but_over(world: World, a: Peer) -> None:
    await a.begin("k", rule=ALLOWS, ttl_ms=200)
    await world.pass_time(400)
    b = await world.peer()
    await b.done(await b.begin("k", rule=CUTS))


async def test_however_many_wait_nobody_is_overtaken(a: Peer, b: Peer) -> None:
    """They are too many to come with the caller, so the turn of the handler is left alone."""
    turn = await run(a, "k", "1", rule=ALLOWS)
    names = [f"{number:03d}" for number in range(120)]
    await asyncio.gather(*(a.queue_up("k", name) for name in names))
    await b.queue_up("k", "mine", rule=CUTS)
    await a.done(turn)
    waiting = await a.mailbox("k")
    assert (len(waiting), waiting[-1]) == (120, "mine")


@pytest.mark.parametrize("store_url", ["redis"], indirect=True)
async def test_nobody_gets_the_plain_key_of_the_interrupted_turn_before_that_has_ended(
    world: World, a: Peer, b: Peer
) -> None:
    plain = f"plain:{world.namespace}"
    turn = await a.begin("k", rule=ALLOWS, shares=plain)
    opening = await b.queue_up("k", rule=CUTS, shares=plain)
    async with redis.asyncio.Redis.from_url(world.url, decode_responses=True) as client:
        assert await client.get(plain) == turn.token
        await a.leave(turn)
        mine = await b.offered(opening)
        assert await client.get(plain) == mine.token
        await b.done(mine)
        assert await client.get(plain) is None
