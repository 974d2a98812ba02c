"""How leases and places end: by time, by death, by force. On every store. Beats and their inbox."""

from __future__ import annotations

import pytest

from inturn.store.limits import PLACE_LIVES_MS
from inturn.store.protocol import Released
from tests.store.world import Peer, World
from tests.waiting import until


async def test_the_lease_of_a_dead_process_is_taken_over_after_its_ttl(world: World, a: Peer, b: Peer) -> None:
    held = a.ask("n", ttl_ms=200)
    fence = (await a.acquire(held)).fence
    waiting = await b.wait_for("n")
    await world.pass_time(100)
    await b.beat()
    assert (await b.acquire(waiting)).status == "waiting"
    await world.pass_time(150)
    notices = await b.beat()
    assert [(notice.kind, notice.token) for notice in notices] == [("granted", waiting.token)]
    taken_over = await b.acquire(waiting)
    assert taken_over.status == "granted"
    assert taken_over.fence > fence
    # the loser finds out by its inbox, by a push, and by its own late release
    assert [(notice.kind, notice.token, notice.why) for notice in await a.beat()] == [("lost", held.token, "expired")]
    await until(lambda: a.told("lost", held))
    assert await a.release(held) == Released("lost")
    assert (await a.store.extend("n", held.token, "set", 1000)).status == "lost"
    view = await a.store.inspect("n")
    assert view is not None
    assert [holder.token for holder in view.holders] == [waiting.token]


async def test_a_newcomer_takes_over_what_has_ended_without_any_beat(world: World, a: Peer, b: Peer) -> None:
    await a.hold("n", ttl_ms=100)
    await world.pass_time(150)
    assert (await b.acquire(b.ask("n", wait=False))).status == "granted"


async def test_a_newcomer_does_not_pass_who_waits_for_what_has_ended(world: World, a: Peer, b: Peer) -> None:
    c = await world.peer()
    await a.hold("n", ttl_ms=100)
    waiting = await b.wait_for("n")
    await world.pass_time(150)
    assert (await c.acquire(c.ask("n", wait=False))).status == "busy"
    await until(lambda: b.told("granted", waiting))


async def test_beats_keep_every_lease_of_the_process(world: World, a: Peer, b: Peer) -> None:
    for name in ("x", "y"):
        await a.hold(name, ttl_ms=300)
    for _ in range(4):
        await world.pass_time(150)
        await a.beat()
    for name in ("x", "y"):
        assert (await b.acquire(b.ask(name, wait=False))).status == "busy"


async def test_a_release_after_the_end_is_lost_even_if_nobody_took_the_lock(world: World, a: Peer) -> None:
    held = await a.hold("n", ttl_ms=100)
    await world.pass_time(150)
    assert await a.release(held) == Released("lost")
    assert await a.store.inspect("n") is None


async def test_a_fixed_life_ends_although_its_process_lives(world: World, a: Peer, b: Peer) -> None:
    held = await a.hold("n", life_ms=200)
    await world.pass_time(250)
    await a.beat()
    assert (await b.acquire(b.ask("n", wait=False))).status == "granted"
    assert await a.release(held) == Released("lost")


async def test_a_lease_without_ttl_outlives_its_process_until_its_fixed_end(world: World, a: Peer, b: Peer) -> None:
    await a.hold("n", ttl_ms=0, life_ms=400)
    await a.store.depart()
    assert (await b.acquire(b.ask("n", wait=False))).status == "busy"
    await world.pass_time(450)
    assert (await b.acquire(b.ask("n", wait=False))).status == "granted"


async def test_an_ended_lease_is_not_shown_as_held(world: World, a: Peer) -> None:
    await a.hold("n", ttl_ms=100)
    await world.pass_time(150)
    view = await a.store.inspect("n")
    assert view is not None
    assert view.holders == ()


