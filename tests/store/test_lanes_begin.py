"""How messages and inline callers come into a lane, and what they are answered. On every store."""

from __future__ import annotations

import asyncio

import pytest

from inturn.store.lane import Begun, Submitted
from tests.store.world import ODD_NAMES, Peer, World, send_to, work


async def test_a_free_lane_is_granted_with_a_fence_and_its_state(a: Peer) -> None:
    first = await a.begin("k")
    assert first.state is None
    assert first.fence > 1_600_000_000_000_000
    await a.done(first, state=b"1 {}")
    second = await a.begin("k")
    assert second.state == b"1 {}"
    assert second.fence > first.fence


async def test_a_duplicate_is_answered_with_the_first_result(a: Peer, b: Peer) -> None:
    await a.done(await a.begin("k", "m"), result=b'"first"')
    assert (await b.ask_turn("k", "m"))[:5] == Begun("duplicate", result=b'"first"')[:5]
    await b.done(await b.begin("k", "other"))


async def test_the_same_id_is_pending_while_it_runs_or_waits(a: Peer, b: Peer) -> None:
    turn = await a.begin("k", "m")
    assert (await b.ask_turn("k", "m")).status == "pending"
    await b.queue_up("k", "n")
    assert (await a.ask_turn("k", "n")).status == "pending"
    assert await a.mailbox("k") == ["n"]
    await a.done(turn)


async def test_a_caller_that_does_not_wait_is_told_who_holds_the_lane_and_since_when(
    world: World, a: Peer, b: Peer
) -> None:
    turn = await a.begin("k")
    await world.pass_time(50)
    answer = await b.ask_turn("k", busy="reject")
    assert (answer.status, answer.holder, answer.ahead, answer.stopped) == ("busy", turn.token, 0, "")
    assert 50 <= answer.since_ms < 5000
    submitted = await b.submit("k", "m", busy="reject")
    assert (submitted.status, submitted.holder, submitted.ahead) == ("busy", turn.token, 0)
    assert 50 <= submitted.since_ms < 5000
    assert await a.mailbox("k") == []


async def test_a_lane_with_messages_that_nobody_runs_yet_is_busy_too(a: Peer) -> None:
    await a.put("k", "m")
    answer = await a.ask_turn("k", busy="reject")
    assert (answer.status, answer.holder, answer.ahead) == ("busy", "", 1)


async def test_a_caller_that_waits_holds_a_place_in_the_mailbox(a: Peer, b: Peer) -> None:
    await a.begin("k")
    await a.put("k", "m")
    opening = b.opening("k")
    answer = await b.store.begin(opening)
    assert (answer.status, answer.ahead) == ("waiting", 1)
    assert await a.mailbox("k") == ["m", "inline"]


async def test_a_full_mailbox_takes_no_more(a: Peer, b: Peer) -> None:
    await a.begin("k")
    await a.put("k", "m1", "m2", cap=2)
    assert await a.submit("k", "m3", cap=2) == Submitted("full", 2)
    answer = await b.ask_turn("k", cap=2)
    assert (answer.status, answer.ahead) == ("full", 2)
    assert await a.submit("k", "m4", cap=3) == Submitted("accepted", 3)


async def test_a_begin_that_is_asked_again_is_answered_the_same(a: Peer, b: Peer) -> None:
    held, waiting = a.opening("k", "m"), b.opening("k", "n")
    first = await a.store.begin(held)
    again = await a.store.begin(held)
    assert (again.status, again.fence, again.state) == ("granted", first.fence, None)
    for _ in range(2):
        assert (await b.store.begin(waiting)).status == "waiting"
    assert await a.mailbox("k") == ["n"]


async def test_a_submit_says_how_many_come_before_it(a: Peer) -> None:
    answers = [await a.submit("k", f"m{n}") for n in range(3)]
    assert answers == [Submitted("accepted", ahead) for ahead in range(3)]
    await a.begin("j")
    assert await a.submit("j", "m") == Submitted("accepted", 1)


