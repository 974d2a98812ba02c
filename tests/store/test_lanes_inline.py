"""Inline callers and submitted messages stand in one order. On every store."""

from __future__ import annotations

from tests.store.world import Inline, Peer, World, work
from tests.waiting import until


async def test_submitted_and_inline_messages_run_in_one_order(a: Peer, b: Peer) -> None:
    first = await a.begin("k")
    await a.put("k", "m1")
    inline = await b.queue_up("k")
    await a.put("k", "m2")
    assert await a.mailbox("k") == ["m1", "inline", "m2"]
    await a.done(first, state=b"0")
    one = await a.claim_one()
    assert (one.ident, one.state) == (work("m1"), b"0")
    await a.done(one, state=b"1")
    assert await a.claim() == []
    two = await b.offered(inline)
    assert two.state == b"1"
    await b.done(two, state=b"2")
    three = await a.claim_one()
    assert (three.ident, three.state) == (work("m2"), b"2")
    assert first.fence < one.fence < two.fence < three.fence


async def test_a_commit_hands_the_lane_to_the_very_caller_that_waits(a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    waiting = await b.queue_up("k")
    await a.done(turn)
    view = await a.store.lane("k", 1)
    assert (view.token, view.ident) == (waiting.token, waiting.ident)
    assert (await a.ask_turn("k", busy="reject")).holder == waiting.token
    assert [(notice.kind, notice.token, notice.name) for notice in await b.beat()] == [("turn", waiting.token, "k")]
    turn = await b.offered(waiting)
    assert turn.fence == view.fence
    assert await b.beat() == []


async def test_the_turn_also_comes_when_the_one_before_is_left_or_fails(a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    first, second = await b.queue_up("k"), await b.queue_up("k")
    await a.leave(turn)
    await b.leave(await b.offered(first))
    await b.done(await b.offered(second))
    await a.put("k", "m")
    given = await a.claim_one()
    third = await b.queue_up("k")
    await a.fail(given, "dead")
    await b.done(await b.offered(third))


async def test_the_place_of_a_dead_process_is_skipped(world: World, a: Peer, b: Peer) -> None:
    dead = await world.peer()
    turn = await a.begin("k")
    await dead.queue_up("k", "m")
    await a.put("k", "m")
    living = await b.queue_up("k")
    await dead.store.depart()
    await a.done(turn)
    await a.done(await a.claim_one())
    await b.done(await b.offered(living))
    assert (await a.store.lanes(10)).in_use == 0


async def test_a_place_lives_as_long_as_its_process_is_seen(world: World, a: Peer, b: Peer) -> None:
    silent = await world.peer()
    turn = await a.begin("k")
    await silent.queue_up("k")
    waiting = await b.queue_up("k")
    for _ in range(2):
        await world.pass_time(1600)
        await a.beat()
        await b.beat()
    await a.done(turn)
    assert (await a.store.lane("k", 1)).token == waiting.token
    await b.done(await b.offered(waiting))


async def test_the_id_of_a_dead_callers_place_is_free_again(world: World, a: Peer, b: Peer) -> None:
    dead, gone = await world.peer(), await world.peer()
    await dead.begin("k")
    await gone.queue_up("k", "m")
    await dead.store.depart()
    await gone.store.depart()
    await b.begin("k", "m")


async def test_a_turn_that_is_offered_and_not_confirmed_lapses_and_the_next_goes_on(
    world: World, a: Peer, b: Peer
) -> None:
    turn = await a.begin("k")
    silent, waiting = await b.queue_up("k"), await a.queue_up("k")
    await a.done(turn)
    assert (await a.store.lane("k", 1)).token == silent.token
    await world.pass_time(2100)
    await a.beat()
    following = await a.offered(waiting)
    lost = [(notice.kind, notice.token, notice.why) for notice in await b.beat()]
    assert lost == [("lost", silent.token, "not confirmed in time")]
    # who comes too late queues anew
    assert (await b.store.begin(silent)).status == "waiting"
    await a.done(following)
    await b.done(await b.take_up(silent))


async def test_an_offer_may_be_left(a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    first, second = await b.queue_up("k"), await a.queue_up("k")
    await a.done(turn)
    assert (await b.leave(first)).status == "released"
    assert await b.beat() == []
    await a.done(await a.offered(second))


async def test_the_message_of_an_inline_caller_that_dies_is_never_given_to_a_worker(
    world: World, a: Peer, b: Peer
) -> None:
    await a.begin("k", "m", ttl_ms=100)
    await b.put("k", "behind")
    await world.pass_time(150)
    given = await b.claim("work", "")
    assert [turn.ident for turn in given] == [work("behind")]
    await b.done(given[0])
    assert (await b.attend("k", "\0m")).status == "unknown"
    assert await b.store.dead(10) == []
    await b.begin("k", "m")


async def test_an_inline_holder_that_dies_alone_is_followed_by_whoever_comes(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k", "m", ttl_ms=100)
    await world.pass_time(150)
    heir = await b.begin("k", "m")
    assert (await a.commit(turn, state=b"z")).status == "lost"
    await b.done(heir, state=b"heir")
    assert await b.state("k") == b"heir"


async def test_a_lane_whose_dead_holder_nobody_asks_for_is_cleaned_up_by_beats(world: World, a: Peer, b: Peer) -> None:
    await a.begin("k", ttl_ms=100)
    await world.pass_time(150)
    for _ in range(5):
        await b.beat()
    assert (await b.store.lanes(10)).in_use == 0


async def test_beats_keep_an_inline_turn_and_a_place(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k", ttl_ms=300)
    waiting = await b.queue_up("k", ttl_ms=300)
    for _ in range(4):
        await world.pass_time(150)
        await a.beat()
        await b.beat()
    await a.done(turn)
    inline = await b.offered(waiting)
    for _ in range(4):
        await world.pass_time(150)
        await b.beat()
        assert (await a.ask_turn("k", busy="reject")).holder == inline.token
    await b.done(inline)


async def test_a_caller_that_waits_for_a_dead_holder_gets_the_turn_from_its_own_beat(
    world: World, a: Peer, b: Peer
) -> None:
    await a.begin("k", ttl_ms=200)
    waiting = await b.queue_up("k")
    await world.pass_time(250)
    assert [notice.kind for notice in await b.beat()] == ["turn"]
    turn = await b.offered(waiting)
    assert isinstance(turn, Inline)


async def test_a_caller_without_an_id_is_never_a_duplicate(a: Peer) -> None:
    opening = a.opening("k")
    await a.done(await a.take_up(opening), window_ms=0)
    await a.done(await a.begin("k"), window_ms=0)


async def test_a_caller_that_is_cleared_away_may_ask_again(a: Peer, b: Peer) -> None:
    await a.begin("k")
    waiting = await b.queue_up("k")
    assert await a.store.clear("k") == 1
    assert (await b.store.begin(waiting)).status == "granted"


async def test_a_turn_comes_by_push_without_a_beat(a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    waiting = await b.queue_up("k")
    await a.done(turn)
    await until(lambda: b.told("turn", waiting))
    (notice,) = b.told("turn", waiting)
    assert notice.name == "k"


async def test_a_caller_whose_place_was_skipped_is_told_and_asks_again(a: Peer, b: Peer) -> None:
    """Its process was not seen for a while, and lives all the same: its beat was only late on its way."""
    turn = await a.begin("k")
    waiting = await b.queue_up("k")
    await b.store.depart()
    await a.done(turn)
    assert ("lost", waiting.token) in [(notice.kind, notice.token) for notice in await b.beat()]
    await b.done(await b.take_up(waiting))
