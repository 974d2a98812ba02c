"""Promises of a lane that a review found broken, on every kind of store."""

from __future__ import annotations

import pytest

from tests.store.world import WORK, Peer, World, until, work


async def test_a_caller_whose_place_was_skipped_is_told_and_asks_again(a: Peer, b: Peer) -> None:
    """Its process was not seen for a while, and lives all the same: its beat was only late on its way."""
    turn = await a.begin("k")
    waiting = await b.queue_up("k")
    await b.store.depart()
    await a.done(turn)
    assert ("lost", waiting.token) in [(notice.kind, notice.token) for notice in await b.beat()]
    await b.done(await b.take_up(waiting))


async def test_callers_that_wait_in_a_lane_that_is_cleared_are_told_at_once(a: Peer, b: Peer) -> None:
    await a.begin("k")
    first, second = await b.queue_up("k"), await b.queue_up("k")
    await a.store.clear("k")
    await until(lambda: b.told("lost", first) and b.told("lost", second))
    turn = await b.take_up(second)
    assert (await b.store.begin(first)).status == "waiting"
    await b.done(turn)


async def test_a_state_expires_after_a_place_came_and_went_during_a_turn_without_a_state(a: Peer, b: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s", keep_ms=100_000)
    turn = await a.begin("k", keep_ms=1000)
    await b.leave(await b.queue_up("k", keep_ms=1000))
    await a.done(turn, keep_ms=1000)
    view = await a.store.lane("k", 1)
    assert view.state == b"s"
    assert 90_000 < view.state_ttl_ms <= 100_000


async def test_a_replayed_letter_leaves_the_state_the_time_that_it_had(a: Peer) -> None:
    await a.put("k", "m", keep_ms=1000)
    await a.fail(await a.claim_one(), "dead")
    await a.done(await a.begin("k"), state=b"s", keep_ms=100_000)
    await a.store.stop("k", "paused", "")
    assert await a.store.replay("k", work("m"))
    await a.store.resume("k")
    await a.fail(await a.claim_one(), "dead")
    view = await a.store.lane("k", 1)
    assert view.state == b"s"
    assert 90_000 < view.state_ttl_ms <= 100_000


@pytest.mark.parametrize("ends", ["commit", "fail"])
async def test_a_lane_is_taken_over_after_the_ttl_of_the_message_that_runs(
    world: World, a: Peer, b: Peer, ends: str
) -> None:
    await a.put("k", "long", ttl_ms=300_000)
    await a.put("k", "short", ttl_ms=150)
    turn, token = await a.claim_one(), a.new_token()
    if ends == "commit":
        following = await a.done(turn, next_token=token)
    else:
        following = (await a.fail(turn, "dead", next_token=token)).next
    assert following is not None
    assert 0 <= (await b.store.claim(b.new_token(), ["work"], 1)).due_in_ms <= 150
    await world.pass_time(200)
    heir = await b.claim_one()
    assert (heir.ident, heir.attempts) == (work("short"), 2)
    assert (await a.commit(following)).status == "lost"


async def test_many_late_messages_are_buried_a_hundred_at_a_time_and_the_lane_goes_on(world: World, a: Peer) -> None:
    await a.store.stop("k", "paused", "")
    for number in range(230):
        await a.put("k", f"m{number}", late_ms=1)
    await a.put("k", "last")
    await world.pass_time(50)
    await a.store.resume("k")
    assert len(await a.store.dead(1000)) == 100
    given = []
    for _ in range(4):
        given += await a.claim()
    assert [turn.ident for turn in given] == [work("last")]
    assert len(await a.store.dead(1000)) == 230


@pytest.mark.parametrize("by", ["claim", "beat"])
async def test_late_messages_before_one_that_is_not_late_are_each_buried_once(world: World, a: Peer, by: str) -> None:
    await a.store.stop("k", "paused", "")  # nothing looks into it while the messages come
    await a.put("k", "late 1", "late 2", late_ms=300)
    await a.put("k", "last")
    await a.store.resume("k")
    await world.pass_time(320)
    if by == "beat":
        await a.beat()
    assert (await a.claim_one()).ident == work("last")
    assert [letter.id for letter in await a.store.dead(10)] == ["late 1", "late 2"]


async def test_a_claim_that_is_asked_again_gives_nothing_more_than_the_first_time(a: Peer, b: Peer) -> None:
    call = a.new_token()
    assert await a.claim(call=call) == []
    await a.put("k", "m")
    assert await a.claim(call=call) == []
    assert (await b.claim_one()).attempts == 1


async def test_a_claim_is_given_back_also_when_its_note_is_gone(world: World, a: Peer, b: Peer) -> None:
    """The store was away for longer than notes live, and the worker's beats have kept the lease alive since."""
    await a.put("k", "m")
    call = a.new_token()
    (turn,) = (await a.store.claim(call, [WORK], 1)).turns
    await world.forget_notes()
    assert await a.store.unclaim(0, call) == 1
    again = await b.claim_one()
    assert (again.key, again.ident, again.attempts) == (turn.key, turn.ident, 1)
    assert await a.store.unclaim(0, call) == 0


@pytest.mark.parametrize("ends", ["commit", "fail"])
async def test_a_turn_that_was_handed_over_lives_for_its_whole_ttl(world: World, a: Peer, b: Peer, ends: str) -> None:
    """Its worker counts from the call that brought it; no beat has to come in between."""
    await a.put("k", "first", "second", ttl_ms=600)
    turn, token = await a.claim_one(), a.new_token()
    await world.pass_time(400)
    if ends == "commit":
        following = await a.done(turn, next_token=token)
    else:
        following = (await a.fail(turn, "dead", next_token=token)).next
    assert following is not None
    await world.pass_time(400)
    assert await b.claim() == []
    assert await a.store.confirm("k", following.token)
