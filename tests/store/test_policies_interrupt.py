"""Interrupt: a new message ends the turn of its handler that runs, and the next turn has the messages of both."""

from __future__ import annotations

from inturn.store.lane import Given, Steered
from tests.store.policies import (
    INTERRUPT,
    MERGE,
    OTHER,
    cancel,
    ids,
    outcome,
    run,
    status,
    steer,
    turns,
)
from tests.store.world import Peer, World, work
from tests.waiting import until


async def interrupted(a: Peer, *message_ids: str, by: str = "new") -> Given:
    """A turn of these messages, which a new one has interrupted and which has not yielded."""
    turn = await run(a, "k", *message_ids, rule=INTERRUPT)
    await a.put("k", by, rule=INTERRUPT)
    return turn


async def test_from_the_arrival_on_the_commit_of_the_interrupted_turn_is_refused(a: Peer) -> None:
    turn = await interrupted(a, "1")
    ended = await a.commit(turn, state=b"{}")
    assert (ended.status, ended.why) == ("lost", "interrupted")
    assert await a.state("k") is None
    assert [await outcome(a, "k", message_id) for message_id in ("1", "new")] == ["pending", "pending"]


async def test_who_runs_is_told_that_it_was_interrupted(a: Peer) -> None:
    turn = await interrupted(a, "1")
    await until(lambda: a.told("lost", turn))
    (notice,) = a.told("lost", turn)
    assert (notice.name, notice.fence, notice.why) == ("k", turn.fence, "interrupted")


async def test_the_next_turn_has_its_messages_and_the_new_one_together(a: Peer) -> None:
    turn = await interrupted(a, "1", "2")
    assert (await a.fail(turn, "back")).status == "lost"
    after = await a.claim_one()
    assert (ids(after), after.attempts) == (["1", "2", "new"], 1)
    assert after.fence > turn.fence


async def test_nobody_gets_the_lane_before_the_interrupted_turn_has_yielded(a: Peer, b: Peer) -> None:
    turn = await interrupted(a, "1")
    assert await b.claim() == []
    view = await b.store.lane("k", 10)
    assert (view.token, view.ready) == ("", "")
    await a.fail(turn, "back")
    assert ids(await b.claim_one()) == ["1", "new"]


async def test_a_turn_that_does_not_yield_is_not_waited_for_longer_than_a_second(world: World, a: Peer) -> None:
    turn = await interrupted(a, "1")
    b = await world.peer()
    await world.pass_time(1050)
    after = await b.claim_one()
    assert ids(after) == ["1", "new"]
    assert (await a.fail(turn, "back")).status == "lost"  # it yields too late, and ends nothing
    assert (await b.commit(after)).status == "committed"


async def test_only_the_interrupted_turn_itself_can_yield(a: Peer) -> None:
    first = await run(a, "k", "1", rule=INTERRUPT)
    await a.fail(first, "back")
    second = await interrupted(a)
    await a.fail(first, "back")
    assert await a.claim() == []
    await a.fail(second, "back")
    assert ids(await a.claim_one()) == ["1", "new"]


async def test_an_interrupt_that_is_repeated_is_pending_and_does_nothing_more(a: Peer) -> None:
    turn = await interrupted(a, "1")
    assert await status(a, "k", "new", rule=INTERRUPT) == "pending"
    assert await status(a, "k", "1", rule=INTERRUPT) == "pending"
    await a.fail(turn, "back")
    after = await a.claim_one()
    assert await status(a, "k", "new", rule=INTERRUPT) == "pending"
    assert (await a.commit(after)).status == "committed"


async def test_more_that_come_while_it_yields_join_the_burst(a: Peer) -> None:
    turn = await interrupted(a, "1")
    await a.put("k", "2", "3", rule=INTERRUPT)
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "new", "2", "3"]]


async def test_an_interrupted_turn_can_neither_fail_nor_steer_nor_go_on(a: Peer) -> None:
    turn = await interrupted(a, "1")
    assert await steer(a, turn) == Steered("lost", why="interrupted")
    ended = await a.commit(turn, next_token=a.new_token())
    assert (ended.status, ended.next) == ("lost", None)
    failed = await a.fail(turn, "dead", next_token=a.new_token())
    assert (failed.status, failed.next) == ("lost", None)
    assert await a.store.dead(10) == []
    assert await turns(a) == [["1", "new"]]


