"""Delayed messages: they take their place when they are due, by their rule, and hold up nothing until then."""

from __future__ import annotations

import json
from typing import Any

import redis.asyncio

from inturn.store.lane import PLAIN, Rule
from tests.store.policies import (
    INTERRUPT,
    LATEST,
    MERGE,
    ROLLBACK,
    cancel,
    due_in,
    ids,
    outcome,
    quiet,
    run,
    status,
    turns,
)
from tests.store.world import Peer, World, work
from tests.waiting import until

LONG = 60_000


async def delay(a: Peer, message_id: str, delay_ms: int, rule: Rule = PLAIN, **how: Any) -> None:
    told = await a.submit("k", message_id, delay_ms=delay_ms, rule=rule, **how)
    assert (told.status, told.ahead) == ("delayed", 0)


async def test_a_delayed_message_is_given_when_it_is_due_and_not_before(world: World, a: Peer) -> None:
    await delay(a, "1", 300)
    assert 0 < await due_in(a) <= 300
    await world.pass_time(350)
    turn = await a.claim_one()
    assert ids(turn) == ["1"]
    assert turn.messages[0].waited_ms < 300  # it has waited from the time on at which it was due


async def test_delayed_messages_come_in_the_order_in_which_they_are_due(world: World, a: Peer) -> None:
    await delay(a, "late", 300)
    await delay(a, "soon", 150)
    await delay(a, "sooner", 100)
    await world.pass_time(400)
    assert await turns(a) == [["sooner"], ["soon"], ["late"]]


