"""A burst: several messages that are given, retried, set aside and committed as one."""

from __future__ import annotations

import pytest

from inturn.store.lane import Given
from tests.store.policies import MERGE, OTHER, ids, outcome, run, status, turns
from tests.store.world import WINDOW_MS, Peer, World, work
from tests.waiting import until


async def burst(a: Peer, *message_ids: str, key: str = "k", **how: object) -> Given:
    turn = await run(a, key, *message_ids, rule=MERGE, **how)
    assert ids(turn) == list(message_ids)
    return turn


async def test_all_ids_of_a_burst_have_its_one_result(a: Peer) -> None:
    await a.done(await burst(a, "1", "2", "3"), result=b'"r"')
    for message_id in ("1", "2", "3"):
        again = await a.submit("k", message_id, rule=MERGE)
        assert (again.status, again.result) == ("duplicate", b'"r"')
        told = await a.attend("k", work(message_id))
        assert (told.status, told.result) == ("done", b'"r"')


async def test_the_messages_of_a_burst_are_pending_one_by_one_while_it_runs(a: Peer) -> None:
    await burst(a, "1", "2")
    assert [await status(a, "k", message_id) for message_id in ("1", "2")] == ["pending", "pending"]
    assert [await outcome(a, "k", message_id) for message_id in ("1", "2")] == ["pending", "pending"]


async def test_whoever_awaits_any_message_of_a_burst_is_told(a: Peer, b: Peer) -> None:
    turn = await burst(a, "1", "2", "3")
    await a.attend("k", work("2"))
    await b.attend("k", work("1"))
    await b.attend("k", work("3"))
    await a.done(turn)
    await until(lambda: a.told_settled("k", work("2")))
    await until(lambda: b.told_settled("k", work("1")) and b.told_settled("k", work("3")))


async def test_a_repeated_claim_gives_the_same_burst(a: Peer) -> None:
    await a.put("k", "1", "2", rule=MERGE)
    call = a.new_token()
    first = await a.claim(call=call)
    await a.put("k", "3", rule=MERGE)
    again = await a.claim(call=call)
    assert [ids(turn) for turn in again] == [["1", "2"]]
    assert (again[0].token, again[0].fence, again[0].attempts) == (first[0].token, first[0].fence, 1)


async def test_a_repeated_commit_of_a_burst_gives_the_same_next_burst(a: Peer) -> None:
    turn, token = await burst(a, "1", "2"), a.new_token()
    await a.put("k", "3", "4", rule=MERGE)
    assert ids(await a.done(turn, next_token=token)) == ["3", "4"]
    await a.put("k", "5", rule=MERGE)
    assert ids((await a.commit(turn, next_token=token)).next) == ["3", "4"]


async def test_a_failed_burst_is_retried_as_the_same_and_nothing_joins_it(a: Peer) -> None:
    turn = await burst(a, "1", "2")
    await a.put("k", "3", rule=MERGE)
    await a.fail(turn, "retry")
    await a.put("k", "4", rule=MERGE)
    again = await a.claim_one()
    assert (ids(again), again.attempts) == (["1", "2"], 2)
    assert ids(await a.done(again, next_token=a.new_token())) == ["3", "4"]


async def test_a_burst_whose_lease_expires_is_retried_as_the_same_and_nothing_joins_it(world: World, a: Peer) -> None:
    turn = await burst(a, "1", "2", ttl_ms=200)
    b = await world.peer()
    await b.put("k", "3", rule=MERGE)
    await world.pass_time(400)
    again = await b.claim_one()
    assert (ids(again), again.attempts) == (["1", "2"], 2)
    assert (await a.commit(turn)).status == "lost"
    assert (await b.store.lane("k", 10)).messages[0].errors[0].count("expired") == 1
    assert ids(await b.done(again, next_token=b.new_token())) == ["3"]


async def test_a_burst_that_is_given_back_was_never_given_and_more_may_join_it(a: Peer) -> None:
    turn = await burst(a, "1", "2")
    await a.fail(turn, "back")
    await a.put("k", "3", rule=MERGE)
    again = await a.claim_one()
    assert (ids(again), again.attempts) == (["1", "2", "3"], 1)


async def test_a_burst_that_nobody_took_is_unclaimed_as_one(a: Peer) -> None:
    await a.put("k", "1", "2", rule=MERGE)
    call = a.new_token()
    await a.claim(call=call)
    assert await a.store.unclaim(0, call) == 1
    assert await a.store.unclaim(0, call) == 0
    again = await a.claim_one()
    assert (ids(again), again.attempts) == (["1", "2"], 1)


async def test_a_burst_that_is_parked_is_resumed_as_one(a: Peer) -> None:
    await a.fail(await burst(a, "1", "2"), "park", why="mismatch")
    await a.put("k", "3", rule=MERGE)
    assert await a.claim() == []
    assert (await a.store.lane("k", 10)).stopped == "parked"
    assert await a.store.resume("k")
    assert (await turns(a))[0][:2] == ["1", "2"]


