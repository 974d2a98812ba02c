"""Two versions of a handler: messages that need the newer one are not given to workers that only know the older."""

from __future__ import annotations

from inturn.store.lane import Rule
from tests.store.policies import INTERRUPT, MERGE, due_in, ids, run, steer, turns
from tests.store.world import WINDOW_MS, Peer
from tests.waiting import until

TWO = Rule(version=2, window_ms=WINDOW_MS)
MERGE_TWO = MERGE._replace(version=2)
OLD = ("work",)
NEW = ("work", "work@2")


async def test_a_message_of_version_two_waits_for_a_worker_that_has_it(a: Peer) -> None:
    await a.put("k", "1", rule=TWO)
    assert await a.claim(*OLD) == []
    assert (await a.store.lane("k", 1)).ready == "work@2"
    assert await turns(a, *NEW) == [["1"]]


async def test_a_worker_of_the_newer_version_runs_the_messages_of_the_older_one(a: Peer) -> None:
    await a.put("k", "1")
    await a.put("k", "2", rule=TWO)
    assert await turns(a, *NEW) == [["1"], ["2"]]


async def test_an_older_worker_does_not_go_on_with_a_newer_message(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2", rule=TWO)
    assert await a.done(turn, next_token=a.new_token(), can=OLD) is None
    assert await turns(a, *NEW) == [["2"]]


async def test_only_a_worker_that_has_the_version_is_woken(a: Peer, b: Peer) -> None:
    assert await due_in(a, *OLD) == -1
    assert await due_in(b, *NEW) == -1
    await a.put("k", "1", rule=TWO)
    await until(lambda: b.told_ready("work@2"))
    assert not a.told_ready("work@2")


async def test_a_turn_that_is_given_back_for_a_newer_version_is_not_given_to_the_older_one_again(a: Peer) -> None:
    turn = await run(a, "k", "1")
    ended = await a.fail(turn, "back", version=2, next_token=a.new_token(), can=OLD)
    assert (ended.status, ended.next) == ("failed", None)
    assert await a.claim(*OLD) == []
    after = await a.claim_one(*NEW)
    assert (ids(after), after.attempts) == (["1"], 1)


async def test_a_repeat_of_that_changes_nothing_more(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.fail(turn, "back", version=2)
    assert (await a.fail(turn, "back", version=2)).status == "gone"
    assert await turns(a, *NEW) == [["1"]]


async def test_a_burst_is_given_back_for_a_newer_version_as_one(a: Peer) -> None:
    turn = await run(a, "k", "1", "2", rule=MERGE)
    await a.fail(turn, "back", version=2)
    assert await a.claim(*OLD) == []
    assert await turns(a, *NEW) == [["1", "2"]]


async def test_an_older_worker_gathers_only_what_it_can_read(a: Peer) -> None:
    await a.put("k", "1", "2", rule=MERGE)
    await a.put("k", "3", rule=MERGE_TWO)
    assert await turns(a, *OLD) == [["1", "2"]]
    assert await turns(a, *NEW) == [["3"]]


async def test_a_newer_worker_gathers_both_versions(a: Peer) -> None:
    await a.put("k", "1", rule=MERGE)
    await a.put("k", "2", rule=MERGE_TWO)
    assert await turns(a, *NEW) == [["1", "2"]]


async def test_a_turn_of_the_older_version_does_not_steer_newer_messages_in_nor_what_is_behind_them(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    await a.put("k", "3", rule=TWO)
    await a.put("k", "4")
    assert ids((await steer(a, turn)).messages) == ["2"]
    ended = await a.commit(turn, have=2, unless_newer=True)
    assert ended.status == "committed"
    assert await turns(a, *NEW) == [["3"], ["4"]]


async def test_a_newer_message_that_interrupts_an_older_turn_makes_it_one_for_newer_workers(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await a.put("k", "2", rule=INTERRUPT._replace(version=2))
    await a.fail(turn, "back")
    assert await a.claim(*OLD) == []
    assert await turns(a, *NEW) == [["1", "2"]]


async def test_a_turn_of_the_newer_version_steers_both_in(a: Peer) -> None:
    await a.put("k", "1", rule=TWO)
    turn = await a.claim_one(*NEW)
    await a.put("k", "2")
    await a.put("k", "3", rule=TWO)
    assert ids((await steer(a, turn, version=2)).messages) == ["2", "3"]


async def test_a_burst_of_both_versions_that_is_given_back_stays_one_for_newer_workers(a: Peer) -> None:
    await a.put("k", "1", rule=MERGE)
    await a.put("k", "2", rule=MERGE_TWO)
    await a.fail(await a.claim_one(*NEW), "back")
    assert await a.claim(*OLD) == []
    assert await turns(a, *NEW) == [["1", "2"]]
