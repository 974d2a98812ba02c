"""Interrupts of turns that are not of the same handler: other handlers', and inline ones."""

from __future__ import annotations

import pytest

from inturn.store.lane import Rule
from tests.store.policies import ALLOWS, INTERRUPT, MAX_CUTS, OTHER, ROLLBACK, ids, outcome, run, turns
from tests.store.world import WINDOW_MS, Peer, World
from tests.waiting import until

BOTH = ("work", OTHER)


@pytest.mark.parametrize("rule", [INTERRUPT, ROLLBACK])
async def test_a_turn_of_another_handler_is_left_alone_unless_it_allows_it(a: Peer, rule: Rule) -> None:
    turn = await run(a, "k", "1", handler=OTHER)
    await a.put("k", "2", rule=rule)
    assert ids(await a.done(turn, next_token=a.new_token(), can=BOTH)) == ["2"]


@pytest.mark.parametrize("rule", [INTERRUPT, ROLLBACK])
async def test_a_turn_of_another_handler_that_allows_it_goes_behind_what_interrupted_it(a: Peer, rule: Rule) -> None:
    turn = await run(a, "k", "1", handler=OTHER, rule=ALLOWS)
    await a.put("k", "2", rule=rule)
    assert (await a.commit(turn)).status == "lost"
    assert await a.claim(*BOTH) == []
    await a.fail(turn, "back")
    first = await a.claim_one(*BOTH)
    second = await a.done(first, next_token=a.new_token(), can=BOTH)
    assert second is not None
    assert (ids(first), ids(second), second.attempts) == (["2"], ["1"], 1)


async def test_the_one_that_interrupts_runs_next_and_the_order_of_the_others_stays(a: Peer) -> None:
    turn = await run(a, "k", "1", handler=OTHER, rule=ALLOWS)
    await a.put("k", "waits", handler=OTHER, rule=ALLOWS)
    await a.put("k", "2", rule=INTERRUPT)
    await a.fail(turn, "back")
    assert await turns(a, *BOTH) == [["2"], ["1"], ["waits"]]


async def test_a_burst_of_another_handler_goes_behind_as_one(a: Peer) -> None:
    merge = Rule("merge", cap=20, allows=True, window_ms=WINDOW_MS)
    turn = await run(a, "k", "1", "2", handler=OTHER, rule=merge)
    await a.put("k", "3", rule=INTERRUPT)
    await a.fail(turn, "back")
    await a.put("k", "4", handler=OTHER, rule=merge)
    assert await turns(a, *BOTH) == [["3"], ["1", "2", "4"]]


async def test_a_rollback_does_not_supersede_messages_of_another_handler(a: Peer) -> None:
    turn = await run(a, "k", "1", handler=OTHER, rule=ALLOWS)
    await a.put("k", "waits", handler=OTHER)
    await a.put("k", "2", rule=ROLLBACK)
    await a.fail(turn, "back")
    assert await outcome(a, "k", "1", handler=OTHER) == "pending"
    assert sorted(await turns(a, *BOTH)) == [["1"], ["2"], ["waits"]]


async def test_a_turn_of_another_handler_is_not_interrupted_by_a_message_of_a_lower_priority(a: Peer) -> None:
    turn = await run(a, "k", "1", handler=OTHER, rule=ALLOWS, priority=1)
    await a.put("k", "2", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "committed"


async def test_interrupts_of_other_handlers_count_towards_the_three(a: Peer) -> None:
    await a.put("k", "1", handler=OTHER, rule=ALLOWS)
    turn = await a.claim_one(OTHER)
    for number in range(3):
        await a.put("k", f"i{number}", rule=INTERRUPT)
        await a.fail(turn, "back")
        # the one that interrupted is taken back by its caller, so that no commit begins a new count
        assert await a.store.cancel("k", f"work\0i{number}", WINDOW_MS) == "cancelled"
        turn = await a.claim_one(OTHER)
    await a.put("k", "i4", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "committed"


async def test_an_inline_turn_is_left_alone_unless_it_allows_it(a: Peer) -> None:
    turn = await a.begin("k")
    await a.put("k", "1", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "committed"
    assert await turns(a) == [["1"]]


async def test_an_inline_turn_of_a_newer_version_does_not_allow_it_either(a: Peer) -> None:
    turn = await a.begin("k", rule=Rule(version=2, window_ms=WINDOW_MS))
    await a.put("k", "1", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "committed"


async def test_an_inline_turn_that_allows_it_is_interrupted_and_its_message_is_gone(a: Peer, b: Peer) -> None:
    turn = await a.begin("k", "mine", rule=ALLOWS)
    assert await outcome(b, "k", "mine", handler="") == "pending"
    await a.put("k", "1", rule=INTERRUPT)
    assert (await a.commit(turn, state=b"{}")).status == "lost"
    assert await a.claim() == []
    assert (await a.leave(turn)).status == "lost"
    assert await turns(a) == [["1"]]
    await until(lambda: b.told_settled("k", "\0mine"))  # before it asks: that takes back a notice it has not read
    assert await outcome(b, "k", "mine", handler="") == "unknown"


async def test_an_inline_turn_that_waited_and_allows_it_is_interrupted_like_one_that_did_not(a: Peer) -> None:
    first = await a.begin("k")
    waiting = await a.queue_up("k", rule=ALLOWS)
    await a.done(first)
    turn = await a.offered(waiting)
    await a.put("k", "1", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "lost"
    await a.leave(turn)
    assert await turns(a) == [["1"]]


async def test_an_inline_turn_that_was_only_offered_is_taken_back_and_nobody_is_waited_for(a: Peer) -> None:
    first = await a.begin("k")
    waiting = await a.queue_up("k", rule=ALLOWS)
    await a.done(first)
    await until(lambda: a.told("turn", waiting))
    await a.put("k", "1", rule=INTERRUPT)
    running = await a.claim_one()
    assert ids(running) == ["1"]
    assert (await a.store.begin(waiting)).status == "waiting"  # it asks once more, and has a place again
    a.notices.clear()
    await a.done(running)
    await a.done(await a.offered(waiting))


async def test_an_inline_turn_is_interrupted_by_a_rollback_as_well(world: World, a: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    await a.put("k", "1", rule=ROLLBACK)
    assert (await a.commit(turn)).status == "lost"
    await world.pass_time(1050)  # it does not leave
    assert await turns(a) == [["1"]]


async def test_inline_callers_that_wait_keep_their_places_when_the_turn_is_interrupted(a: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    waiting = await a.queue_up("k")
    await a.put("k", "1", rule=INTERRUPT)
    await a.leave(turn)
    await a.done(await a.offered(waiting))
    assert await turns(a) == [["1"]]


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
    for number in range(MAX_CUTS):
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
