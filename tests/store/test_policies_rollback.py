"""Rollback: the turn that runs and the messages that wait are superseded, and never run."""

from __future__ import annotations

from inturn.store.lane import Rule
from tests.store.policies import (
    INTERRUPT,
    MAX_CUTS,
    OTHER,
    ROLLBACK,
    ids,
    outcome,
    run,
    status,
    turns,
)
from tests.store.world import Peer, World, send_to, work
from tests.waiting import until

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


async def test_nothing_of_a_superseded_message_is_left_when_its_window_is_over(world: World, a: Peer) -> None:
    rule = Rule("rollback", window_ms=4000)
    turn = await run(a, "k", "1", rule=rule)
    await a.put("k", "2", rule=rule)
    await a.fail(turn, "back")
    await a.done(await a.claim_one(), window_ms=4000, is_deleting=True)
    await world.pass_time(6000)
    await a.beat()
    assert (await a.store.lanes(10)).lanes == []
    assert await outcome(a, "k", "1") == "unknown"


async def test_a_rollback_that_supersedes_another_while_the_turn_yields_hands_on_its_count(a: Peer) -> None:
    turn = await run(a, "k", "0", rule=ROLLBACK)
    for number in range(MAX_CUTS):
        await a.put("k", f"{number}a", rule=ROLLBACK)
        assert (await a.commit(turn)).status == "lost"
        await a.put("k", f"{number}b", rule=ROLLBACK)  # while the old turn still yields
        assert await outcome(a, "k", f"{number}a") == "superseded"
        await a.fail(turn, "back")
        turn = await a.claim_one()
        assert ids(turn) == [f"{number}b"]
    await a.put("k", "last", rule=ROLLBACK)
    assert ids(await a.done(turn, next_token=a.new_token())) == ["last"]


async def test_a_delayed_rollback_supersedes_a_turn_whose_lease_has_expired(world: World, a: Peer, b: Peer) -> None:
    await run(b, "k", "old", rule=ROLLBACK, ttl_ms=200)
    assert (await a.submit("k", "new", rule=ROLLBACK, delay_ms=180)).status == "delayed"
    await world.pass_time(300)  # nobody looked between the end of the lease and the time at which the rollback is due
    assert await turns(a) == [["new"]]
    assert await outcome(a, "k", "old") == "superseded"


async def test_a_rollback_by_a_send_supersedes_a_turn_whose_lease_has_expired(world: World, a: Peer, b: Peer) -> None:
    await run(b, "k", "old", rule=ROLLBACK, ttl_ms=200)
    sender = await a.begin("from")
    await world.pass_time(300)
    await a.done(sender, sends=[send_to("k", "new", rule=ROLLBACK)])
    assert await turns(a) == [["new"]]
    assert await outcome(a, "k", "old") == "superseded"
