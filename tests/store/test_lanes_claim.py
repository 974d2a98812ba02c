"""How workers get their turns: order, fairness, takeover, wake-ups. On every store."""

from __future__ import annotations

import pytest

from inturn.store.lane import Claimed
from inturn.store.views import HandlerRow
from tests.store.world import WORK, Peer, World, work
from tests.waiting import until


async def test_a_claim_gives_the_message_its_state_and_how_long_it_waited(world: World, a: Peer) -> None:
    await a.done(await a.begin("k"), state=b"s")
    await a.put("k", "m", body=b'"b"', ttl_ms=5000, limit_ms=7000)
    await world.pass_time(50)
    turn = await a.claim_one()
    assert (turn.key, turn.ident, turn.messages[0].body, turn.state) == ("k", work("m"), b'"b"', b"s")
    assert (turn.attempts, turn.ttl_ms, turn.limit_ms) == (1, 5000, 7000)
    assert 50 <= turn.messages[0].waited_ms < 5000
    assert turn.token.startswith(f"{a.store.process}#")
    assert turn.sent_at > 0


async def test_attempts_are_counted_when_the_turn_is_given(a: Peer) -> None:
    await a.put("k", "m")
    await a.claim_one()
    (message,) = (await a.store.lane("k", 10)).messages
    assert message.attempts == 1


async def test_messages_of_a_lane_are_given_one_at_a_time_and_in_order(a: Peer, b: Peer) -> None:
    await a.put("k", *(f"m{n}" for n in range(5)))
    for number in range(5):
        (turn,) = await a.claim()
        assert turn.ident == work(f"m{number}")
        assert await b.claim() == []
        await a.done(turn)
    assert await a.claim() == []


async def test_lanes_take_turns(a: Peer) -> None:
    """A lane that goes on is behind the others that were ready."""
    await a.put("long", *(f"m{n}" for n in range(4)))
    await a.put("x", "m")
    await a.put("y", "m")
    order = []
    for _ in range(6):
        turn = await a.claim_one()
        order.append(turn.key)
        await a.done(turn)
    assert order == ["long", "x", "y", "long", "long", "long"]


async def test_handlers_take_turns(a: Peer) -> None:
    for number in range(4):
        await a.put(f"many {number}", "m")
    await a.put("one", "m", handler="rare")
    assert {turn.key for turn in await a.claim("work", "rare", count=2)} == {"many 0", "one"}


async def test_a_claim_gives_no_more_than_it_is_asked_for(a: Peer) -> None:
    for number in range(5):
        await a.put(f"k{number}", "m")
    assert [turn.key for turn in await a.claim(count=2)] == ["k0", "k1"]
    assert [turn.key for turn in await a.claim(count=10)] == ["k2", "k3", "k4"]


async def test_a_message_is_only_given_to_who_can_run_it(a: Peer, b: Peer) -> None:
    await a.put("k", "m", handler="other")
    assert await a.claim("work", "third") == []
    assert (await b.claim_one("other")).ident == work("m", "other")


async def test_a_lane_stands_in_the_ready_list_of_its_next_message(a: Peer) -> None:
    await a.put("k", "m1")
    await a.put("k", "m2", handler="other")
    assert (await a.store.lane("k", 1)).ready == "work"
    await a.done(await a.claim_one())
    assert (await a.store.lane("k", 1)).ready == "other"
    assert await a.claim("work") == []
    await a.put("k", "urgent", priority=1)
    assert (await a.store.lane("k", 1)).ready == "work"
    assert await a.claim("other") == []
    await a.done(await a.claim_one("work"))
    assert (await a.claim_one("other")).ident == work("m2", "other")


async def test_a_handler_without_a_living_worker_is_seen(a: Peer) -> None:
    await a.put("k", "m")
    await a.put("j", "m", handler="other")
    await a.claim("work", count=1)
    rows = {row.name: row for row in (await a.store.lanes(10)).handlers}
    assert rows["other"] == HandlerRow("other", 1, 0)
    assert rows["work"] == HandlerRow("work", 0, 1)
    await a.store.unwork()
    assert {row.name: row.workers for row in (await a.store.lanes(10)).handlers} == {"other": 0, "work": 0}


async def test_a_claim_that_is_asked_again_gives_the_same_turns(a: Peer) -> None:
    await a.put("k", "m1", "m2")
    await a.put("j", "m1")
    call = a.new_token()
    first, again = await a.claim(call=call), await a.claim(call=call)
    assert len(first) == 2
    assert [turn[:6] for turn in again] == [turn[:6] for turn in first]
    await a.done(first[0])
    assert [turn.key for turn in await a.claim(call=call)] == [first[1].key]