async def test_a_split_burst_is_tried_message_by_message_in_order(a: Peer) -> None:
    await a.fail(await burst(a, "1", "2", "3"), "split", attempts=4, error="e1")
    await a.put("k", "4", rule=MERGE)
    for message_id in ("1", "2", "3"):
        turn = await a.claim_one()
        assert (ids(turn), turn.attempts) == ([message_id], 5)
        (seen, *_) = (await a.store.lane("k", 10)).messages
        assert seen.errors == ("e1",)
        await a.done(turn)
    assert await turns(a) == [["4"]]


async def test_only_the_poisonous_message_of_a_split_burst_is_set_aside(a: Peer) -> None:
    await a.fail(await burst(a, "1", "2", "3"), "split", attempts=1)
    await a.done(await a.claim_one(), result=b'"one"')
    await a.fail(await a.claim_one(), "dead")
    await a.done(await a.claim_one(), result=b'"three"')
    assert [letter.id for letter in await a.store.dead(10)] == ["2"]
    assert [await outcome(a, "k", message_id) for message_id in ("1", "2", "3")] == ["done", "dead", "done"]
    assert (await a.attend("k", work("3"))).result == b'"three"'


async def test_a_repeated_split_changes_nothing_more(a: Peer) -> None:
    turn, token = await burst(a, "1", "2"), a.new_token()
    first = await a.fail(turn, "split", attempts=1, next_token=token)
    again = await a.fail(turn, "split", attempts=1, next_token=token)
    assert ids(first.next) == ids(again.next) == ["1"]
    assert (await a.fail(turn, "split", attempts=1)).status == "gone"
    assert await a.mailbox("k") == ["1", "2"]


async def test_a_split_burst_waits_for_its_delay(world: World, a: Peer) -> None:
    await a.fail(await burst(a, "1", "2"), "split", attempts=1, delay_ms=300)
    assert await a.claim() == []
    await world.pass_time(400)
    assert await turns(a) == [["1"], ["2"]]


async def test_split_messages_have_their_places_before_what_came_later_and_behind_what_came_before(a: Peer) -> None:
    await a.put("k", "0", handler=OTHER)
    turn = await a.claim_one(OTHER)
    await a.put("k", "1", "2", rule=MERGE)
    await a.put("k", "3", handler=OTHER)
    await a.done(turn)
    await a.fail(await a.claim_one(), "split", attempts=1)
    await a.put("k", "4", rule=MERGE)
    assert await a.mailbox("k") == ["1", "2", "3", "4"]


async def test_a_split_after_bursts_were_joined_into_one_leaves_every_message_alone(a: Peer) -> None:
    """A burst that was given back stands behind a more urgent message, and joins it with all it has."""
    await a.fail(await burst(a, "1", "2"), "back")
    await a.put("k", "urgent", rule=MERGE, priority=5)
    turn = await a.claim_one()
    assert ids(turn) == ["urgent", "1", "2"]
    await a.fail(turn, "split", attempts=1)
    assert await turns(a) == [["urgent"], ["1"], ["2"]]


async def test_a_message_of_a_joined_burst_that_the_turn_had_not_seen_is_committed_once(a: Peer) -> None:
    await a.fail(await burst(a, "1", "2"), "back")
    await a.put("k", "urgent", rule=MERGE, priority=5)
    await a.done(await a.claim_one(), have=1)
    assert await turns(a) == [["1", "2"]]
    assert await a.mailbox("k") == []


async def test_a_burst_that_is_cleared_is_gone_with_all_its_messages(world: World, a: Peer) -> None:
    turn = await burst(a, "1", "2", "3")
    assert await a.store.clear("k") == 3
    assert (await a.commit(turn)).status == "lost"
    assert [await outcome(a, "k", message_id) for message_id in ("1", "2", "3")] == ["unknown"] * 3
    assert await turns(a) == []


async def test_a_lane_shows_who_leads_a_burst(a: Peer) -> None:
    await burst(a, "1", "2")
    await a.put("k", "3", rule=MERGE)
    seen = [(message.id, message.place, message.lead) for message in (await a.store.lane("k", 10)).messages]
    assert seen == [("1", "running", ""), ("2", "running", "1"), ("3", "waiting", "")]


@pytest.mark.parametrize("window_ms", [0, WINDOW_MS])
async def test_nothing_of_a_committed_burst_is_left_in_its_lane(a: Peer, window_ms: int) -> None:
    await a.done(await burst(a, "1", "2"), window_ms=window_ms)
    assert (await a.store.lanes(10)).lanes == []
    assert await a.mailbox("k") == []
    assert await outcome(a, "k", "2") == ("done" if window_ms else "unknown")


async def test_commits_grow_in_fence_from_burst_to_burst(a: Peer) -> None:
    fences = []
    for number in range(3):
        turn = await burst(a, f"{number}a", f"{number}b")
        fences.append(turn.fence)
        await a.done(turn)
    assert fences == sorted(set(fences))