async def test_a_claim_that_was_interrupted_before_anybody_took_it_is_given_back(a: Peer) -> None:
    call = a.new_token()
    await a.put("k", "1", rule=INTERRUPT)
    await a.claim(call=call)
    await a.put("k", "2", rule=INTERRUPT)
    await a.store.unclaim(0, call)
    assert await turns(a) == [["1", "2"]]


async def test_a_repeated_claim_does_not_give_what_was_interrupted(a: Peer) -> None:
    call = a.new_token()
    await a.put("k", "1", rule=INTERRUPT)
    await a.claim(call=call)
    await a.put("k", "2", rule=INTERRUPT)
    assert await a.claim(call=call) == []


async def cut_three_times(a: Peer) -> Given:
    turn = await run(a, "k", "0", rule=INTERRUPT)
    for number in range(1, 4):
        await a.put("k", str(number), rule=INTERRUPT)
        await a.fail(turn, "back")
        turn = await a.claim_one()
    assert ids(turn) == ["0", "1", "2", "3"]
    return turn


async def test_after_three_interrupts_in_a_row_the_turn_is_left_alone(a: Peer) -> None:
    turn = await cut_three_times(a)
    await a.put("k", "4", "5", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "committed"
    assert await turns(a) == [["4", "5"]]


async def test_a_commit_begins_a_new_count(a: Peer) -> None:
    await a.done(await cut_three_times(a))
    turn = await run(a, "k", "4", rule=INTERRUPT)
    await a.put("k", "5", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "lost"


async def test_a_failure_begins_a_new_count_and_a_turn_that_is_given_back_does_not(a: Peer) -> None:
    turn = await cut_three_times(a)
    await a.fail(turn, "back")
    turn = await a.claim_one()
    await a.put("k", "4", rule=INTERRUPT)
    assert (await a.fail(turn, "retry")).status == "failed"
    turn = await a.claim_one()
    await a.put("k", "5", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "lost"


async def test_those_who_wait_while_the_turn_is_left_alone_stay_in_order_when_it_is_interrupted_again(a: Peer) -> None:
    turn = await cut_three_times(a)
    await a.put("k", "4", rule=INTERRUPT)
    await a.fail(turn, "retry")
    turn = await a.claim_one()
    assert ids(turn) == ["0", "1", "2", "3"]
    await a.put("k", "5", rule=INTERRUPT)
    await a.fail(turn, "back")
    assert await turns(a) == [["0", "1", "2", "3", "4", "5"]]


async def test_what_a_split_burst_has_left_waiting_comes_before_what_interrupts(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", "2", "3", rule=INTERRUPT), "split", attempts=1)
    turn = await a.claim_one()
    assert ids(turn) == ["1"]
    await a.put("k", "4", rule=INTERRUPT)
    await a.fail(turn, "back")
    assert [message_id for burst in await turns(a) for message_id in burst] == ["1", "2", "3", "4"]


async def test_a_burst_that_is_interrupted_in_its_second_attempt_comes_back_in_its_second_attempt(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", "2", rule=INTERRUPT), "retry", error="e1")
    turn = await a.claim_one()
    assert turn.attempts == 2
    await a.put("k", "3", rule=INTERRUPT)
    await a.fail(turn, "back")
    after = await a.claim_one()
    assert (ids(after), after.attempts) == (["1", "2", "3"], 2)


async def test_a_message_that_waits_for_its_retry_is_not_interrupted_and_nothing_joins_it(
    world: World, a: Peer
) -> None:
    await a.fail(await run(a, "k", "1", rule=INTERRUPT), "retry", delay_ms=300)
    await a.put("k", "2", rule=INTERRUPT)
    assert await a.claim() == []
    await world.pass_time(400)
    assert await turns(a) == [["1"], ["2"]]


async def test_a_turn_of_a_higher_priority_is_left_alone(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT, priority=1)
    await a.put("k", "2", rule=INTERRUPT)
    assert ids(await a.done(turn, next_token=a.new_token())) == ["2"]


async def test_a_more_urgent_message_takes_what_it_interrupts_with_it(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await a.put("k", "between", handler=OTHER, priority=2)
    await a.put("k", "2", rule=INTERRUPT, priority=5)
    await a.fail(turn, "back")
    assert await turns(a, "work", OTHER) == [["1", "2"], ["between"]]


async def test_a_merge_that_waits_is_gathered_with_a_burst_that_was_interrupted(a: Peer) -> None:
    """Two versions of a handler, of which the older one merges."""
    turn = await run(a, "k", "1", rule=MERGE)
    await a.put("k", "2", rule=MERGE)
    await a.put("k", "3", rule=INTERRUPT)
    await a.fail(turn, "back")
    assert sorted(*await turns(a)) == ["1", "2", "3"]


async def test_the_turn_of_a_lane_that_is_stopped_is_left_alone(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await a.store.stop("k", "paused", "")
    await a.put("k", "2", rule=INTERRUPT)
    assert (await a.commit(turn)).status == "committed"
    await a.store.resume("k")
    assert await turns(a) == [["2"]]


async def test_a_lane_that_is_paused_while_its_turn_yields_goes_on_only_when_it_is_resumed(a: Peer) -> None:
    turn = await interrupted(a, "1")
    await a.store.stop("k", "paused", "")
    await a.fail(turn, "back")
    assert await a.claim() == []
    await a.store.resume("k")
    assert await turns(a) == [["1", "new"]]


async def test_a_lane_that_is_resumed_still_waits_for_its_turn_to_yield(a: Peer) -> None:
    turn = await interrupted(a, "1")
    await a.store.stop("k", "paused", "")
    await a.store.resume("k")
    assert await a.claim() == []
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "new"]]


async def test_a_lane_that_is_cleared_while_its_turn_yields_is_free(a: Peer) -> None:
    turn = await interrupted(a, "1", "2")
    assert await a.store.clear("k") == 3
    after = await run(a, "k", "3", rule=INTERRUPT)
    assert (await a.fail(turn, "back")).status == "lost"
    assert (await a.commit(after)).status == "committed"


async def test_messages_of_an_interrupted_turn_cannot_be_cancelled_as_if_they_had_not_begun(a: Peer) -> None:
    turn = await interrupted(a, "1", "2")
    assert await cancel(a, "k", "1") == "begun"
    assert await cancel(a, "k", "2") == "begun"
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "2", "new"]]


async def test_all_of_an_interrupted_burst_have_the_result_of_the_turn_that_commits(a: Peer, b: Peer) -> None:
    turn = await interrupted(a, "1", "2")
    await b.attend("k", work("1"))
    await a.fail(turn, "back")
    await a.done(await a.claim_one(), result=b'"r"')
    for message_id in ("1", "2", "new"):
        assert (await a.attend("k", work(message_id))).result == b'"r"'
    await until(lambda: b.told_settled("k", work("1")))


async def test_an_interrupted_burst_whose_next_turn_loses_its_lease_is_retried_as_the_same(
    world: World, a: Peer
) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT, ttl_ms=300)
    await a.put("k", "2", rule=INTERRUPT)
    await a.fail(turn, "back")
    b = await world.peer()
    assert ids(await b.claim_one()) == ["1", "2"]
    await world.pass_time(500)
    after = await a.claim_one()
    assert (ids(after), after.attempts) == (["1", "2"], 2)


async def test_a_turn_whose_lease_has_expired_is_not_interrupted_but_retried(world: World, a: Peer) -> None:
    await run(a, "k", "1", rule=INTERRUPT, ttl_ms=200)
    await world.pass_time(400)
    b = await world.peer()
    await b.put("k", "2", rule=INTERRUPT)
    assert await turns(b) == [["1"], ["2"]]


async def test_an_interrupt_does_not_overtake_however_many_wait(a: Peer) -> None:
    names = [f"{number:03d}" for number in range(130)]
    await a.store.stop("k", "paused", "")
    await a.put("k", *names, rule=INTERRUPT)
    await a.store.resume("k")
    turn = await a.claim_one()
    await a.put("k", "new", rule=INTERRUPT)
    await a.done(turn)  # it was left alone: those before the new one are too many to come with it
    assert [*ids(turn), *(name for burst in await turns(a) for name in burst)] == [*names, "new"]