async def test_unclaim_gives_back_what_nobody_took_as_if_it_had_not_been_given(a: Peer, b: Peer) -> None:
    await a.put("k", "m1", "m2")
    await a.put("j", "m1")
    call = a.new_token()
    assert len(await a.claim(call=call)) == 2
    assert await a.store.unclaim(0, call) == 2
    assert await a.store.unclaim(0, call) == 0
    assert sorted((turn.key, turn.ident, turn.attempts) for turn in await b.claim()) == [
        ("j", work("m1"), 1),
        ("k", work("m1"), 1),
    ]


async def test_unclaim_leaves_alone_what_has_ended_since(a: Peer) -> None:
    await a.put("k", "m1", "m2")
    call = a.new_token()
    (turn,) = await a.claim(call=call)
    following = await a.done(turn, next_token=a.new_token())
    assert following is not None
    assert await a.store.unclaim(0, call) == 0
    await a.done(following)


async def test_a_claim_that_arrives_after_its_unclaim_gives_nothing(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    call = a.new_token()
    assert await a.store.unclaim(0, call) == 0
    assert await a.claim(call=call) == []
    assert (await b.claim_one()).attempts == 1


@pytest.mark.parametrize("by", ["claim", "beat"])
async def test_the_lease_of_a_dead_worker_is_taken_over_within_its_ttl(world: World, a: Peer, b: Peer, by: str) -> None:
    await a.put("k", "m", ttl_ms=200)
    lost = await a.claim_one()
    await world.pass_time(100)
    assert await b.claim() == []
    await world.pass_time(120)
    if by == "beat":
        await b.beat()
        assert (await b.store.lane("k", 1)).ready == "work"
    heir = await b.claim_one()
    assert (heir.ident, heir.attempts) == (work("m"), 2)
    assert [(notice.kind, notice.token, notice.why) for notice in await a.beat()] == [("lost", lost.token, "expired")]


async def test_a_claim_says_when_a_lane_may_become_ready_by_itself(a: Peer, b: Peer) -> None:
    assert await a.store.claim(a.new_token(), ["work"], 1) == Claimed([], -1)
    await a.put("k", "m", ttl_ms=5000)
    await a.claim_one()
    assert 4000 < (await b.store.claim(b.new_token(), ["work"], 1)).due_in_ms <= 5000


async def test_beats_keep_the_turns_of_a_worker(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m1", "m2", ttl_ms=300)
    turn = await a.claim_one()
    for _ in range(4):
        await world.pass_time(150)
        await a.beat()
        assert await b.claim() == []
    following = await a.done(turn, next_token=a.new_token())
    assert following is not None
    await world.pass_time(150)
    await a.beat()
    await world.pass_time(200)
    assert await b.claim() == []
    await a.done(following)


async def test_the_next_turn_of_a_worker_that_dies_is_taken_over_too(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m1", "m2", ttl_ms=150)
    following = await a.done(await a.claim_one(), next_token=a.new_token())
    assert following is not None
    await world.pass_time(200)
    assert (await b.claim_one()).ident == work("m2")
    assert (await a.commit(following)).status == "lost"


async def test_one_idle_process_is_woken_by_a_message_and_not_all(world: World, a: Peer, b: Peer) -> None:
    peers = [b, await world.peer(), await world.peer()]
    for peer in peers:
        assert await peer.claim() == []
    await a.put("k", "m")
    await until(lambda: any(peer.told_ready() for peer in peers))
    await a.put("j", "m")
    await until(lambda: sum(peer.told_ready() for peer in peers) == 2)
    assert not a.told_ready()


async def test_a_process_is_not_woken_for_what_it_cannot_run(a: Peer, b: Peer) -> None:
    assert await b.claim("other") == []
    await a.put("k", "m")
    await a.put("j", "m", handler="other")
    await until(lambda: b.told_ready("other"))
    assert not b.told_ready("work")


async def test_the_wake_up_goes_to_a_process_that_lives(world: World, a: Peer, b: Peer) -> None:
    departed, stopped = await world.peer(), await world.peer()
    for peer in (departed, stopped, b):
        assert await peer.claim() == []
    await departed.store.depart()
    await stopped.store.unwork()
    await a.put("k", "m")
    await until(b.told_ready)
    assert not departed.told_ready()
    assert not stopped.told_ready()


async def test_a_process_that_has_work_is_not_woken(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    assert await a.claim("work", count=1)
    assert await b.claim() == []
    await a.put("j", "m")
    await until(b.told_ready)
    assert not a.told_ready()


async def test_a_lane_that_is_free_again_wakes_an_idle_process(a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    await a.put("k", "m")
    assert await b.claim() == []
    assert not b.told_ready()
    await a.done(turn)
    await until(b.told_ready)
    assert (await b.claim_one()).ident == work("m")


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
