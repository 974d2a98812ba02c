"""What turns wait for, as their processes report it: the edges of deadlock detection. On every store."""

from __future__ import annotations

from inturn.store.limits import PLACE_LIVES_MS
from inturn.store.protocol import Edge, Wait
from tests.store.world import Peer, World, work


async def test_a_wait_in_a_lane_is_for_its_holder(world: World, a: Peer, b: Peer) -> None:
    holder = await a.begin("k")
    ahead, waiting = await b.queue_up("k"), await b.queue_up("k")
    now_us = await b.store.report(0, [Wait("turn", waiting.token, "k", waiting.ident, age_ms=1500)])
    (edge,) = await a.store.edges(["turn"])
    arrival = now_us - 1_500_000
    assert edge == Edge("turn", "k", waiting.token, arrival, edge.age_ms, True, (holder.token,), edge.reported)
    assert edge.reported >= now_us // 1000
    assert 1500 <= edge.age_ms < 6500
    assert ahead.token not in edge.blockers


async def test_a_wait_for_a_result_lasts_until_the_message_is_settled(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    awaited = Wait("turn", "await#1", "k", work("m"), arrival=7)
    await b.store.report(0, [awaited])
    assert await a.store.edges(["turn"]) == []  # a lane that is ready is in nobody's hands
    turn = await a.claim_one()
    (edge,) = await a.store.edges(["turn"])
    assert (edge.blockers, edge.arrival) == ((turn.token,), 7)
    await a.done(turn)
    assert await a.store.edges(["turn"]) == []


async def test_who_has_been_given_the_lane_waits_no_more(a: Peer) -> None:
    inline = await a.begin("k")
    await a.store.report(0, [Wait("turn", inline.token, "k", inline.ident)])
    assert await a.store.edges(["turn"]) == []


async def test_a_turn_that_waits_for_a_lock_has_the_blockers_of_the_lock(a: Peer, b: Peer) -> None:
    await a.hold("n", owner="alice")
    waiting = await b.wait_for("n", owner="bob")
    await b.store.report(0, [Wait("turn", waiting.token, "n")])
    by_turn, by_owner = await a.store.edges(["turn", "bob"])
    assert by_turn.blockers == by_owner.blockers == ("alice",)
    assert (by_owner.reported, by_turn.reported > 0) == (0, True)
    await b.release(waiting)
    assert await a.store.edges(["turn"]) == []


async def test_a_report_says_all_of_a_node_and_lasts_for_three_beats(world: World, a: Peer) -> None:
    await a.begin("k")
    await a.begin("l")
    waits = [Wait("turn", f"await#{n}", key, await _waiting(a, key)) for n, key in enumerate(("k", "l"))]
    await a.store.report(0, waits)
    assert {edge.name for edge in await a.store.edges(["turn"])} == {"k", "l"}
    await a.store.report(0, waits[:1])
    assert [edge.name for edge in await a.store.edges(["turn"])] == ["k"]
    await a.store.report(0, [Wait("turn")])
    assert await a.store.edges(["turn"]) == []
    await a.store.report(0, waits)
    await world.pass_time(PLACE_LIVES_MS + 1)
    await a.beat()
    assert await a.store.edges(["turn"]) == []


async def _waiting(peer: Peer, key: str) -> str:
    return (await peer.queue_up(key)).ident
