"""How a turn ends with nothing done, and what becomes of its message. On every store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inturn.store.lane import ANY_FENCE, Failure, Rule
from tests.store.world import WORK, Peer, World, send_to, work


async def test_a_retry_waits_for_its_time_and_holds_back_what_came_later(world: World, a: Peer) -> None:
    await a.put("k", "m1", "m2")
    turn = await a.claim_one()
    assert (await a.fail(turn, "retry", delay_ms=300)).status == "failed"
    claimed = await a.store.claim(a.new_token(), ["work"], 10)
    assert claimed.turns == []
    assert 0 < claimed.due_in_ms <= 300
    view = await a.store.lane("k", 10)
    assert (view.token, view.ready, view.stopped) == ("", "", "")
    assert [message.id for message in view.messages] == ["m1", "m2"]
    assert 0 < view.messages[0].due_in_ms <= 300
    await world.pass_time(350)
    again = await a.claim_one()
    assert (again.ident, again.attempts) == (work("m1"), 2)
    assert again.fence > turn.fence


async def test_a_retry_at_once_is_given_again_in_the_same_step(a: Peer) -> None:
    await a.put("k", "m1", "m2")
    turn = await a.claim_one()
    ended = await a.fail(turn, "retry", next_token=a.new_token())
    assert ended.next is not None
    assert (ended.next.ident, ended.next.attempts) == (work("m1"), 2)


async def test_a_higher_priority_passes_a_retry_that_waits(a: Peer) -> None:
    await a.put("k", "m1")
    await a.fail(await a.claim_one(), "retry", delay_ms=60_000)
    await a.put("k", "urgent", priority=1)
    assert (await a.claim_one()).ident == work("urgent")


async def test_a_message_that_is_dead_lies_with_its_errors_and_the_lane_goes_on(a: Peer) -> None:
    await a.put("k", "m1", "m2", body=b'"b"')
    turn = await a.claim_one()
    ended = await a.fail(turn, "dead", error='{"type":"Boom"}', next_token=a.new_token())
    assert ended.next is not None
    assert ended.next.ident == work("m2")
    (letter,) = await a.store.dead(10)
    assert (letter.key, letter.handler, letter.id, letter.body) == ("k", "work", "m1", b'"b"')
    assert (letter.attempts, letter.errors) == (1, ('{"type":"Boom"}',))
    assert 0 < letter.accepted_ms <= letter.died_ms
    assert await a.store.dead_letter("k", work("m1")) == letter
    assert await a.store.dead_letter("k", work("m2")) is None
    assert (await a.store.lanes(10)).dead == 1


async def test_park_puts_the_message_back_and_stops_the_lane(a: Peer) -> None:
    await a.put("k", "m1", "m2")
    ended = await a.fail(await a.claim_one(), "park", why="it does not fit", next_token=a.new_token())
    assert (ended.status, ended.next) == ("failed", None)
    view = await a.store.lane("k", 10)
    assert (view.stopped, view.why, view.token, view.ready) == ("parked", "it does not fit", "", "")
    assert [(message.id, message.attempts) for message in view.messages] == [("m1", 1), ("m2", 0)]
    assert await a.claim() == []
    assert await a.store.resume("k")
    again = await a.claim_one()
    assert (again.ident, again.attempts) == (work("m1"), 1)


async def test_a_parked_lane_does_not_keep_workers_busy(world: World, a: Peer) -> None:
    """Nothing of it becomes due by itself, so that nobody is told to look again at once."""
    await a.put("k", "m1", ttl_ms=100)
    await a.fail(await a.claim_one(), "park", why="it does not fit")
    await world.pass_time(150)
    for _ in range(2):
        assert await a.store.claim(a.new_token(), ["work"], 1) == ([], -1)
        assert (await a.store.beat(0, [])).due_in_ms == -1


async def test_a_paused_lane_does_not_keep_workers_busy(world: World, a: Peer) -> None:
    await a.put("k", "m1", "m2", ttl_ms=100)
    turn = await a.claim_one()
    await a.store.stop("k", "paused", "")
    await a.done(turn)
    await world.pass_time(150)
    for _ in range(2):
        assert await a.store.claim(a.new_token(), ["work"], 1) == ([], -1)
        assert (await a.store.beat(0, [])).due_in_ms == -1


async def test_back_gives_the_attempt_back(a: Peer, b: Peer) -> None:
    await a.put("k", "m1", "m2")
    await a.fail(await a.claim_one(), "back")
    assert await a.mailbox("k") == ["m1", "m2"]
    again = await b.claim_one()
    assert (again.ident, again.attempts) == (work("m1"), 1)
    assert (await b.store.lane("k", 1)).messages[0].errors == ()


async def test_a_turn_of_which_only_the_token_is_known_can_be_given_back(a: Peer, b: Peer) -> None:
    """The answer that gave it was lost: `next_token` may have got a turn, or none."""
    await a.put("k", "m1", "m2")
    token = a.new_token()
    turn = (await a.claim_one())._replace(fence=ANY_FENCE, token=token)
    assert (await a.fail(turn, "back")).status == "gone"
    (running,) = (await a.store.lanes(10)).lanes
    await a.fail(turn._replace(token=running.token), "back")
    again = await b.claim_one()
    assert (again.ident, again.attempts) == (work("m1"), 1)
    assert (await a.fail(turn._replace(token=running.token), "back")).status == "gone"


@pytest.mark.parametrize("how", ["retry", "dead", "park", "back"])
@pytest.mark.parametrize("behind", [[], ["m2"]])
async def test_a_repeat_of_a_failure_changes_nothing(a: Peer, how: str, behind: list[str]) -> None:
    await a.put("k", "m1", *behind)
    turn = await a.claim_one()
    assert (await a.fail(turn, how)).status == "failed"  # type: ignore[arg-type]
    before = await a.store.lane("k", 10)
    ended = await a.fail(turn, how)  # type: ignore[arg-type]
    assert (ended.status, ended.next) == ("gone", None)
    after = await a.store.lane("k", 10)
    assert [message.id for message in after.messages] == [message.id for message in before.messages]
    assert [message.errors for message in after.messages] == [message.errors for message in before.messages]
    assert len(await a.store.dead(10)) == (how == "dead")


async def test_a_repeat_of_a_failure_answers_the_same_next_turn(a: Peer) -> None:
    await a.put("k", "m1", "m2")
    turn, token = await a.claim_one(), a.new_token()
    first, second = [await a.fail(turn, "dead", next_token=token) for _ in range(2)]
    assert first.next is not None
    assert second.next is not None
    assert second.next[:6] == first.next[:6]
    assert len(await a.store.dead(10)) == 1


async def test_a_turn_that_was_taken_over_cannot_fail_its_message(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m", ttl_ms=100)
    zombie = await a.claim_one()
    await world.pass_time(150)
    heir = await b.claim_one()
    for how in ("dead", "retry", "park", "back"):
        assert (await a.fail(zombie, how)).status == "lost"
    assert await b.store.dead(10) == []
    await b.done(heir)


async def test_messages_whose_worker_died_are_seen_to_wait_before_anybody_has_taken_them_back(
    world: World, a: Peer, b: Peer
) -> None:
    await a.put("k", "m1", "m2", ttl_ms=300)
    await a.claim_one()
    assert (await b.store.lane("k", 10)).waiting == 1
    await world.pass_time(400)
    view = await b.store.lane("k", 10)
    assert (view.token, view.waiting, [(message.id, message.place) for message in view.messages]) == (
        "", 2, [("m1", "waiting"), ("m2", "waiting")],
    )  # fmt: skip
    (row,) = (await b.store.lanes(10)).lanes
    assert (row.token, row.waiting) == ("", 2)


async def test_an_inline_turn_whose_caller_died_waits_for_nobody(world: World, a: Peer, b: Peer) -> None:
    await a.begin("k", "m1", ttl_ms=300)
    await world.pass_time(400)
    view = await b.store.lane("k", 10)
    assert (view.token, view.waiting, view.messages) == ("", 0, ())


async def test_a_message_whose_worker_died_says_so_and_the_attempt_counts(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m", ttl_ms=100)
    await a.claim_one()
    await world.pass_time(150)
    assert (await b.claim_one()).attempts == 2
    (message,) = (await b.store.lane("k", 10)).messages
    (error,) = [json.loads(error) for error in message.errors]
    assert (error["type"], error["message"], error["attempt"]) == ("LeaseLost", "expired", 1)


async def test_the_first_error_and_the_last_ones_are_kept(a: Peer) -> None:
    await a.put("k", "m")
    turn = await a.claim_one()
    for number in range(30):
        ended = await a.fail(turn, "retry", error=str(number), next_token=a.new_token())
        assert ended.next is not None
        turn = ended.next
    await a.fail(turn, "dead", error="30")
    (letter,) = await a.store.dead(10)
    assert letter.attempts == 31
    assert letter.errors == ("0", *(str(number) for number in range(12, 31)))


async def test_a_failed_turn_leaves_state_and_marks_as_they_were(a: Peer) -> None:
    await a.done(await a.begin("k"), state=b"before")
    await a.put("k", "m")
    await a.fail(await a.claim_one(), "dead")
    assert await a.state("k") == b"before"
    await a.put("k", "m")


async def test_a_message_that_was_not_begun_in_time_is_a_dead_letter(world: World, a: Peer, b: Peer) -> None:
    turn = await a.begin("k")
    await a.put("k", "late", late_ms=100)
    await a.put("k", "m")
    assert (await b.attend("k", work("late"))).status == "pending"
    await world.pass_time(150)
    await a.done(turn)
    assert (await a.claim_one()).ident == work("m")
    outcome = await b.attend("k", work("late"))
    assert (outcome.status, outcome.attempts) == ("dead", 0)
    assert json.loads(outcome.errors[0])["type"] == "LaneTimeout"


async def test_a_message_that_was_begun_in_time_is_tried_again_later(world: World, a: Peer) -> None:
    await a.put("k", "m", late_ms=200)
    turn = await a.claim_one()
    await world.pass_time(250)
    await a.done(turn, sends=[send_to("out", "s")])
    assert await a.mailbox("out") == ["s"]


async def test_a_late_message_is_not_given_as_the_next_one(world: World, a: Peer) -> None:
    await a.put("k", "m1")
    turn = await a.claim_one()
    await a.put("k", "late", late_ms=100)
    await a.put("k", "m2")
    await world.pass_time(150)
    await a.done(turn, next_token=a.new_token())
    assert await a.mailbox("k") == ["m2"]
    assert [letter.id for letter in await a.store.dead(10)] == ["late"]


async def test_many_late_messages_are_buried_a_hundred_at_a_time_and_the_lane_goes_on(world: World, a: Peer) -> None:
    await a.store.stop("k", "paused", "")
    for number in range(230):
        await a.put("k", f"m{number}", late_ms=1)
    await a.put("k", "last")
    await world.pass_time(50)
    await a.store.resume("k")
    assert len(await a.store.dead(1000)) == 100
    given = []
    for _ in range(4):
        given += await a.claim()
    assert [turn.ident for turn in given] == [work("last")]
    assert len(await a.store.dead(1000)) == 230


@pytest.mark.parametrize("by", ["claim", "beat"])
async def test_late_messages_before_one_that_is_not_late_are_each_buried_once(world: World, a: Peer, by: str) -> None:
    await a.store.stop("k", "paused", "")  # nothing looks into it while the messages come
    await a.put("k", "late 1", "late 2", late_ms=300)
    await a.put("k", "last")
    await a.store.resume("k")
    await world.pass_time(320)
    if by == "beat":
        await a.beat()
    assert (await a.claim_one()).ident == work("last")
    assert [letter.id for letter in await a.store.dead(10)] == ["late 1", "late 2"]


async def test_a_dead_letter_may_leave_a_state(world: World, a: Peer) -> None:
    await a.put("k", "m1", "m2")
    turn = await a.claim_one()
    failure = Failure(
        "k",
        turn.token,
        turn.fence,
        "dead",
        next_token=a.new_token(),
        can=[WORK],
        state_op="set",
        state=b"1 7",
        keep_ms=5000,
    )
    ended = await a.store.fail(failure)
    assert ended.next is not None
    assert ended.next.ident == work("m2")
    view = await a.store.lane("k", 10)
    assert (view.state, view.state_ttl_ms) == (b"1 7", -1), "it does not expire while messages wait"
    await a.done(ended.next)
    assert 0 < (await a.store.lane("k", 10)).state_ttl_ms <= 60_000
    assert [letter.id for letter in await a.store.dead(10)] == ["m1"]


async def test_any_other_failure_leaves_the_state_as_it_is(a: Peer) -> None:
    turn = await a.begin("k")
    await a.done(turn, state=b"1 7")
    await a.put("k", "m1")
    await a.fail(await a.claim_one(), "dead")
    assert (await a.store.lane("k", 10)).state == b"1 7"


async def test_a_dead_letter_may_remove_the_state(a: Peer) -> None:
    await a.done(await a.begin("k"), state=b"1 7")
    await a.put("k", "m1", "m2")
    ended = await a.fail(await a.claim_one(), "dead", state_op="del", next_token=a.new_token())
    assert ended.next is not None
    assert await a.state("k") is None


async def test_a_dead_letter_may_send(a: Peer) -> None:
    await a.put("k", "m1", "m2")
    await a.put("out", "before")
    turn = next(turn for turn in await a.claim() if turn.key == "k")
    sends = [send_to("out", "s1", body=b"1"), send_to("k", "own"), send_to("out", "s2", is_fresh=True)]
    ended = await a.fail(turn, "dead", sends=sends, next_token=a.new_token())
    assert ended.next is not None
    assert ended.next.ident == work("m2"), "what it sends to its own lane comes behind what waits"
    assert await a.mailbox("k") == ["m2", "own"]
    assert await a.mailbox("out") == ["before", "s1", "s2"]
    assert [letter.id for letter in await a.store.dead(10)] == ["m1"]


async def test_what_a_dead_letter_sends_makes_its_lanes_ready(a: Peer) -> None:
    await a.put("k", "m1")
    await a.fail(await a.claim_one(), "dead", sends=[send_to("out", "s1"), send_to("k", "own")])
    assert sorted((turn.key, turn.ident) for turn in await a.claim()) == [("k", work("own")), ("out", work("s1"))]


async def test_what_a_dead_letter_sends_may_be_delayed_and_has_its_rule(world: World, a: Peer) -> None:
    await a.put("k", "m1")
    await a.put("out", "older")
    await a.store.stop("out", "paused", "")
    latest = Rule("latest", window_ms=60_000)
    sends = [send_to("out", "later", delay_ms=1000), send_to("out", "newest", rule=latest)]
    await a.fail(await a.claim_one(), "dead", sends=[sends[1]])
    assert await a.mailbox("out") == ["newest"]
    await a.put("k", "m2")
    await a.fail(await a.claim_one(), "dead", sends=[sends[0]])
    await world.pass_time(1100)
    await a.beat()
    assert await a.mailbox("out") == ["newest", "later"]


@pytest.mark.parametrize("has_next", [False, True])
async def test_a_repeat_of_a_death_sends_nothing_twice(a: Peer, has_next: bool) -> None:
    await a.put("k", "m1", "m2")
    turn, token = await a.claim_one(), a.new_token() if has_next else ""
    for _ in range(2):
        await a.fail(turn, "dead", sends=[send_to("out", "s", is_fresh=True)], next_token=token)
        assert await a.mailbox("out") == ["s"]
    await a.done(next(turn for turn in await a.claim() if turn.key == "out"))
    await a.fail(turn, "dead", sends=[send_to("out", "s", is_fresh=True)], next_token=token)
    assert await a.mailbox("out") == []


async def test_a_turn_that_was_taken_over_sends_nothing_with_its_death(world: World, a: Peer, b: Peer) -> None:
    await a.put("k", "m", ttl_ms=100)
    zombie = await a.claim_one()
    await world.pass_time(150)
    await b.claim_one()
    death: dict[str, Any] = {"state_op": "set", "state": b"1 7", "sends": [send_to("out", "s")]}
    assert (await a.fail(zombie, "dead", **death)).status == "lost"
    assert await a.mailbox("out") == []
    assert await a.state("k") is None


async def test_a_replayed_letter_counts_as_another_message_for_the_ids_of_its_sends(a: Peer) -> None:
    await a.put("k", "m")
    lives = []
    for _ in range(3):
        turn = await a.claim_one()
        lives.append(turn.messages[0].accepted_ms)
        await a.fail(turn, "dead")
        await a.store.replay("k", work("m"))
    assert len(set(lives)) == 3
