"""Rollback and latest: what a newer message supersedes never runs, and cannot come back to life."""

from __future__ import annotations

import pytest

from inturn.store.lane import Rule
from tests.store.policies import (
    INTERRUPT,
    LATEST,
    MERGE,
    OTHER,
    ROLLBACK,
    cancel,
    due_in,
    ids,
    outcome,
    run,
    status,
    turns,
)
from tests.store.world import Peer, World, until, work

BOTH = ("work", OTHER)


async def test_the_turn_that_is_rolled_back_cannot_commit_and_its_message_is_superseded(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=ROLLBACK)
    await a.put("k", "2", rule=ROLLBACK)
    assert (await a.commit(turn, state=b"{}")).status == "lost"
    assert await a.state("k") is None
    assert await outcome(a, "k", "1") == "superseded"
    await a.fail(turn, "back")
    assert await turns(a) == [["2"]]


async def test_a_rollback_takes_the_place_of_what_it_rolls_back(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=ROLLBACK)
    await a.put("k", "between", handler=OTHER)
    await a.put("k", "2", rule=ROLLBACK)
    await a.fail(turn, "back")
    assert await turns(a, *BOTH) == [["2"], ["between"]]


async def test_a_rollback_supersedes_also_what_waits(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=ROLLBACK, priority=1)  # left alone by what has a lower priority
    await a.put("k", "2", "3", rule=ROLLBACK)
    assert [await outcome(a, "k", message_id) for message_id in ("1", "2", "3")] == ["pending", "superseded", "pending"]
    await a.put("k", "4", rule=ROLLBACK, priority=1)
    assert [await outcome(a, "k", message_id) for message_id in ("1", "3")] == ["superseded", "superseded"]
    await a.fail(turn, "back")
    assert await turns(a) == [["4"]]


async def test_a_rollback_of_a_burst_supersedes_all_of_it(a: Peer) -> None:
    """Two versions of a handler, of which the older one interrupts."""
    turn = await run(a, "k", "1", "2", rule=INTERRUPT)
    await a.put("k", "3", rule=ROLLBACK)
    assert [await outcome(a, "k", message_id) for message_id in ("1", "2")] == ["superseded", "superseded"]
    await a.fail(turn, "back")
    assert await turns(a) == [["3"]]


