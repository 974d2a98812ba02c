"""What became of a message, and who is told when it is known. On every store."""

from __future__ import annotations

from inturn.store.lane import Outcome, ident_of
from tests.store.world import Peer, World, work
from tests.waiting import until


async def test_a_message_that_is_done_has_its_result(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    await a.done(await a.claim_one(), result=b'"r"')
    assert await b.attend("k", work("m")) == Outcome("done", b'"r"')


async def test_a_message_that_is_dead_has_its_attempts_and_errors(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    ended = await a.fail(await a.claim_one(), "retry", error="1", next_token=a.new_token())
    assert ended.next is not None
    await a.fail(ended.next, "dead", error="2")
    assert await b.attend("k", work("m")) == Outcome("dead", b"", 2, ("1", "2"))


async def test_what_was_never_there_is_unknown(a: Peer) -> None:
    assert await a.attend("k", work("m")) == Outcome("unknown")
    await a.put("k", "m")
    assert await a.attend("k", work("n")) == Outcome("unknown")
    assert await a.attend("k", work("m", "other")) == Outcome("unknown")


async def test_who_attends_is_told_when_the_message_is_committed(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    assert await b.attend("k", work("m")) == Outcome("pending")
    turn = await a.claim_one()
    assert await b.attend("k", work("m")) == Outcome("pending")
    await a.done(turn, result=b"1")
    await until(lambda: b.told_settled("k", work("m")))
    assert [(notice.kind, notice.name) for notice in await b.beat()] == [("settled", f"k\0{work('m')}")]
    assert await b.attend("k", work("m")) == Outcome("done", b"1")
    assert await b.beat() == []
    assert not a.told_settled("k", work("m"))


async def test_all_who_attend_are_told(world: World, a: Peer, b: Peer) -> None:
    peers = [a, b, await world.peer()]
    await a.put("k", "m")
    for peer in peers:
        assert await peer.attend("k", work("m")) == Outcome("pending")
    await a.done(await a.claim_one())
    await until(lambda: all(peer.told_settled("k", work("m")) for peer in peers))


async def test_a_retry_settles_nothing_and_a_death_does(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    assert await b.attend("k", work("m")) == Outcome("pending")
    ended = await a.fail(await a.claim_one(), "retry", next_token=a.new_token())
    assert await b.beat() == []
    assert ended.next is not None
    await a.fail(ended.next, "dead", error="e")
    await until(lambda: b.told_settled("k", work("m")))


async def test_the_loss_of_a_worker_settles_nothing(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m", ttl_ms=100)
    await a.claim_one()
    assert await b.attend("k", work("m")) == Outcome("pending")
    await world.pass_time(150)
    assert await b.beat() == []
    await b.done(await b.claim_one())
    await until(lambda: b.told_settled("k", work("m")))


async def test_an_inline_message_that_runs_is_attended_and_commits(a: Peer, b: Peer) -> None:
    ident = ident_of("", "m")
    turn = await a.begin("k", "m")
    assert await b.attend("k", ident) == Outcome("pending")
    await a.done(turn, result=b"1")
    await until(lambda: b.told_settled("k", ident))
    assert await b.attend("k", ident) == Outcome("done", b"1")


async def test_an_inline_message_that_runs_is_attended_and_leaves(a: Peer, b: Peer) -> None:
    ident = ident_of("", "m")
    turn = await a.begin("k", "m")
    assert await b.attend("k", ident) == Outcome("pending")
    await a.leave(turn)
    await until(lambda: b.told_settled("k", ident))
    assert await b.attend("k", ident) == Outcome("unknown")


async def test_an_inline_message_that_waits_is_attended_until_its_turn_is_over(a: Peer, b: Peer) -> None:
    ident = ident_of("", "m")
    turn = await a.begin("k")
    waiting = await a.queue_up("k", "m")
    assert await b.attend("k", ident) == Outcome("pending")
    await a.done(turn)
    inline = await a.offered(waiting)
    assert not b.told_settled("k", ident)
    await a.done(inline, result=b"1")
    await until(lambda: b.told_settled("k", ident))


async def test_an_inline_message_whose_caller_gives_up_or_dies_is_settled(world: World, a: Peer, b: Peer) -> None:
    dead, turn = await world.peer(), await a.begin("k")
    leaving = await a.queue_up("k", "m1")
    await dead.queue_up("k", "m2")
    for name in ("m1", "m2"):
        assert await b.attend("k", ident_of("", name)) == Outcome("pending")
    await a.leave(leaving)
    await until(lambda: b.told_settled("k", ident_of("", "m1")))
    await dead.store.depart()
    await a.done(turn)
    await until(lambda: b.told_settled("k", ident_of("", "m2")))


async def test_an_inline_message_whose_holder_dies_is_settled_though_nobody_asks_for_the_lane(
    world: World, a: Peer, b: Peer
) -> None:
    await a.begin("k", "m", ttl_ms=100)
    assert await b.attend("k", ident_of("", "m")) == Outcome("pending")
    await world.pass_time(150)
    assert [notice.kind for notice in await b.beat()] == ["settled"]
    assert await b.attend("k", ident_of("", "m")) == Outcome("unknown")


async def test_what_is_cleared_away_is_settled(a: Peer, b: Peer) -> None:
    await a.put("k", "m1", "m2")
    await a.claim_one()
    for name in ("m1", "m2"):
        assert await b.attend("k", work(name)) == Outcome("pending")
    assert await a.store.clear("k") == 2
    await until(lambda: b.told_settled("k", work("m1")) and b.told_settled("k", work("m2")))
    assert await b.attend("k", work("m1")) == Outcome("unknown")


async def test_a_message_that_comes_too_late_is_settled(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    await a.put("k", "m", late_ms=50)
    assert await b.attend("k", work("m")) == Outcome("pending")
    await world.pass_time(100)
    await a.done(turn)
    await until(lambda: b.told_settled("k", work("m")))
