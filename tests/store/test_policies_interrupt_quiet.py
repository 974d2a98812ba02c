"""Interrupt with a quiet time: a message ends the running turn at once, and the next waits until the user pauses."""

from __future__ import annotations

from inturn.store.lane import Given, Rule
from tests.store.policies import INTERRUPT, MERGE, OTHER, due_in, ids, quiet, run, turns
from tests.store.world import Peer, World
from tests.waiting import until

LONG = 60_000
"""Quiet time that nobody waits for."""
PATIENT = quiet(LONG, policy="interrupt")
URGENT = quiet(0, policy="interrupt")
BRIEF = quiet(300, policy="interrupt")


async def interrupted(a: Peer, by: str = "2", rule: Rule = PATIENT) -> Given:
    """A turn of message 1 that was interrupted, and has ended."""
    turn = await run(a, "k", "1", rule=URGENT)
    await a.put("k", by, rule=rule)
    assert (await a.fail(turn, "back")).status == "lost"
    return turn


async def test_while_nothing_runs_a_burst_waits_for_quiet(world: World, a: Peer) -> None:
    await a.put("k", "1", rule=BRIEF)
    await world.pass_time(200)
    await a.put("k", "2", rule=BRIEF)
    assert 200 < await due_in(a) <= 300
    await world.pass_time(350)
    assert await turns(a) == [["1", "2"]]


async def test_a_running_turn_is_interrupted_at_once(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=URGENT)
    await a.put("k", "2", rule=PATIENT)
    await until(lambda: a.told("lost", turn))
    assert (await a.commit(turn)).status == "lost"


async def test_the_next_turn_begins_when_nothing_came_for_the_quiet_time(world: World, a: Peer) -> None:
    await interrupted(a, rule=BRIEF)
    await world.pass_time(200)
    await a.put("k", "3", rule=BRIEF)
    assert 200 < await due_in(a) <= 300
    await world.pass_time(350)
    assert await turns(a) == [["1", "2", "3"]]


async def test_a_turn_that_yields_later_than_the_quiet_time_ends_is_waited_for(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1", rule=URGENT)
    await a.put("k", "2", rule=BRIEF)
    await world.pass_time(350)
    assert await a.claim() == []
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "2"]]


async def test_the_longest_wait_counts_from_the_message_that_interrupted(world: World, a: Peer) -> None:
    rule = quiet(1000, max_quiet_ms=1500, policy="interrupt")
    await a.put("k", "1", rule=rule)
    await world.pass_time(1100)
    turn = await a.claim_one()
    await world.pass_time(5000)
    await a.put("k", "2", rule=rule)
    await a.fail(turn, "back")
    assert 900 < await due_in(a) <= 1000
    await world.pass_time(800)
    await a.put("k", "3", rule=rule)
    assert 600 < await due_in(a) <= 700
    await world.pass_time(750)
    assert await turns(a) == [["1", "2", "3"]]


async def test_the_rule_of_the_message_that_interrupted_says_how_long(a: Peer) -> None:
    """While a quiet time is rolled out, a turn runs whose message has none."""
    for key, old in (("interrupt", INTERRUPT), ("merge", MERGE)):
        turn = await run(a, key, "1", rule=old)
        await a.put(key, "2", rule=PATIENT)
        await a.fail(turn, "back")
        assert await due_in(a) > LONG - 5000


async def test_an_urgent_message_interrupts_and_begins_at_once(a: Peer) -> None:
    await interrupted(a, rule=URGENT)
    assert await turns(a) == [["1", "2"]]


async def test_an_urgent_message_behind_the_one_that_interrupted_ends_the_quiet_time(a: Peer) -> None:
    await interrupted(a)
    assert await a.claim() == []
    await a.put("k", "3", rule=URGENT)
    assert await turns(a) == [["1", "2", "3"]]


async def test_a_turn_whose_first_message_was_urgent_waits_for_quiet_when_it_is_interrupted(a: Peer) -> None:
    await interrupted(a)
    assert await due_in(a) > LONG - 5000


async def test_so_many_messages_end_the_quiet_time_those_of_the_interrupted_turn_included(
    world: World, a: Peer
) -> None:
    rule = quiet(1000, cut_at=4, policy="interrupt")
    await a.put("k", "1", "2", rule=rule)
    await world.pass_time(1100)
    turn = await a.claim_one()
    await a.put("k", "3", rule=rule)
    await a.fail(turn, "back")
    assert await a.claim() == []
    await a.put("k", "4", "5", rule=rule)
    assert await turns(a) == [["1", "2", "3", "4", "5"]]


async def test_a_burst_that_is_full_when_it_is_interrupted_does_not_wait(a: Peer) -> None:
    rule = quiet(LONG, cap=2, policy="interrupt")
    await a.put("k", "1", "2", rule=rule)
    turn = await a.claim_one()
    await a.put("k", "3", rule=rule)
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "2", "3"]]


async def test_every_interrupt_starts_the_quiet_time_anew(world: World, a: Peer) -> None:
    await interrupted(a, rule=BRIEF)
    await world.pass_time(350)
    turn = await a.claim_one()
    assert ids(turn) == ["1", "2"]
    await a.put("k", "3", rule=PATIENT)
    await a.fail(turn, "back")
    assert await due_in(a) > LONG - 5000


async def test_a_turn_of_another_handler_makes_way_at_once_and_waits_for_the_burst(world: World, a: Peer) -> None:
    both = ("work", OTHER)
    allows = INTERRUPT._replace(policy="queue", allows=True)
    turn = await run(a, "k", "n", handler=OTHER, rule=allows)
    await a.put("k", "1", rule=BRIEF)
    assert (await a.fail(turn, "back")).status == "lost"
    assert 0 < await due_in(a, *both) <= 300
    await world.pass_time(350)
    assert await turns(a, *both) == [["1"], ["n"]]


async def test_an_interrupted_turn_that_has_failed_before_waits_for_quiet_too(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", rule=URGENT), "retry")
    turn = await a.claim_one()
    await a.put("k", "2", rule=PATIENT)
    await a.fail(turn, "back")
    assert await due_in(a) > LONG - 5000


async def test_a_burst_that_is_handed_back_after_its_quiet_time_begins_at_once(world: World, a: Peer) -> None:
    await interrupted(a, rule=BRIEF)
    await world.pass_time(350)
    await a.fail(await a.claim_one(), "back")
    assert await turns(a) == [["1", "2"]]
