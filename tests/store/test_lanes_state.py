"""The state of a lane: how long it lives, and that nothing outlives it. On every store."""

from __future__ import annotations

from typing import Any

from inturn.store.views import LaneRow
from tests.store.world import Peer, World, send_to, work


async def test_a_state_expires_when_the_lane_was_idle_for_its_time(world: World, a: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s", keep_ms=4000)
    view = await a.store.lane("k", 1)
    assert view.state == b"s"
    assert 0 < view.state_ttl_ms <= 4000
    await world.pass_time(5000)
    assert await a.state("k") is None
    assert (await a.begin("k")).state is None


async def test_the_time_of_a_state_begins_anew_with_every_commit(world: World, a: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s", keep_ms=8000)
    for _ in range(3):
        await world.pass_time(5000)
        turn = await a.begin("k", keep_ms=8000)
        assert turn.state == b"s"
        await a.done(turn, keep_ms=8000)
    await world.pass_time(9000)
    assert await a.state("k") is None


async def test_a_commit_of_a_worker_renews_the_time_too(world: World, a: Peer) -> None:
    await a.put("k", "m", keep_ms=8000)
    await a.done(await a.claim_one(), state=b"s", keep_ms=8000)
    await world.pass_time(5000)
    await a.put("k", "m2", keep_ms=8000)
    await a.done(await a.claim_one(), keep_ms=8000)
    await world.pass_time(5000)
    assert await a.state("k") == b"s"
    await world.pass_time(4000)
    assert await a.state("k") is None


async def test_a_state_does_not_expire_while_messages_wait(world: World, a: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s", keep_ms=3000)
    await a.put("k", "m1", "m2", keep_ms=3000)
    assert (await a.store.lane("k", 1)).state_ttl_ms == -1
    await world.pass_time(5000)
    turn = await a.claim_one()
    assert turn.state == b"s"
    await world.pass_time(5000)
    await a.done(turn, keep_ms=3000)
    await world.pass_time(5000)
    turn = await a.claim_one()
    assert turn.state == b"s"
    await a.fail(turn, "retry", delay_ms=5000)
    await world.pass_time(6000)
    turn = await a.claim_one()
    assert turn.state == b"s"
    await a.fail(turn, "dead")
    assert 0 < (await a.store.lane("k", 1)).state_ttl_ms <= 60_000
    await world.pass_time(5000)
    assert await a.state("k") is None


async def test_a_state_that_is_set_by_a_send_or_a_leave_expires_all_the_same(world: World, a: Peer) -> None:
    turn = await a.begin("k", keep_ms=3000)
    waiting = await a.queue_up("k", keep_ms=3000)
    await a.done(turn, state=b"s", keep_ms=3000)
    await a.leave(await a.offered(waiting))
    assert 0 < (await a.store.lane("k", 1)).state_ttl_ms <= 60_000
    await world.pass_time(4000)
    assert await a.state("k") is None


async def test_a_commit_may_delete_the_state(a: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s")
    await a.done(await a.begin("k"), is_deleting=True)
    assert await a.state("k") is None
    await a.put("k", "m1", "m2")
    following = await a.done(await a.claim_one(), state=b"s", next_token=a.new_token())
    assert following is not None
    await a.done(following, is_deleting=True)
    assert await a.state("k") is None


async def test_handlers_of_one_key_share_its_state(a: Peer) -> None:
    await a.put("k", "m1")
    await a.put("k", "m2", handler="other")
    await a.done(await a.claim_one(), state=b"s")
    assert (await a.claim_one("other")).state == b"s"


async def test_the_state_of_a_replayed_letter_in_a_paused_lane_expires_in_the_end(world: World, a: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s", keep_ms=60_000)
    await a.put("k", "m", keep_ms=3000)
    await a.fail(await a.claim_one(), "dead")
    await a.store.stop("k", "paused", "")
    assert await a.store.replay("k", work("m"))
    await a.store.resume("k")
    await a.fail(await a.claim_one(), "dead")
    assert 0 < (await a.store.lane("k", 1)).state_ttl_ms <= 60_000


async def test_nothing_is_left_behind_when_all_is_done_and_the_state_has_expired(
    world: World, a: Peer, b: Peer
) -> None:
    """After whatever a lane goes through: inline and submitted turns, sends, failures, losses, stops, dead letters."""
    short: dict[str, Any] = {"keep_ms": 2000}
    await a.done(await a.begin("k", "i1", **short), state=b"s", window_ms=2000, **short)
    await a.put("k", "m1", "m2", "m3", "m4", **short)
    waiting = await b.queue_up("k", **short)
    await b.attend("k", work("m1"))
    sends = [send_to("k", "own")._replace(keep_ms=2000), send_to("out", "s")._replace(keep_ms=2000)]
    turn = await a.claim_one()
    following = await a.done(turn, state=b"t", window_ms=2000, sends=sends, next_token=a.new_token(), **short)
    assert following is not None
    ended = await a.fail(following, "dead", next_token=a.new_token())
    assert ended.next is not None
    await a.fail(ended.next, "retry")
    for turn in await a.claim():
        await a.done(turn, window_ms=2000, **short)
    await a.done(*await a.claim(), window_ms=2000, **short)
    await b.done(await b.offered(waiting), window_ms=0, **short)
    await a.done(*await a.claim(), window_ms=2000, **short)
    assert await a.store.drop("k", work("m2"))
    await a.store.stop("k", "paused", "")
    await a.store.resume("k")
    await a.begin("gone", ttl_ms=1000, **short)
    await a.put("cleared", "m", **short)
    await a.claim_one()
    await a.store.clear("cleared")
    await world.pass_time(3000)
    await b.beat()
    assert (await b.store.lanes(10)).lanes == []
    for peer in (a, b):
        await peer.beat(*await peer.beat())
        await peer.store.unwork()

    # notes of losses and claims live for a minute: Redis forgets them by itself
    if world.is_sqlite:
        await world.pass_time(61_000)

    for _ in range(5):  # a few at a time are looked at
        await b.beat(*await b.beat())
    for peer in (a, b):
        await peer.store.depart()
    assert {name for name in await world.left_behind() if not is_note(name)} == set()


def is_note(name: str) -> bool:
    """A key of Redis that has a time to live, which is longer than the test waits."""
    return ":lost:" in name or ":claimed:" in name


async def test_the_lanes_in_use_are_listed(world: World, a: Peer) -> None:
    await a.done(await a.begin("idle"), state=b"s")
    await a.put("k", "m1", "m2")
    turn = await a.claim_one()
    await a.put("j", "m", handler="other")
    await a.store.stop("p", "paused", "for a while")
    await world.pass_time(20)
    listed = await a.store.lanes(10)
    running, *rest = [row for row in listed.lanes if row.token], *[row for row in listed.lanes if not row.token]
    (row,) = running
    assert (row.key, row.token, row.ident, row.stopped, row.ready, row.waiting) == (
        "k", turn.token, work("m1"), "", "", 1,
    )  # fmt: skip
    assert 20 <= row.since_ms < 5000
    assert rest == [
        LaneRow("j", "", 0, "", "", "", "other", 1),
        LaneRow("p", "", 0, "", "paused", "for a while", "", 0),
    ]
    assert (listed.in_use, listed.dead) == (3, 0)
    assert len((await a.store.lanes(2)).lanes) == 2
    assert (await a.store.lanes(0))[:3] == (3, 0, [])


async def test_a_lane_that_nobody_uses_is_shown_as_empty(a: Peer) -> None:
    view = await a.store.lane("k", 10)
    assert (view.token, view.fence, view.stopped, view.ready, view.waiting, view.state) == ("", 0, "", "", 0, None)
    assert view.messages == ()


async def test_a_state_expires_after_a_place_came_and_went_during_a_turn_without_a_state(a: Peer, b: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s", keep_ms=100_000)
    turn = await a.begin("k", keep_ms=20_000)
    await b.leave(await b.queue_up("k", keep_ms=20_000))
    await a.done(turn, keep_ms=20_000)
    view = await a.store.lane("k", 1)
    assert view.state == b"s"
    assert 90_000 < view.state_ttl_ms <= 100_000


async def test_a_replayed_letter_leaves_the_state_the_time_that_it_had(a: Peer) -> None:
    await a.put("k", "m", keep_ms=20_000)
    await a.fail(await a.claim_one(), "dead")
    await a.done(await a.begin("k"), state=b"s", keep_ms=100_000)
    await a.store.stop("k", "paused", "")
    assert await a.store.replay("k", work("m"))
    await a.store.resume("k")
    await a.fail(await a.claim_one(), "dead")
    view = await a.store.lane("k", 1)
    assert view.state == b"s"
    assert 90_000 < view.state_ttl_ms <= 100_000