async def test_the_queue_moves_on_its_own_time_when_the_holder_is_gone(world: World, a: Peer, b: Peer) -> None:
    await a.hold("n", ttl_ms=200)
    first, second = await b.wait_for("n", ttl_ms=200), await b.wait_for("n")
    await world.pass_time(250)
    await b.beat()
    assert (await b.acquire(first)).status == "granted"
    assert (await b.acquire(second)).status == "waiting"


# -- extending -----------------------------------------------------------------------------------------------


async def test_extend_adds_sets_and_keeps_at_least(a: Peer) -> None:
    held = await a.hold("n", life_ms=10_000)

    async def left(how: str, ms: int) -> int:
        answer = await a.store.extend("n", held.token, how, ms)  # type: ignore[arg-type]
        assert answer.status == "extended"
        return answer.life_left_ms

    assert 14_000 < await left("add", 5000) <= 15_000
    assert 14_000 < await left("at_least", 1000) <= 15_000
    assert 19_000 < await left("at_least", 20_000) <= 20_000
    assert await left("set", 3000) == 3000
    assert 2000 < (await a.acquire(held)).life_left_ms <= 3000


async def test_extending_a_lease_without_a_fixed_end_only_confirms_it(a: Peer) -> None:
    held = await a.hold("n")
    answer = await a.store.extend("n", held.token, "set", 5)
    assert (answer.status, answer.life_left_ms) == ("extended", 0)
    assert answer.sent_at > 0


async def test_extending_shows_that_the_process_lives(world: World, a: Peer, b: Peer) -> None:
    held = await a.hold("n", ttl_ms=300)
    for _ in range(3):
        await world.pass_time(150)
        assert (await a.store.extend("n", held.token, "add", 1)).status == "extended"
    assert (await b.acquire(b.ask("n", wait=False))).status == "busy"


async def test_what_is_not_held_cannot_be_extended(world: World, a: Peer, b: Peer) -> None:
    assert (await a.store.extend("n", "nobody#1", "add", 1)).status == "lost"
    held = await a.hold("n", life_ms=100)
    waiting = await b.wait_for("n")
    assert (await b.store.extend("n", waiting.token, "add", 1000)).status == "lost"
    await world.pass_time(150)
    assert (await a.store.extend("n", held.token, "add", 1000)).status == "lost"


async def test_who_waits_learns_that_a_lease_was_cut_short(world: World, a: Peer, b: Peer) -> None:
    await a.hold_many(40)  # so that a beat does not find it by chance
    held = await a.hold("n", ttl_ms=0, life_ms=60_000)
    waiting = await b.wait_for("n")
    await a.store.extend("n", held.token, "set", 100)
    assert (await b.store.beat(0, [])).due_in_ms <= 100
    await world.pass_time(150)
    await b.beat()
    assert (await b.acquire(waiting)).status == "granted"


# -- provisional grants --------------------------------------------------------------------------------------


async def test_a_grant_that_nobody_confirms_lapses_and_goes_to_the_next(world: World, a: Peer, b: Peer) -> None:
    held = await a.hold("n")
    silent = b.ask("n")
    arrival = (await b.acquire(silent)).arrival
    next_ = await a.wait_for("n")
    await b.store.close()  # on Redis nobody hears it then, and it lapses sooner
    await a.release(held)
    for _ in range(25):
        await world.pass_time(100)
        await a.beat()
        if (await a.acquire(next_)).status == "granted":
            break
    else:
        pytest.fail("it did not lapse")
    # a confirmation that comes too late queues anew
    late = await b.acquire(silent)
    assert late.status == "waiting"
    assert late.arrival > arrival
    assert [(n.kind, n.token, n.why) for n in await b.beat()] == [("lost", silent.token, "not confirmed in time")]


async def test_a_confirmed_grant_does_not_lapse(world: World, a: Peer, b: Peer) -> None:
    held = await a.hold("n")
    waiting = await b.wait_for("n")
    await a.wait_for("n")
    await a.release(held)
    assert (await b.acquire(waiting)).status == "granted"
    await world.pass_time(2100)
    await b.beat()
    await a.beat()
    view = await a.store.inspect("n")
    assert view is not None
    assert [holder.token for holder in view.holders] == [waiting.token]


