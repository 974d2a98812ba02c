"""Lanes that are paused, parked, resumed and cleared. On every store."""

from __future__ import annotations

import pytest

from tests.store.world import Peer, World, work
from tests.waiting import until


@pytest.mark.parametrize("how", ["paused", "parked"])
async def test_nothing_begins_in_a_stopped_lane_until_it_is_resumed(a: Peer, b: Peer, how: str) -> None:
    await a.store.stop("k", how, "because")  # type: ignore[arg-type]
    await a.put("k", "m")
    waiting = await b.queue_up("k")
    assert await a.claim() == []
    view = await a.store.lane("k", 10)
    assert (view.stopped, view.why, view.ready) == (how, "because", "")
    answer = await a.ask_turn("k", busy="reject")
    assert (answer.status, answer.holder, answer.stopped, answer.ahead) == ("busy", "", how, 2)
    submitted = await a.submit("k", "n", busy="reject")
    assert (submitted.status, submitted.holder, submitted.stopped) == ("busy", "", how)
    assert await a.store.resume("k")
    await a.done(await a.claim_one())
    await b.done(await b.offered(waiting))


async def test_what_runs_may_commit_in_a_lane_that_is_stopped(a: Peer) -> None:
    await a.put("k", "m1", "m2")
    turn = await a.claim_one()
    await a.store.stop("k", "paused", "")
    assert await a.done(turn, state=b"s", next_token=a.new_token()) is None
    assert await a.state("k") == b"s"
    assert await a.claim() == []
    assert await a.store.resume("k")
    assert (await a.claim_one()).ident == work("m2")


async def test_what_runs_may_fail_in_a_lane_that_is_stopped(a: Peer) -> None:
    await a.put("k", "m1")
    turn = await a.claim_one()
    await a.store.stop("k", "paused", "")
    ended = await a.fail(turn, "retry", next_token=a.new_token())
    assert (ended.status, ended.next) == ("failed", None)
    assert await a.claim() == []
    await a.store.resume("k")
    assert (await a.claim_one()).attempts == 2


async def test_the_lease_of_a_dead_worker_ends_in_a_stopped_lane_too(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m", ttl_ms=100)
    turn = await a.claim_one()
    await a.store.stop("k", "paused", "")
    await world.pass_time(150)
    assert await b.claim() == []
    assert (await a.commit(turn)).status == "lost"
    await b.store.resume("k")
    assert (await b.claim_one()).ident == work("m")


async def test_only_a_lane_that_was_stopped_can_be_resumed(a: Peer) -> None:
    assert not await a.store.resume("k")
    await a.store.stop("k", "paused", "")
    assert [await a.store.resume("k") for _ in range(2)] == [True, False]
    assert (await a.store.lanes(10)).in_use == 0


async def test_a_lane_may_be_stopped_again_for_another_reason(a: Peer) -> None:
    await a.store.stop("k", "paused", "one")
    await a.store.stop("k", "parked", "two")
    view = await a.store.lane("k", 1)
    assert (view.stopped, view.why) == ("parked", "two")


async def test_the_message_that_a_lane_was_parked_for_has_all_its_attempts_again(a: Peer) -> None:
    await a.put("k", "m")
    await a.fail(await a.claim_one(), "retry", next_token="")
    await a.fail(await a.claim_one(), "park", why="w")
    await a.store.resume("k")
    assert (await a.claim_one()).attempts == 1


async def test_a_paused_lane_keeps_the_attempts_and_the_retry_time(a: Peer) -> None:
    await a.put("k", "m")
    await a.fail(await a.claim_one(), "retry", delay_ms=60_000)
    await a.store.stop("k", "paused", "")
    await a.store.resume("k")
    assert await a.claim() == []
    (message,) = (await a.store.lane("k", 1)).messages
    assert message.attempts == 1
    assert message.due_in_ms > 50_000


async def test_clear_takes_away_messages_state_stop_and_lease(a: Peer, b: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s")
    await a.put("k", "m1", "m2")
    turn = await a.claim_one()
    waiting = await a.queue_up("k")
    await a.store.stop("k", "paused", "")
    assert await b.store.clear("k") == 3
    view = await b.store.lane("k", 10)
    assert (view.token, view.stopped, view.state, view.messages) == ("", "", None, ())
    assert (await b.store.lanes(10)).in_use == 0
    assert {(notice.kind, notice.token, notice.why) for notice in await a.beat()} == {
        ("lost", turn.token, "the lane was cleared"),
        ("lost", waiting.token, "the lane was cleared"),  # so that it asks again
    }
    assert await b.store.clear("k") == 0
    await b.put("k", "m1")
    assert (await b.claim_one()).attempts == 1


async def test_clear_takes_the_turn_of_an_inline_caller_away(a: Peer, b: Peer) -> None:
    turn = await a.begin("k", "m")
    assert await b.store.clear("k") == 0
    assert (await a.commit(turn, state=b"z")).status == "lost"
    assert await b.state("k") is None
    await b.begin("k", "m")


async def test_a_lane_that_was_cleared_is_in_no_ready_list(a: Peer) -> None:
    await a.put("k", "m")
    await a.store.clear("k")
    assert await a.claim() == []
    assert {row.name: row.ready for row in (await a.store.lanes(1)).handlers}.get("work", 0) == 0


async def test_callers_that_wait_in_a_lane_that_is_cleared_are_told_at_once(a: Peer, b: Peer) -> None:
    await a.begin("k")
    first, second = await b.queue_up("k"), await b.queue_up("k")
    await a.store.clear("k")
    await until(lambda: b.told("lost", first) and b.told("lost", second))
    turn = await b.take_up(second)
    assert (await b.store.begin(first)).status == "waiting"
    await b.done(turn)
