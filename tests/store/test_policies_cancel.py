"""Cancel: a message that has not begun will not, and whoever brings it again does not bring it back."""

from __future__ import annotations

from tests.store.policies import MERGE, OTHER, cancel, ids, outcome, run, status, turns
from tests.store.world import Peer, World, work
from tests.waiting import until


async def test_a_message_that_waits_is_cancelled_and_never_runs(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2", "3")
    assert await cancel(a, "k", "2") == "cancelled"
    assert await outcome(a, "k", "2") == "cancelled"
    await a.done(turn)
    assert await turns(a) == [["3"]]


async def test_a_repeat_finds_it_cancelled(a: Peer) -> None:
    await a.put("k", "1")
    assert [await cancel(a, "k", "1") for _ in range(3)] == ["cancelled"] * 3


async def test_a_cancelled_message_that_is_brought_again_does_not_come_back(a: Peer) -> None:
    await a.put("k", "1")
    await cancel(a, "k", "1")
    assert await status(a, "k", "1") == "cancelled"
    assert await status(a, "k", "1", delay_ms=1000) == "cancelled"
    assert await turns(a) == []


async def test_a_cancelled_message_is_remembered_for_the_duplicate_window(world: World, a: Peer) -> None:
    await a.put("k", "1")
    await cancel(a, "k", "1", window_ms=4000)
    await world.pass_time(6000)
    assert await outcome(a, "k", "1") == "unknown"
    assert await cancel(a, "k", "1") == "ended"
    assert await status(a, "k", "1") == "accepted"


async def test_a_message_that_runs_cannot_be_cancelled(a: Peer) -> None:
    turn = await run(a, "k", "1", "2", rule=MERGE)
    assert [await cancel(a, "k", message_id) for message_id in ("1", "2")] == ["begun", "begun"]
    assert (await a.commit(turn)).status == "committed"


async def test_a_message_that_has_ended_or_never_was_cannot_be_cancelled(a: Peer) -> None:
    await a.done(await run(a, "k", "1"), result=b'"r"')
    await a.fail(await run(a, "k", "2"), "dead")
    assert [await cancel(a, "k", message_id) for message_id in ("1", "2", "3")] == ["ended"] * 3
    assert (await a.attend("k", work("1"))).result == b'"r"'
    assert [letter.id for letter in await a.store.dead(10)] == ["2"]
    assert await status(a, "k", "3") == "accepted"


async def test_messages_of_a_burst_that_was_given_before_cannot_be_cancelled(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", "2", rule=MERGE), "retry", delay_ms=60_000)
    assert [await cancel(a, "k", message_id) for message_id in ("1", "2")] == ["begun", "begun"]


async def test_messages_of_a_burst_that_was_split_can_be_cancelled(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", "2", "3", rule=MERGE), "split", attempts=1)
    assert [await cancel(a, "k", message_id) for message_id in ("1", "3")] == ["cancelled", "cancelled"]
    assert await turns(a) == [["2"]]


async def test_messages_of_a_burst_that_joined_another_and_was_split_can_be_cancelled(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", "2", rule=MERGE), "back")
    turn = await run(a, "k", "urgent", rule=MERGE, priority=5)
    await a.fail(turn, "split", attempts=1)
    assert await cancel(a, "k", "2") == "cancelled"
    assert await turns(a) == [["urgent"], ["1"]]


async def test_whoever_awaits_a_cancelled_message_is_told(a: Peer, b: Peer) -> None:
    await a.put("k", "1")
    await b.attend("k", work("1"))
    await cancel(a, "k", "1")
    await until(lambda: b.told_settled("k", work("1")))


async def test_a_message_that_waits_for_its_retry_can_be_cancelled(a: Peer) -> None:
    await a.fail(await run(a, "k", "1"), "retry", delay_ms=60_000)
    await a.put("k", "2")
    assert await cancel(a, "k", "1") == "cancelled"
    assert await turns(a) == [["2"]]


async def test_the_next_message_is_ready_when_the_first_one_is_cancelled(a: Peer) -> None:
    await a.put("k", "1")
    await a.put("k", "2", handler=OTHER)
    assert (await a.store.lane("k", 1)).ready == "work"
    await cancel(a, "k", "1")
    assert (await a.store.lane("k", 1)).ready == OTHER
    assert await turns(a, OTHER) == [["2"]]


async def test_an_inline_caller_behind_a_cancelled_message_gets_its_turn(a: Peer) -> None:
    await a.put("k", "1")
    waiting = await a.queue_up("k")
    await cancel(a, "k", "1")
    await a.done(await a.offered(waiting))


async def test_a_lane_whose_last_message_is_cancelled_is_idle_and_its_state_has_its_time_again(
    world: World, a: Peer
) -> None:
    await a.done(await run(a, "k", "1"), state=b"{}", keep_ms=6000)
    await a.put("k", "2", keep_ms=6000)
    await cancel(a, "k", "2")
    assert (await a.store.lanes(10)).lanes == []
    assert await a.state("k") == b"{}"
    await world.pass_time(8000)
    assert await a.state("k") is None


async def test_a_cancel_in_a_lane_that_is_stopped_leaves_it_stopped(a: Peer) -> None:
    await a.put("k", "1", "2")
    await a.store.stop("k", "paused", "")
    assert await cancel(a, "k", "1") == "cancelled"
    assert await a.claim() == []
    await a.store.resume("k")
    assert await turns(a) == [["2"]]


async def test_messages_of_the_same_id_for_other_handlers_or_in_other_lanes_are_left_alone(a: Peer) -> None:
    await a.put("k", "1")
    await a.put("k", "1", handler=OTHER)
    await a.put("j", "1")
    await cancel(a, "k", "1")
    assert sorted(await turns(a, "work", OTHER)) == [["1"], ["1"]]


async def test_a_cancel_that_comes_after_a_turn_was_given_back_still_counts(a: Peer) -> None:
    await a.fail(await run(a, "k", "1"), "back")
    assert await cancel(a, "k", "1") == "cancelled"
    assert await a.claim() == []


async def test_a_message_with_a_time_by_which_to_begin_is_cancelled_for_good(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2", late_ms=100)
    await cancel(a, "k", "2")
    await world.pass_time(200)
    await a.beat()
    assert await a.store.dead(10) == []
    assert await outcome(a, "k", "2") == "cancelled"
    assert ids(await a.done(turn, next_token=a.new_token())) == []
