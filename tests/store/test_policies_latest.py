"""Latest: only the newest message that waits stays; and what is superseded cannot come back to life."""

from __future__ import annotations

import pytest

from inturn.store.lane import Rule
from tests.store.policies import (
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
from tests.store.world import Peer, World

BOTH = ("work", OTHER)


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
    rule = Rule(policy, window_ms=6000)  # type: ignore[arg-type]
    await a.store.stop("k", "paused", "")
    await a.put("k", "1", "2", rule=rule)
    await world.pass_time(8000)
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