async def test_a_rollback_while_the_turn_yields_supersedes_what_was_interrupted(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await a.put("k", "2", rule=INTERRUPT)
    await a.put("k", "3", rule=ROLLBACK)
    assert [await outcome(a, "k", message_id) for message_id in ("1", "2")] == ["superseded", "superseded"]
    assert await a.claim() == []
    await a.fail(turn, "back")
    assert await turns(a) == [["3"]]


async def test_whoever_awaits_a_superseded_message_is_told(a: Peer, b: Peer) -> None:
    turn = await run(a, "k", "1", rule=ROLLBACK)
    await b.attend("k", work("1"))
    await a.put("k", "2", rule=ROLLBACK)
    await until(lambda: b.told_settled("k", work("1")))
    assert await outcome(b, "k", "1") == "superseded"
    await a.fail(turn, "back")


async def test_three_rollbacks_in_a_row_and_then_the_turn_is_left_alone(a: Peer) -> None:
    turn = await run(a, "k", "0", rule=ROLLBACK)
    for number in range(1, 4):
        await a.put("k", str(number), rule=ROLLBACK)
        await a.fail(turn, "back")
        turn = await a.claim_one()
    await a.put("k", "4", "5", rule=ROLLBACK)
    assert ids(await a.done(turn, next_token=a.new_token())) == ["5"]
    assert await outcome(a, "k", "4") == "superseded"


async def test_a_rollback_of_a_lane_that_only_yields_is_repeated_without_effect(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=ROLLBACK)
    await a.put("k", "2", rule=ROLLBACK)
    assert await status(a, "k", "2", rule=ROLLBACK) == "pending"
    await a.fail(turn, "back")
    assert await turns(a) == [["2"]]


@pytest.mark.parametrize("rule", [ROLLBACK, LATEST])
async def test_a_superseded_message_that_is_brought_again_does_not_come_back_to_life(a: Peer, rule: Rule) -> None:
    turn = await run(a, "other", "x")
    await a.store.stop("k", "paused", "")
    await a.put("k", "1", "2", rule=rule)
    for _ in range(2):
        assert await status(a, "k", "1", rule=rule) == "superseded"
    assert await cancel(a, "k", "1") == "ended"
    await a.store.resume("k")
    assert await turns(a) == [["2"]]
    assert await status(a, "k", "1", rule=rule) == "superseded"
    await a.done(turn)


@pytest.mark.parametrize("policy", ["rollback", "latest"])
async def test_a_superseded_message_is_remembered_for_the_duplicate_window(world: World, a: Peer, policy: str) -> None:
    rule = Rule(policy, window_ms=300)  # type: ignore[arg-type]
    await a.store.stop("k", "paused", "")
    await a.put("k", "1", "2", rule=rule)
    await world.pass_time(400)
    assert await outcome(a, "k", "1") == "unknown"
    assert await status(a, "k", "1", rule=rule) == "accepted"
    await a.store.resume("k")
    assert await turns(a) == [["1"]]  # and now 2 is superseded


async def test_of_those_who_wait_only_the_latest_stays_and_the_turn_that_runs_is_left_alone(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=LATEST)
    await a.put("k", "2", "3", "4", rule=LATEST)
    assert [await outcome(a, "k", message_id) for message_id in "1234"] == [
        "pending", "superseded", "superseded", "pending",
    ]  # fmt: skip
    assert ids(await a.done(turn, next_token=a.new_token())) == ["4"]


async def test_the_latest_message_does_not_take_the_place_of_the_one_it_supersedes(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=LATEST)
    await a.put("k", "2", rule=LATEST)
    await a.put("k", "between", handler=OTHER)
    await a.put("k", "3", rule=LATEST)
    await a.done(turn)
    assert await turns(a, *BOTH) == [["between"], ["3"]]


async def test_the_latest_message_supersedes_none_of_another_handler(a: Peer) -> None:
    await a.put("k", "1", handler=OTHER, rule=LATEST)
    await a.put("k", "2", rule=LATEST)
    assert await turns(a, *BOTH) == [["1"], ["2"]]


async def test_the_latest_message_supersedes_one_that_waits_for_its_retry(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", rule=LATEST), "retry", delay_ms=60_000)
    await a.put("k", "2", rule=LATEST)
    assert await outcome(a, "k", "1") == "superseded"
    assert await turns(a) == [["2"]]


async def test_the_latest_message_supersedes_a_more_urgent_one_too(a: Peer) -> None:
    await a.put("k", "1", rule=LATEST, priority=5)
    await a.put("k", "2", rule=LATEST)
    assert await turns(a) == [["2"]]


async def test_a_turn_of_latest_that_fails_after_a_newer_message_came_is_still_retried(a: Peer) -> None:
    """It has begun: whether it is outdated is for its handler to say."""
    turn = await run(a, "k", "1", rule=LATEST)
    await a.put("k", "2", rule=LATEST)
    await a.fail(turn, "retry")
    assert await turns(a) == [["1"], ["2"]]


async def test_a_repeat_of_the_latest_message_supersedes_nothing(a: Peer) -> None:
    await a.store.stop("k", "paused", "")
    await a.put("k", "1", rule=LATEST)
    await a.put("k", "2", rule=LATEST)
    assert await status(a, "k", "1", rule=LATEST) == "superseded"
    assert await outcome(a, "k", "2") == "pending"


async def test_a_burst_that_was_given_back_is_superseded_as_a_whole(a: Peer) -> None:
    await a.fail(await run(a, "k", "1", "2", rule=MERGE), "back")
    await a.put("k", "3", rule=LATEST)
    assert [await outcome(a, "k", message_id) for message_id in ("1", "2")] == ["superseded", "superseded"]
    assert await turns(a) == [["3"]]


async def test_the_latest_of_delayed_messages_supersedes_the_others_also_those_that_wait(a: Peer) -> None:
    """Remind me, but only once."""
    assert await status(a, "k", "1", rule=LATEST, delay_ms=60_000) == "delayed"
    assert await status(a, "k", "2", rule=LATEST, delay_ms=90_000) == "delayed"
    assert await outcome(a, "k", "1") == "superseded"
    assert 60_000 < await due_in(a) <= 90_000
    await a.put("k", "3", rule=LATEST)
    assert await outcome(a, "k", "2") == "superseded"
    assert await status(a, "k", "4", rule=LATEST, delay_ms=60_000) == "delayed"
    assert await outcome(a, "k", "3") == "superseded"
    assert await a.mailbox("k") == ["4"]
    assert await a.claim() == []


async def test_a_delayed_message_that_supersedes_all_that_wait_leaves_an_idle_lane(a: Peer) -> None:
    await a.put("k", "1", rule=LATEST)
    assert await status(a, "k", "2", rule=LATEST, delay_ms=60_000) == "delayed"
    assert (await a.store.lanes(10)).lanes == []


async def test_nothing_of_a_superseded_message_is_left_when_its_window_is_over(world: World, a: Peer) -> None:
    rule = Rule("rollback", window_ms=200)
    turn = await run(a, "k", "1", rule=rule)
    await a.put("k", "2", rule=rule)
    await a.fail(turn, "back")
    await a.done(await a.claim_one(), window_ms=200, is_deleting=True)
    await world.pass_time(300)
    await a.beat()
    assert (await a.store.lanes(10)).lanes == []
    assert await outcome(a, "k", "1") == "unknown"
