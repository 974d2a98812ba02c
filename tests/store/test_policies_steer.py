"""Steer, and commit unless newer: a running turn takes in what arrived meanwhile, and commits with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn.store.lane import Failure, Steered
from tests.store.policies import (
    INTERRUPT,
    MERGE,
    OTHER,
    cancel,
    ids,
    outcome,
    quiet,
    run,
    status,
    steer,
    turns,
)
from tests.store.world import Peer, World, send_to, work
from tests.waiting import until

BOTH = ("work", OTHER)


async def test_what_waits_for_the_handler_comes_into_its_turn(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2", "3", body=b'"b"')
    steered = await steer(a, turn)
    assert (steered.status, ids(steered.messages)) == ("steered", ["2", "3"])
    assert [message.body for message in steered.messages] == [b'"b"', b'"b"']
    assert await a.mailbox("k") == ["1", "2", "3"]
    assert (await a.store.lane("k", 10)).waiting == 0


async def test_there_may_be_nothing_new(a: Peer) -> None:
    turn = await run(a, "k", "1")
    assert await steer(a, turn) == Steered("steered")


async def test_a_repeat_is_answered_alike_until_the_turn_says_that_it_has_them(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    assert ids((await steer(a, turn)).messages) == ["2"]
    assert ids((await steer(a, turn)).messages) == ["2"]
    await a.put("k", "3")
    assert ids((await steer(a, turn)).messages) == ["2", "3"]
    assert ids((await steer(a, turn, have=2)).messages) == ["3"]
    assert ids((await steer(a, turn, have=3)).messages) == []


async def test_what_came_into_a_turn_commits_with_it(a: Peer, b: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    await b.attend("k", work("2"))
    await steer(a, turn)
    assert await status(a, "k", "2") == "pending"
    await a.done(turn, have=2, result=b'"r"')
    assert (await a.attend("k", work("2"))).result == b'"r"'
    await until(lambda: b.told_settled("k", work("2")))
    assert await turns(a) == []


async def test_what_the_turn_has_never_seen_goes_back_to_its_place_when_it_commits(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2", "3")
    await steer(a, turn)
    await a.put("k", "4")
    assert ids(await a.done(turn, have=2, next_token=a.new_token())) == ["3"]
    assert await a.mailbox("k") == ["3", "4"]
    assert [await outcome(a, "k", message_id) for message_id in "1234"] == ["done", "done", "pending", "pending"]


async def test_messages_of_other_handlers_and_inline_callers_stay_where_they_are(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "other", handler=OTHER)
    waiting = await a.queue_up("k")
    await a.put("k", "2")
    assert ids((await steer(a, turn)).messages) == ["2"]
    await a.done(turn, have=2)
    assert await turns(a, *BOTH) == [["other"]]
    await a.done(await a.offered(waiting))


async def test_what_is_delayed_or_too_late_does_not_come_in(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "late", late_ms=100)
    assert await status(a, "k", "delayed", delay_ms=60_000) == "delayed"
    await world.pass_time(200)
    await a.put("k", "2")
    assert ids((await steer(a, turn)).messages) == ["2"]


@pytest.mark.parametrize("delay_ms", [0, 60_000])
async def test_what_was_retried_before_keeps_its_own_turn_and_nothing_comes_in_past_it(a: Peer, delay_ms: int) -> None:
    await a.put("k", "1", "2")
    await a.fail(await a.claim_one(), "retry", delay_ms=delay_ms)
    await a.put("k", "0", priority=1)
    await a.put("k", "urgent", priority=1)
    turn = await a.claim_one()
    assert ids(turn) == ["0"]
    assert ids((await steer(a, turn)).messages) == ["urgent"]
    assert (await a.commit(turn, have=2, unless_newer=True)).status == "committed"
    assert await a.mailbox("k") == ["1", "2"]


async def test_the_quiet_time_of_what_comes_into_a_turn_does_not_matter(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=MERGE)
    await a.put("k", "2", rule=quiet(60_000))
    assert ids((await steer(a, turn)).messages) == ["2"]


async def test_a_burst_that_waits_comes_in_with_all_its_messages(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", "2", rule=MERGE), "back")
    turn = await run(a, "k", "0", priority=1)
    assert ids(turn) == ["0"]
    assert ids((await steer(a, turn)).messages) == ["1", "2"]
    await a.done(turn, have=2)
    assert await turns(a) == [["2"]]


async def test_a_turn_that_was_lost_takes_nothing_in(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1", ttl_ms=200)
    await world.pass_time(400)
    b = await world.peer()
    assert ids(await b.claim_one()) == ["1"]
    await b.put("k", "2")
    assert (await steer(a, turn)).status == "lost"
    assert (await a.store.steer("k", turn.token, turn.fence + 1, 1)).status == "lost"
    assert (await b.store.lane("k", 10)).waiting == 1


async def test_a_turn_that_has_ended_takes_nothing_in(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.done(turn)
    await a.put("k", "2")
    assert (await steer(a, turn)).status == "gone"
    assert await turns(a) == [["2"]]


async def test_a_turn_that_fails_is_retried_with_what_came_into_it(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    await steer(a, turn)
    await a.fail(turn, "retry")
    again = await a.claim_one()
    assert (ids(again), again.attempts) == (["1", "2"], 2)


@pytest.mark.parametrize("how", ["retry", "back", "park", "expires"])
async def test_what_came_in_with_a_higher_priority_is_not_overtaken_when_the_turn_goes_back(
    world: World, a: Peer, how: Any
) -> None:
    turn = await run(a, "k", "1", ttl_ms=200)
    await a.put("k", "2", priority=1)
    await steer(a, turn)
    await a.put("k", "3", priority=1)
    if how == "expires":
        await world.pass_time(400)
    else:
        await a.fail(turn, how)
    if how == "park":
        await a.store.resume("k")
    b = await world.peer()
    assert await turns(b) == [["1", "2"], ["3"]]


async def test_a_turn_is_as_urgent_as_what_came_into_it(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await a.put("k", "2", priority=1)
    await steer(a, turn)
    await a.put("k", "3", rule=INTERRUPT)
    assert (await a.commit(turn, have=2)).status == "committed", "a message of a lower priority does not interrupt it"
    assert await turns(a) == [["3"]]


async def test_a_turn_that_dies_with_what_came_into_it_is_split(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    await steer(a, turn)
    await a.fail(turn, "split", attempts=2)
    first = await a.claim_one()
    assert (ids(first), first.attempts) == (["1"], 3)
    await a.fail(first, "dead")
    assert await turns(a) == [["2"]]


async def test_a_turn_that_is_tried_again_takes_nothing_more_in(a: Peer) -> None:
    """Or a poisonous message would go on for ever, by taking in new ones."""
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    await steer(a, turn)
    await a.fail(turn, "retry")
    again = await a.claim_one()
    await a.put("k", "3")
    assert ids((await steer(a, again, have=1)).messages) == ["2"]
    newer = await a.commit(again, unless_newer=True)  # it was not at fault, then
    assert (newer.status, ids(newer.newer)) == ("newer", ["3"])


async def test_a_lane_that_is_stopped_takes_nothing_more_in(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    await a.store.stop("k", "paused", "")
    assert await steer(a, turn) == Steered("steered")
    assert (await a.commit(turn, unless_newer=True)).status == "committed"


async def test_a_lease_that_expires_takes_along_what_came_into_the_turn(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1", ttl_ms=200)
    await a.put("k", "2")
    await steer(a, turn)
    await world.pass_time(400)
    b = await world.peer()
    again = await b.claim_one()
    assert (ids(again), again.attempts) == (["1", "2"], 2)
    assert (await a.commit(turn, have=2)).status == "lost"


async def test_an_interrupt_takes_along_what_came_into_the_turn(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT, priority=1)
    await a.put("k", "2", rule=INTERRUPT)
    await steer(a, turn)
    await a.put("k", "3", rule=INTERRUPT, priority=1)
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "2", "3"]]


async def test_what_came_into_a_turn_cannot_be_cancelled(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    await steer(a, turn)
    assert await cancel(a, "k", "2") == "begun"


async def test_a_commit_unless_newer_is_refused_and_hands_over_what_is_newer(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2", "3")
    ended = await a.commit(turn, state=b"{}", unless_newer=True)
    assert (ended.status, ids(ended.newer), ended.next) == ("newer", ["2", "3"], None)
    assert await a.state("k") is None
    assert await outcome(a, "k", "1") == "pending"
    assert (await a.commit(turn, have=3, unless_newer=True)).status == "committed"
    assert [await outcome(a, "k", message_id) for message_id in "123"] == ["done"] * 3


async def test_a_refused_commit_that_is_repeated_hands_over_the_same(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    assert ids((await a.commit(turn, unless_newer=True)).newer) == ["2"]
    assert ids((await a.commit(turn, unless_newer=True)).newer) == ["2"]
    await a.put("k", "3")
    assert ids((await a.commit(turn, unless_newer=True)).newer) == ["2", "3"]


async def test_a_commit_unless_newer_with_nothing_newer_is_a_commit_and_its_repeat_finds_it(a: Peer) -> None:
    turn, token = await run(a, "k", "1"), a.new_token()
    await a.put("k", "other", handler=OTHER)
    for _ in range(2):
        ended = await a.commit(turn, unless_newer=True, next_token=token, can=BOTH)
        assert (ended.status, ids(ended.next)) == ("committed", ["other"])
    await a.put("k", "2")
    assert ids((await a.commit(turn, unless_newer=True, next_token=token, can=BOTH)).next) == ["other"]
    assert (await a.commit(turn, unless_newer=True)).status == "gone"


async def test_a_commit_unless_newer_that_has_had_enough_leaves_the_unseen_for_the_next_turn(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    assert (await a.commit(turn, unless_newer=True)).status == "newer"
    assert ids(await a.done(turn, have=1, next_token=a.new_token())) == ["2"]


@pytest.mark.parametrize("unless_newer", [False, True])
async def test_an_interrupted_turn_cannot_commit_unless_newer_either(a: Peer, unless_newer: bool) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await a.put("k", "2", rule=INTERRUPT)
    ended = await a.commit(turn, unless_newer=unless_newer)
    assert (ended.status, ended.newer) == ("lost", ())


async def test_a_sent_message_of_the_same_commit_is_not_newer(a: Peer) -> None:
    turn = await run(a, "k", "1")
    ended = await a.commit(turn, unless_newer=True, sends=[send_to("k", "sent")])
    assert ended.status == "committed"
    assert await turns(a) == [["sent"]]


async def test_a_turn_of_a_burst_is_given_again_with_what_came_into_it(a: Peer) -> None:
    """Its worker asks once more for what it was given."""
    await a.put("k", "1", rule=MERGE)
    call = a.new_token()
    (turn,) = await a.claim(call=call)
    await a.put("k", "2", rule=MERGE)
    await steer(a, turn)
    assert [ids(again) for again in await a.claim(call=call)] == [["1", "2"]]


async def test_a_turn_takes_in_about_a_thousand_messages_and_can_still_be_committed(a: Peer, b: Peer) -> None:
    rule = MERGE._replace(cap=2)
    names = [f"{number:04d}" for number in range(1300)]
    turn = await run(a, "k", "first", rule=rule)
    await asyncio.gather(*(a.submit("k", name, rule=rule) for name in names))
    seen = ids(turn)
    while new := ids((await steer(a, turn, len(seen))).messages):
        seen += new
    assert 1000 <= len(seen) <= 1100
    await a.fail(turn, "back")  # as large as it is, it is given again
    again = await b.claim_one()
    assert ids(again) == seen
    assert (await b.commit(again)).status == "committed"
    assert await outcome(a, "k", seen[-1]) == "done"
    rest = await b.claim_one()
    assert len(ids(rest)) == 2
    assert not {*ids(rest)} & {*seen}


@pytest.mark.parametrize("how", ["retry", "back", "split", "park", "dead"])
async def test_what_a_turn_that_fails_has_never_seen_goes_back_untouched(a: Peer, how: Any) -> None:
    """The reply with the new messages was lost, or its task was cancelled."""
    turn = await run(a, "k", "1", "2", rule=MERGE)
    await a.put("k", "3", rule=MERGE)
    assert ids((await steer(a, turn)).messages) == ["3"]
    error = "" if how == "back" else '{"type":"ValueError"}'
    ended = await a.store.fail(Failure(turn.key, turn.token, turn.fence, how, error=error, attempts=4, have=2))
    assert ended.status == "failed"
    messages = {message.id: message for message in (await a.store.lane("k", 10)).messages}
    assert (messages["3"].attempts, messages["3"].errors, messages["3"].lead) == (0, (), "")
    assert await outcome(a, "k", "3") == "pending"
    assert await a.store.cancel("k", "work\x003", 60_000) == "cancelled", "it has not begun"