# -- places --------------------------------------------------------------------------------------------------


async def test_the_place_of_a_process_that_is_not_seen_for_three_beats_is_dropped(
    world: World, a: Peer, b: Peer
) -> None:
    held = await a.hold("n")
    gone = b.ask("n")
    arrival = (await b.acquire(gone)).arrival
    await world.pass_time(PLACE_LIVES_MS + 100)
    await a.beat()
    alive = await a.wait_for("n")
    await a.release(held)
    await until(lambda: a.told("granted", alive))
    again = await b.acquire(gone)
    assert again.status == "waiting"
    assert again.arrival > arrival


async def test_a_process_that_departed_waits_and_holds_no_more(a: Peer, b: Peer) -> None:
    held = await a.hold("x")
    gone = await b.wait_for("x")
    await b.hold("y")
    alive = await a.wait_for("x")
    await b.store.depart()
    await a.release(held)
    await until(lambda: a.told("granted", alive))
    assert (await a.acquire(a.ask("y", wait=False))).status == "granted"
    assert not b.told("granted", gone)


# -- beats ---------------------------------------------------------------------------------------------------


async def test_a_beat_says_whether_the_process_is_known_and_how_long_it_was_away(world: World, a: Peer) -> None:
    first = await a.store.beat(0, [])
    assert (first.is_known, first.away_ms, first.notices) == (False, 0, [])
    await world.pass_time(120)
    second = await a.store.beat(0, [])
    assert second.is_known
    assert 120 <= second.away_ms < 5000
    assert second.now_us > first.now_us
    assert second.sent_at >= first.sent_at > 0
    await a.store.depart()
    assert not (await a.store.beat(0, [])).is_known


async def test_a_beat_says_when_the_next_lock_must_be_looked_at(a: Peer, b: Peer) -> None:
    await a.hold("n", ttl_ms=3000)
    assert (await b.store.beat(0, [])).due_in_ms == -1
    await b.wait_for("n")
    assert 1000 < (await b.store.beat(0, [])).due_in_ms <= 3000


async def test_a_lock_that_never_ends_is_never_due(a: Peer, b: Peer) -> None:
    await a.hold("n", ttl_ms=0)
    await b.wait_for("n")
    assert (await b.store.beat(0, [])).due_in_ms == -1


async def test_a_loss_is_told_until_it_is_noted(world: World, a: Peer, b: Peer) -> None:
    held = [await a.hold(name) for name in ("x", "y")]
    for request in held:
        await b.store.force_release(request.name)
    notices = await a.beat()
    assert {notice.token for notice in notices} == {request.token for request in held}
    assert sorted(await a.beat()) == sorted(notices)
    noted = notices[0]
    assert [notice.token for notice in await a.beat(noted)] == [notice.token for notice in notices if notice != noted]
    assert [notice for notice in await a.beat(noted) if notice == noted] == []
    assert await a.beat(*notices) == []


async def test_what_the_dead_left_in_a_lock_that_nobody_asks_for_is_found_in_the_end(
    world: World, a: Peer, b: Peer
) -> None:
    for number in range(6):
        await a.hold(f"n{number}", ttl_ms=100)
    await a.store.depart()
    await world.pass_time(150)
    for _ in range(200):
        await b.beat()
        if not await b.store.names(10):
            return
    pytest.fail(f"still there: {await b.store.names(10)}")


async def test_a_release_does_not_forget_when_the_other_grants_could_end(world: World, a: Peer, b: Peer) -> None:
    await a.hold("n", capacity=2, ttl_ms=0, life_ms=3_000)
    other = await b.hold("n", capacity=2, ttl_ms=60_000)
    await b.wait_for("n", capacity=2, ttl_ms=60_000)
    await b.wait_for("n", capacity=2, ttl_ms=60_000)
    await b.release(other)
    assert 0 < (await a.store.beat(0, [])).due_in_ms <= 3_000
