"""The commit: all of a turn's effects in one step, once, or none of them. On every store."""

from __future__ import annotations

import asyncio

import pytest

from inturn.store.lane import Given, Submitted
from tests.store.world import Inline, Peer, World, effects, send_to, work


async def test_a_commit_writes_everything_and_gives_the_next_message(a: Peer, b: Peer) -> None:
    await a.put("k", "m1", "m2")
    turn = await a.claim_one()
    token = a.new_token()
    following = await a.done(turn, state=b"1 7", result=b'"r"', sends=[send_to("k>out", "s")], next_token=token)
    assert following is not None
    assert (following.key, following.token, following.ident) == ("k", token, work("m2"))
    assert following.fence > turn.fence
    assert following.attempts == 1
    view = await b.store.lane("k", 10)
    assert (view.token, view.fence, view.ident, view.state) == (token, following.fence, work("m2"), b"1 7")
    assert [message.id for message in view.messages] == ["m2"]
    assert await b.submit("k", "m1") == Submitted("duplicate", result=b'"r"')
    assert await b.mailbox("k>out") == ["s"]


async def test_a_commit_without_a_next_token_frees_the_lane(a: Peer, b: Peer) -> None:
    await a.put("k", "m1", "m2")
    assert await a.done(await a.claim_one()) is None
    assert (await a.store.lane("k", 10)).ready == "work"
    assert (await b.claim_one()).ident == work("m2")


async def test_a_commit_of_the_last_message_leaves_an_idle_lane(a: Peer) -> None:
    await a.put("k", "m")
    assert await a.done(await a.claim_one(), next_token=a.new_token()) is None
    assert (await a.store.lanes(10)).in_use == 0


async def test_a_window_of_zero_leaves_no_mark(a: Peer) -> None:
    await a.done(await a.begin("k", "m"), window_ms=0)
    await a.begin("k", "m")