async def test_a_delayed_message_comes_behind_what_waits_when_it_is_due(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1")
    await delay(a, "2", 100)
    await a.put("k", "3")
    await world.pass_time(200)
    await a.beat()
    await a.put("k", "4")
    await a.done(turn)
    assert await turns(a) == [["3"], ["2"], ["4"]]


async def test_a_delayed_message_has_the_place_of_its_priority_when_it_is_due(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1")
    await delay(a, "urgent", 100, priority=1)
    await a.put("k", "2")
    await world.pass_time(200)
    await a.beat()
    await a.done(turn)
    assert await turns(a) == [["urgent"], ["2"]]


async def test_a_delayed_message_holds_up_nothing(a: Peer) -> None:
    await delay(a, "1", LONG)
    assert (await a.store.lanes(10)).lanes == []
    assert (await a.submit("k", "2", busy="reject")).status == "accepted"
    assert await turns(a) == [["2"]]
    await a.done(await a.begin("k"))


async def test_a_delayed_message_does_not_keep_the_state_alive(world: World, a: Peer) -> None:
    await a.done(await run(a, "k", "1"), state=b"{}", keep_ms=4000)
    await delay(a, "2", 8000, keep_ms=4000)
    await world.pass_time(6000)
    assert await a.state("k") is None
    await world.pass_time(4000)
    assert (await a.claim_one()).state is None


async def test_a_state_that_still_lives_is_kept_from_the_time_on_at_which_the_message_is_due(
    world: World, a: Peer
) -> None:
    await a.done(await run(a, "k", "1"), state=b"{}", keep_ms=12_000)
    await delay(a, "2", 2000, keep_ms=12_000)
    await world.pass_time(4000)
    await a.beat()
    await world.pass_time(12_000)
    assert (await a.claim_one()).state == b"{}"


async def test_a_delayed_message_that_is_brought_again_is_pending_and_comes_no_sooner(a: Peer) -> None:
    await delay(a, "1", LONG)
    assert await status(a, "k", "1") == "pending"
    assert await status(a, "k", "1", delay_ms=10) == "pending"
    assert await outcome(a, "k", "1") == "pending"
    assert await due_in(a) > LONG - 5000


async def test_delayed_messages_count_for_the_cap_of_delayed_ones(a: Peer) -> None:
    await delay(a, "1", LONG, cap=2)
    await a.put("k", "2", cap=2)
    full = await a.submit("k", "3", cap=2, delay_ms=LONG)
    assert (full.status, full.ahead) == ("full", 2)
    assert await status(a, "k", "3", cap=2) == "accepted"


async def test_a_delayed_message_is_shown_as_one(a: Peer) -> None:
    await a.put("k", "1")
    await delay(a, "2", LONG)
    (first, second) = (await a.store.lane("k", 10)).messages
    assert (first.id, first.place, first.due_in_ms) == ("1", "waiting", 0)
    assert (second.id, second.place) == ("2", "delayed")
    assert LONG - 5000 < second.due_in_ms <= LONG
    assert (await a.store.lane("k", 10)).waiting == 1


async def test_the_first_delayed_messages_are_shown_in_the_order_in_which_they_come(world: World, a: Peer) -> None:
    for number, delay_ms in enumerate((5000, 1000, 4000, 2000, 3000, 1000)):
        await delay(a, f"m{number}", delay_ms)
    await cancel(a, "k", "m3")

    async def shown(limit: int) -> list[str]:
        return [message.id for message in (await a.store.lane("k", limit)).messages if message.place == "delayed"]

    assert await shown(10) == ["m1", "m5", "m4", "m2", "m0"]
    assert await shown(2) == ["m1", "m5"]
    await world.pass_time(1500)
    await a.beat()
    assert await shown(2) == ["m4", "m2"]
    await a.store.clear("k")
    assert await shown(2) == []


async def test_looking_at_a_lane_reads_what_it_shows_however_much_there_is(redis_url: str, namespace: str) -> None:
    world = World(redis_url, namespace)
    a = await world.peer()
    try:
        await a.put("k", *(f"m{number}" for number in range(300)))
        for number in range(300):
            await delay(a, f"d{number}", LONG)
        async with redis.asyncio.Redis.from_url(redis_url) as client:

            async def reads() -> int:
                stats = await client.info("commandstats")
                return sum(stats.get(f"cmdstat_{verb}", {"calls": 0})["calls"] for verb in ("hget", "hkeys", "hgetall"))

            before = await reads()
            view = await a.store.lane("k", 5)
            assert [message.id for message in view.messages] == [
                *(f"m{n}" for n in range(5)),
                *(f"d{n}" for n in range(5)),
            ]
            assert await reads() - before < 30
            assert view.waiting == 300
    finally:
        await world.close()


async def test_whoever_awaits_a_delayed_message_is_told_in_the_end(world: World, a: Peer, b: Peer) -> None:
    await delay(a, "1", 100)
    await b.attend("k", work("1"))
    await world.pass_time(150)
    await a.done(await a.claim_one(), result=b'"r"')
    await until(lambda: b.told_settled("k", work("1")))
    assert (await b.attend("k", work("1"))).result == b'"r"'


async def test_a_delayed_message_that_must_begin_by_a_time_has_it_from_when_it_is_due(world: World, a: Peer) -> None:
    await delay(a, "1", 300, late_ms=LONG)
    await world.pass_time(400)
    assert await turns(a) == [["1"]]
    turn = await run(a, "k", "busy")
    await delay(a, "2", 100, late_ms=200)
    await world.pass_time(450)
    await a.beat()
    await a.beat()
    found = await a.attend("k", work("2"))
    assert (found.status, json.loads(found.errors[0])["type"]) == ("dead", "LaneTimeout")
    await a.done(turn)


async def test_a_delayed_message_can_be_cancelled_before_it_is_due_and_while_it_waits(world: World, a: Peer) -> None:
    await delay(a, "1", 100)
    await delay(a, "2", 100)
    assert await cancel(a, "k", "1") == "cancelled"
    assert await status(a, "k", "1", delay_ms=100) == "cancelled"
    await world.pass_time(150)
    await a.beat()
    assert await a.mailbox("k") == ["2"]
    assert await cancel(a, "k", "2") == "cancelled"
    assert await turns(a) == []
    assert (await a.store.lanes(10)).lanes == []


async def test_a_delayed_message_that_has_begun_cannot_be_cancelled(world: World, a: Peer) -> None:
    await delay(a, "1", 100)
    await world.pass_time(150)
    turn = await a.claim_one()
    assert await cancel(a, "k", "1") == "begun"
    await a.done(turn)
    assert await cancel(a, "k", "1") == "ended"


async def test_a_delayed_interrupt_interrupts_when_it_is_due(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await delay(a, "2", 200, INTERRUPT)
    await a.beat()
    assert await status(a, "k", "1") == "pending"
    await world.pass_time(300)
    await a.beat()
    assert (await a.commit(turn)).status == "lost"
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "2"]]


async def test_a_delayed_rollback_supersedes_when_it_is_due(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1", rule=ROLLBACK)
    await delay(a, "2", 200, ROLLBACK)
    assert await outcome(a, "k", "1") == "pending"
    await world.pass_time(300)
    await a.beat()
    assert await outcome(a, "k", "1") == "superseded"
    await a.fail(turn, "back")
    assert await turns(a) == [["2"]]


async def test_a_delayed_latest_supersedes_what_came_before_it_was_due(world: World, a: Peer) -> None:
    await delay(a, "1", 200, LATEST)
    await a.put("k", "x", handler="other")
    turn = await a.claim_one("other")
    await delay(a, "2", 100, LATEST)
    assert await outcome(a, "k", "1") == "superseded"
    await world.pass_time(150)
    await a.beat()
    await delay(a, "3", 100, LATEST)
    assert await outcome(a, "k", "2") == "superseded"
    await world.pass_time(150)
    await a.done(turn)
    assert await turns(a) == [["3"]]


async def test_delayed_messages_of_a_merge_are_gathered_when_they_are_due(world: World, a: Peer) -> None:
    await delay(a, "1", 100, MERGE)
    await delay(a, "2", 150, MERGE)
    await delay(a, "3", LONG, MERGE)
    await world.pass_time(250)
    assert await turns(a) == [["1", "2"]]


async def test_the_quiet_time_of_a_delayed_message_begins_when_it_is_due(world: World, a: Peer) -> None:
    await delay(a, "1", 100, quiet(LONG))
    await world.pass_time(150)
    assert LONG - 5000 < await due_in(a) <= LONG


async def test_a_message_that_is_due_in_a_lane_that_is_paused_waits(world: World, a: Peer) -> None:
    await delay(a, "1", 100)
    await a.store.stop("k", "paused", "")
    await world.pass_time(150)
    assert await a.claim() == []
    await a.store.resume("k")
    assert await turns(a) == [["1"]]


async def test_a_lane_that_is_cleared_has_no_delayed_messages_any_more(world: World, a: Peer) -> None:
    await delay(a, "1", 100)
    await delay(a, "2", 100, MERGE)
    assert await a.store.clear("k") == 2
    await world.pass_time(150)
    assert await due_in(a) == -1
    assert await outcome(a, "k", "1") == "unknown"
    assert await status(a, "k", "1") == "accepted"


async def test_a_dead_letter_that_is_brought_again_with_a_delay_is_no_letter_any_more(a: Peer) -> None:
    await a.fail(await run(a, "k", "1"), "dead")
    await delay(a, "1", LONG)
    assert await a.store.dead(10) == []
    assert await outcome(a, "k", "1") == "pending"


async def test_a_worker_that_has_nothing_to_do_is_told_of_a_delayed_message(a: Peer, b: Peer) -> None:
    assert await due_in(b) == -1
    await delay(a, "1", LONG)
    await until(lambda: b.told_ready())
    assert await due_in(b) > 0


async def test_a_message_that_is_due_while_the_turn_yields_waits_with_the_others(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await delay(a, "3", 100, INTERRUPT)
    await a.put("k", "2", rule=INTERRUPT)
    await world.pass_time(150)
    assert await a.claim() == []
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "2", "3"]]