async def test_a_submit_of_what_waits_or_runs_is_pending(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    assert (await b.submit("k", "m")).status == "pending"
    await a.claim_one()
    assert (await b.submit("k", "m")).status == "pending"
    assert await a.mailbox("k") == ["m"]


async def test_a_submit_of_what_was_committed_is_a_duplicate(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    await a.done(await a.claim_one(), result=b"7")
    assert await b.submit("k", "m") == Submitted("duplicate", result=b"7")
    assert await b.claim() == []


async def test_a_higher_priority_comes_first_and_equal_ones_in_order(a: Peer) -> None:
    await a.begin("k")
    for message_id, priority in (("low", -5), ("m1", 0), ("high", 1000), ("m2", 0), ("lowest", -1000)):
        await a.put("k", message_id, priority=priority)
    assert await a.mailbox("k") == ["high", "m1", "m2", "low", "lowest"]
    view = await a.store.lane("k", 1)
    assert (view.waiting, [message.priority for message in view.messages]) == (5, [1000])


async def test_only_one_of_many_that_begin_at_once_is_granted(a: Peer, b: Peer) -> None:
    answers = await asyncio.gather(*(peer.ask_turn("k", busy="reject") for _ in range(10) for peer in (a, b)))
    assert sorted(answer.status for answer in answers) == ["busy"] * 19 + ["granted"]


@pytest.mark.parametrize("odd", [name for name in ODD_NAMES if ">" not in name])
async def test_odd_keys_ids_and_bodies_are_kept_apart_and_unchanged(a: Peer, odd: str) -> None:
    await a.put(odd, odd, body=odd.encode())
    await a.put(f"{odd} ", "m")
    given = [turn for turn in await a.claim() if turn.key == odd]
    assert [(turn.ident, turn.messages[0].body) for turn in given] == [(work(odd), odd.encode())]
    await a.done(given[0], state=odd.encode(), result=odd.encode(), sends=[send_to(f"{odd}>x", odd)])
    assert await a.submit(odd, odd) == Submitted("duplicate", result=odd.encode())
    assert await a.state(odd) == odd.encode()
    assert await a.mailbox(f"{odd}>x") == [odd]


async def test_bodies_states_and_results_may_hold_any_bytes(a: Peer) -> None:
    every = bytes(range(256)) * 40
    await a.put("k", "m", body=every)
    turn = await a.claim_one()
    assert turn.messages[0].body == every
    await a.done(turn, state=every, result=every)
    assert (await a.submit("k", "m")).result == every
    assert (await a.begin("k")).state == every


async def test_leaving_a_place_or_a_turn_may_be_repeated(a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    waiting = await b.queue_up("k")
    assert [(await b.leave(waiting)).status for _ in range(2)] == ["left", "gone"]
    assert await a.mailbox("k") == []
    assert [(await a.leave(turn)).status for _ in range(2)] == ["released", "gone"]
    assert (await a.store.lanes(10)).in_use == 0


async def test_a_turn_that_was_taken_away_is_left_as_lost(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k", ttl_ms=100)
    await world.pass_time(150)
    await b.begin("k")
    assert (await a.leave(turn)).status == "lost"
    assert [(notice.kind, notice.token, notice.fence, notice.why) for notice in await a.beat()] == [
        ("lost", turn.token, turn.fence, "expired")
    ]


async def test_a_confirm_answers_whether_the_lease_is_known(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k", ttl_ms=100)
    assert await a.store.confirm("k", turn.token)
    assert not await a.store.confirm("k", a.new_token())
    assert not await a.store.confirm("j", turn.token)
    await world.pass_time(150)
    assert not await b.store.confirm("k", turn.token)


async def test_a_turn_ends_with_its_time_limit_although_its_process_lives(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k", ttl_ms=100, limit_ms=100)
    for _ in range(5):
        await world.pass_time(50)
        await a.beat()
    await b.begin("k")
    assert (await a.commit(turn)).status == "lost"