async def test_a_turn_that_was_taken_over_cannot_commit(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m", ttl_ms=100)
    zombie = await a.claim_one()
    await world.pass_time(150)
    heir = await b.claim_one()
    assert (heir.ident, heir.attempts) == (work("m"), 2)
    assert (await a.commit(zombie, state=b"zombie")).status == "lost"
    await nothing_was_written(b, "k")
    assert await b.done(heir, state=b"heir") is None
    assert await b.state("k") == b"heir"


async def nothing_was_written(peer: Peer, key: str) -> None:
    assert await peer.state(key) is None
    assert (await peer.attend(key, work("m"))).status != "done"
    assert await peer.mailbox("out") == []


@pytest.mark.parametrize("next_token", ["", "host:1:x#99"])
async def test_nothing_of_a_lost_commit_is_written(world: World, a: Peer, b: Peer, next_token: str) -> None:
    await a.put("k", "m", ttl_ms=100)
    zombie = await a.claim_one()
    await world.pass_time(150)
    await b.beat()
    assert (await b.store.lane("k", 10)).ready == "work"
    late = {"state": b"z", "result": b"z", "sends": [send_to("out", "s"), send_to("k", "s")], "next_token": next_token}
    for _ in range(2):
        assert (await a.commit(zombie, **late)).status == "lost"
    await nothing_was_written(b, "k")
    assert await b.mailbox("k") == ["m"]


async def test_a_turn_of_a_lane_that_was_cleared_cannot_commit(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    turn = await a.claim_one()
    assert await b.store.clear("k") == 1
    assert (await a.commit(turn, state=b"z", sends=[send_to("out", "s")])).status == "lost"
    await nothing_was_written(b, "k")
    assert (await a.store.lanes(10)).in_use == 0


@pytest.mark.parametrize("offset", [-1, 1])
async def test_only_an_equal_fence_commits(a: Peer, offset: int) -> None:
    await a.put("k", "m")
    turn = await a.claim_one()
    ended = await a.commit(turn._replace(fence=turn.fence + offset), state=b"z", sends=[send_to("out", "s")])
    assert ended.status in ("lost", "gone")
    await nothing_was_written(a, "k")
    assert (await a.store.lane("k", 1)).token == turn.token


async def test_another_token_cannot_commit(a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    ended = await b.commit(turn._replace(token=b.new_token()), state=b"z", sends=[send_to("out", "s")])
    assert ended.status in ("lost", "gone")
    await nothing_was_written(a, "k")
    await a.done(turn)


async def test_a_turn_of_an_absent_lane_cannot_commit(a: Peer) -> None:
    await a.begin("other")
    never = Inline("k", a.new_token(), 1, work("m"), None)
    assert (await a.commit(never, state=b"z", sends=[send_to("out", "s")])).status == "lost"
    await nothing_was_written(a, "k")
    assert (await a.store.lanes(10)).in_use == 1


async def test_a_repeat_answers_the_same_next_turn(a: Peer) -> None:
    await a.put("k", "m1", "m2", "m3")
    turn = await a.claim_one()
    again = effects(turn, state=b"s", sends=[send_to("out", "s", is_fresh=True)], next_token=a.new_token())
    first, second = [await a.store.commit(again) for _ in range(2)]
    assert (first.status, second.status) == ("committed", "committed")
    assert first.next is not None
    assert second.next is not None
    assert second.next[:6] == first.next[:6]
    assert second.next.attempts == 1
    assert await a.mailbox("k") == ["m2", "m3"]
    assert await a.mailbox("out") == ["s"]


@pytest.mark.parametrize("behind", [[], ["m2"]])
async def test_a_repeat_without_a_next_turn_is_gone_and_applies_nothing_twice(a: Peer, behind: list[str]) -> None:
    await a.put("k", "m1", *behind)
    turn = await a.claim_one()
    again = effects(turn, state=b"s", sends=[send_to("out", "s")])
    assert (await a.store.commit(again)).status == "committed"
    ready = {turn.key: turn for turn in await a.claim()}
    await a.done(ready["k"] if behind else await a.begin("k"), state=b"later")
    await a.done(ready["out"], window_ms=0)
    for _ in range(2):
        assert (await a.store.commit(again)).status == "gone"
    assert await a.mailbox("out") == []
    assert await a.state("k") == b"later"


@pytest.mark.parametrize("next_token", ["", "host:1:x#99"])
async def test_a_repeat_finds_what_waits_behind_it_untouched(a: Peer, next_token: str) -> None:
    await a.put("k", "m1")
    turn = await a.claim_one()
    again = effects(turn, next_token=next_token)
    assert (await a.store.commit(again)).status == "committed"
    await a.put("k", "m2")
    ended = await a.store.commit(again)
    assert (ended.status, ended.next) == ("gone", None)
    assert (await a.claim_one()).ident == work("m2")


async def test_two_commits_of_one_turn_cannot_both_apply(a: Peer, b: Peer) -> None:
    await a.put("k", "m")
    turn = await a.claim_one()
    one = effects(turn, state=b"one", sends=[send_to("out", "one")])
    two = effects(turn, state=b"two", sends=[send_to("out", "two")])
    ended = await asyncio.gather(a.store.commit(one), b.store.commit(two))
    assert sorted(answer.status for answer in ended) == ["committed", "gone"]
    (winner,) = await a.mailbox("out")
    assert await a.state("k") == winner.encode()


async def test_a_commit_that_comes_late_but_before_anyone_else_is_taken(world: World, a: Peer) -> None:
    turn = await a.begin("k", ttl_ms=100)
    await world.pass_time(150)
    await a.done(turn, state=b"s")
    assert await a.state("k") == b"s"


async def test_the_next_message_is_not_given_to_a_worker_that_cannot_run_it(a: Peer) -> None:
    await a.put("k", "m1")
    await a.put("k", "m2", handler="other")
    assert await a.done(await a.claim_one(), next_token=a.new_token(), can=("work",)) is None
    assert (await a.store.lane("k", 10)).ready == "other"


async def test_the_next_message_is_not_given_when_it_is_an_inline_callers(a: Peer, b: Peer) -> None:
    await a.put("k", "m1")
    turn = await a.claim_one()
    waiting = await b.queue_up("k")
    await a.put("k", "m2")
    assert await a.done(turn, next_token=a.new_token()) is None
    inline = await b.offered(waiting)
    await b.done(inline)
    assert (await a.claim_one()).ident == work("m2")


async def test_an_inline_turn_may_go_on_with_nothing(a: Peer) -> None:
    turn = await a.begin("k", "m")
    assert await a.done(turn, state=b"s", result=b"1", sends=[send_to("k", "own")]) is None
    given: Given = await a.claim_one()
    assert (given.ident, given.state) == (work("own"), b"s")
