"""A process that works one lane by itself: the next turn of that lane, and of no other. On every store."""

from __future__ import annotations

from inturn.store.lane import Rule
from tests.store.world import TTL_MS, WORK, Peer, World, work


async def test_it_gets_the_next_message_with_the_state_and_no_other_lane(a: Peer, b: Peer) -> None:
    await a.done(await a.begin("k"), state=b"1 7")
    await a.put("other", "m0")
    await a.put("k", "m1", "m2", body=b'"b"')
    call = a.new_token()
    turn = await a.store.claim_lane(call, [WORK], "k")
    assert turn is not None
    assert (turn.key, turn.token, turn.ident, turn.attempts) == ("k", f"{call}.1", work("m1"), 1)
    assert (turn.messages[0].body, turn.state) == (b'"b"', b"1 7")
    assert await b.store.claim_lane(b.new_token(), [WORK], "k") is None, "the lane is held"
    ended = await a.commit(turn, next_token=a.new_token(), can=[WORK])
    assert ended.next is not None
    assert ended.next.ident == work("m2")
    assert (await b.claim_one()).key == "other", "what it did not ask for is still ready"


async def test_nothing_is_given_of_an_idle_a_stopped_or_a_waiting_lane(a: Peer) -> None:
    assert await a.store.claim_lane(a.new_token(), [WORK], "k") is None
    await a.put("k", "m1")
    assert await a.store.claim_lane(a.new_token(), ["something else"], "k") is None
    await a.store.stop("k", "paused", "by hand")
    assert await a.store.claim_lane(a.new_token(), [WORK], "k") is None
    await a.store.resume("k")
    turn = await a.store.claim_lane(a.new_token(), [WORK], "k")
    assert turn is not None
    await a.fail(turn, "retry", delay_ms=60_000)
    assert await a.store.claim_lane(a.new_token(), [WORK], "k") is None
    assert [message.id for message in (await a.store.lane("k", 10)).messages] == ["m1"]


async def test_a_worker_gets_what_was_not_given(a: Peer, b: Peer) -> None:
    """A claim that gives nothing does not take the lane out of the ready list."""
    await a.put("k", "m1")
    assert await a.store.claim_lane(a.new_token(), ["something else"], "k") is None
    assert (await b.claim_one()).ident == work("m1")


async def test_a_burst_is_given_as_one(a: Peer) -> None:
    await a.put("k", "m1", "m2", "m3", rule=Rule("merge", cap=2))
    turn = await a.store.claim_lane(a.new_token(), [WORK], "k")
    assert turn is not None
    assert [message.ident for message in turn.messages] == [work("m1"), work("m2")]


async def test_the_lane_of_a_dead_process_is_given_when_its_lease_has_ended(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m1")
    await a.store.claim_lane(a.new_token(), [WORK], "k")
    assert await b.store.claim_lane(b.new_token(), [WORK], "k") is None
    await world.pass_time(TTL_MS + 100)
    turn = await b.store.claim_lane(b.new_token(), [WORK], "k")
    assert turn is not None
    assert (turn.ident, turn.attempts) == (work("m1"), 2)


async def test_claiming_one_lane_gives_a_lane_that_is_ready_ahead_of_all_others(a: Peer) -> None:
    await a.put("first", "m")
    await a.put("k", "m1", "m2")
    call = a.new_token()
    turn = await a.store.claim_lane(call, [WORK], "k")
    assert turn is not None
    assert (turn.key, turn.ident, turn.attempts) == ("k", work("m1"), 1)
    assert [given.key for given in await a.claim()] == ["first"]
    await a.done(turn)
    assert (await a.claim_one()).ident == work("m2")


async def test_claiming_one_lane_may_be_repeated_and_given_back(a: Peer) -> None:
    await a.put("k", "m")
    call = a.new_token()
    turn = await a.store.claim_lane(call, [WORK], "k")
    assert turn is not None
    again = await a.store.claim_lane(call, [WORK], "k")
    assert again is not None
    assert again._replace(sent_at=0.0, messages=()) == turn._replace(sent_at=0.0, messages=())
    assert await a.store.unclaim(0, call) == 1
    assert await a.store.claim_lane(call, [WORK], "k") is None
    assert (await a.claim_one()).attempts == 1


async def test_claiming_one_lane_gives_nothing_of_a_lane_that_is_busy_stopped_idle_or_anothers(
    a: Peer, b: Peer
) -> None:
    await a.put("busy", "m1", "m2")
    await a.claim_one()
    await a.put("stopped", "m")
    await a.store.stop("stopped", "paused", "why")
    await a.put("others", "m", handler="other")
    for key in ("busy", "stopped", "idle", "others"):
        assert await b.store.claim_lane(b.new_token(), [WORK], key) is None
    assert (await b.claim_one("other")).key == "others"
    assert await a.store.resume("stopped")
    assert (await b.claim_one()).key == "stopped"
