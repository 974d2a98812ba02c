"""Sends: messages to other lanes that become real with the commit. On every store."""

from __future__ import annotations

from tests.store.world import Peer, World, send_to, work
from tests.waiting import until


async def test_sends_arrive_in_order_behind_what_was_there(a: Peer) -> None:
    await a.put("k", "m")
    await a.put("out", "before")
    turn = next(turn for turn in await a.claim() if turn.key == "k")
    sends = [send_to("out", f"s{number}", body=f"{number}".encode()) for number in range(5)]
    await a.done(turn, sends=sends)
    view = await a.store.lane("out", 10)
    assert [message.id for message in view.messages] == ["before", "s0", "s1", "s2", "s3", "s4"]
    assert [message.body for message in view.messages[1:]] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_send_to_several_lanes_arrives_in_each(a: Peer) -> None:
    turn = await a.begin("k")
    await a.done(turn, sends=[send_to("x", "1"), send_to("y", "1"), send_to("x", "2"), send_to("k>work", "1")])
    assert [await a.mailbox(key) for key in ("x", "y", "k>work")] == [["1", "2"], ["1"], ["1"]]
    assert sorted(turn.key for turn in await a.claim()) == ["k>work", "x", "y"]


async def test_a_send_to_the_same_lane_is_given_as_its_next_message(a: Peer) -> None:
    await a.put("k", "m1")
    turn = await a.claim_one()
    following = await a.done(turn, state=b"s", sends=[send_to("k", "s1"), send_to("k", "s2")], next_token=a.new_token())
    assert following is not None
    assert following.ident == work("s1")
    assert await a.mailbox("k") == ["s1", "s2"]
    assert await a.state("k") == b"s"


async def test_a_send_to_the_same_lane_comes_behind_what_waits(a: Peer) -> None:
    turn = await a.begin("k")
    await a.put("k", "m1")
    await a.done(turn, sends=[send_to("k", "s1")])
    assert await a.mailbox("k") == ["m1", "s1"]


async def test_a_send_whose_id_waits_runs_or_was_committed_is_a_duplicate(a: Peer) -> None:
    await a.put("x", "m1", "m2")
    running = await a.claim_one()
    await a.done(await a.begin("k"), sends=[send_to("x", "m1"), send_to("x", "m2"), send_to("x", "m3")])
    assert await a.mailbox("x") == ["m1", "m2", "m3"]
    await a.done(running)
    await a.done(await a.begin("k"), sends=[send_to("x", "m1")])
    assert await a.mailbox("x") == ["m2", "m3"]


async def test_the_same_id_twice_in_one_commit_is_sent_once(a: Peer) -> None:
    sends = [send_to("x", "s", body=b"1"), send_to("x", "s", body=b"2"), send_to("k", "s"), send_to("k", "s")]
    await a.done(await a.begin("k"), sends=sends)
    assert [message.body for message in (await a.store.lane("x", 10)).messages] == [b"1"]
    assert await a.mailbox("k") == ["s"]


async def test_a_send_of_its_own_id_to_its_own_lane_is_a_duplicate_of_itself(a: Peer) -> None:
    await a.put("k", "m")
    await a.done(await a.claim_one(), sends=[send_to("k", "m")])
    assert await a.mailbox("k") == []


async def test_a_turn_that_leaves_no_mark_may_send_its_own_id_to_its_own_lane(a: Peer) -> None:
    """Its message is over with the commit, so that nothing is there of which the send could be a duplicate."""
    await a.put("k", "m")
    following = await a.done(
        await a.claim_one(), window_ms=0, sends=[send_to("k", "m", body=b'"again"')], next_token=a.new_token()
    )
    assert following is not None
    assert (following.ident, following.messages[0].body, following.attempts) == (work("m"), b'"again"', 1)


async def test_a_send_takes_its_id_out_of_the_dead_letters(a: Peer) -> None:
    await a.put("x", "s")
    await a.fail(await a.claim_one(), "dead")
    await a.done(await a.begin("k"), sends=[send_to("x", "s")])
    assert await a.store.dead(10) == []
    assert await a.mailbox("x") == ["s"]


async def test_a_send_wakes_an_idle_worker(a: Peer, b: Peer) -> None:
    assert await b.claim() == []
    await a.done(await a.begin("k"), sends=[send_to("x", "s")])
    await until(b.told_ready)
    assert (await b.claim_one()).ident == work("s")


async def test_a_send_is_never_refused_by_a_full_or_stopped_lane(a: Peer) -> None:
    await a.begin("x")
    await a.put("x", "m", cap=1)
    await a.store.stop("y", "paused", "")
    await a.done(await a.begin("k"), sends=[send_to("x", "s"), send_to("y", "s")])
    assert await a.mailbox("x") == ["m", "s"]
    assert await a.mailbox("y") == ["s"]


async def test_a_send_to_a_lane_whose_holder_is_dead_is_given_after_its_end(world: World, a: Peer, b: Peer) -> None:
    await a.begin("x", ttl_ms=100)
    await b.done(await b.begin("k"), sends=[send_to("x", "s")])
    assert await b.claim() == []
    await world.pass_time(150)
    assert (await b.claim_one()).ident == work("s")


async def test_a_turn_that_fails_sends_nothing(a: Peer) -> None:
    await a.put("k", "m")
    await a.fail(await a.claim_one(), "dead")
    assert (await a.store.lanes(10)).in_use == 0
