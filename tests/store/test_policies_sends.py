"""Messages that a turn sends have the rules of their handlers too; but no turn interrupts its own lane."""

from __future__ import annotations

from tests.store.policies import (
    ALLOWS,
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
from tests.store.world import Peer, World, send_to


async def commit_sending(a: Peer, *sends: object, key: str = "from") -> None:
    await a.done(await a.begin(key), sends=sends)


async def test_sends_to_a_handler_that_merges_are_gathered(a: Peer) -> None:
    await commit_sending(a, send_to("k", "1", rule=MERGE), send_to("k", "2", rule=MERGE))
    await commit_sending(a, send_to("k", "3", rule=MERGE))
    assert await turns(a) == [["1", "2", "3"]]


async def test_a_send_interrupts_the_turn_of_another_lane(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await commit_sending(a, send_to("k", "2", rule=INTERRUPT))
    assert (await a.commit(turn)).status == "lost"
    assert await a.claim() == []
    await a.fail(turn, "back")
    assert await turns(a) == [["1", "2"]]


async def test_a_send_rolls_back_the_turn_of_another_lane(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=ROLLBACK)
    await commit_sending(a, send_to("k", "2", rule=ROLLBACK))
    assert await outcome(a, "k", "1") == "superseded"
    await a.fail(turn, "back")
    assert await turns(a) == [["2"]]


async def test_a_turn_never_interrupts_itself(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    after = await a.done(turn, sends=[send_to("k", "2", rule=INTERRUPT)], next_token=a.new_token())
    assert ids(after) == ["2"]
    assert await outcome(a, "k", "1") == "done"


async def test_an_inline_turn_that_allows_interrupts_does_not_interrupt_itself_by_a_send(a: Peer) -> None:
    turn = await a.begin("k", rule=ALLOWS)
    await a.done(turn, state=b"{}", sends=[send_to("k", "1", rule=ROLLBACK)])
    assert await a.state("k") == b"{}"
    assert await turns(a) == [["1"]]


async def test_the_latest_of_several_sends_is_the_one_that_stays(a: Peer) -> None:
    await a.put("k", "0", rule=LATEST)
    await commit_sending(a, send_to("k", "1", rule=LATEST), send_to("k", "2", rule=LATEST))
    assert [await outcome(a, "k", message_id) for message_id in "012"] == ["superseded", "superseded", "pending"]
    assert await turns(a) == [["2"]]


async def test_a_send_to_its_own_lane_supersedes_what_waits_there_and_not_what_it_commits(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=LATEST)
    await a.put("k", "2", rule=LATEST)
    await a.done(turn, sends=[send_to("k", "3", rule=LATEST)])
    assert [await outcome(a, "k", message_id) for message_id in "123"] == ["done", "superseded", "pending"]


async def test_a_superseded_or_cancelled_id_that_is_sent_does_not_come_back_to_life(a: Peer) -> None:
    await a.put("k", "1", rule=LATEST)
    await a.put("k", "2", rule=LATEST)
    assert await cancel(a, "k", "2") == "cancelled"
    await commit_sending(a, send_to("k", "1", rule=LATEST), send_to("k", "2", rule=LATEST))
    assert await turns(a) == []


async def test_a_send_with_a_priority_has_its_place(a: Peer) -> None:
    await a.put("k", "1")
    await commit_sending(a, send_to("k", "2", priority=1))
    assert await turns(a) == [["2"], ["1"]]


async def test_a_delayed_send_comes_when_it_is_due(world: World, a: Peer) -> None:
    await commit_sending(a, send_to("k", "1", delay_ms=200))
    await commit_sending(a, send_to("k", "1"))  # it is there already
    assert 0 < await due_in(a) <= 200
    assert await status(a, "k", "1") == "pending"
    await world.pass_time(250)
    assert await turns(a) == [["1"]]


async def test_a_delayed_send_to_its_own_lane_does_not_keep_it(world: World, a: Peer) -> None:
    turn = await run(a, "k", "1")
    assert await a.done(turn, sends=[send_to("k", "2", delay_ms=200)], next_token=a.new_token()) is None
    assert (await a.store.lanes(10)).lanes == []
    await world.pass_time(250)
    assert await turns(a) == [["2"]]


async def test_a_delayed_send_can_be_cancelled_and_the_latest_of_them_stays(a: Peer) -> None:
    await commit_sending(a, send_to("k", "1", rule=LATEST, delay_ms=60_000))
    await commit_sending(a, send_to("k", "2", rule=LATEST, delay_ms=60_000))
    assert await outcome(a, "k", "1") == "superseded"
    assert await cancel(a, "k", "2") == "cancelled"
    assert await due_in(a) == -1


async def test_the_sends_of_an_interrupted_turn_do_not_exist(a: Peer) -> None:
    turn = await run(a, "k", "1", rule=INTERRUPT)
    await a.put("k", "2", rule=INTERRUPT)
    ended = await a.commit(turn, sends=[send_to("j", "sent"), send_to("k", "mine", handler=OTHER)])
    assert ended.status == "lost"
    assert await a.mailbox("j") == []
    assert await a.mailbox("k") == ["1", "2"]


async def test_the_sends_of_a_commit_that_was_refused_as_not_the_newest_are_sent_once_in_the_end(a: Peer) -> None:
    turn = await run(a, "k", "1")
    await a.put("k", "2")
    assert (await a.commit(turn, unless_newer=True, sends=[send_to("j", "sent")])).status == "newer"
    assert await a.mailbox("j") == []
    await a.done(turn, have=2, unless_newer=True, sends=[send_to("j", "sent")])
    assert await a.mailbox("j") == ["sent"]


async def test_delayed_messages_that_are_due_at_the_same_time_come_in_the_order_of_acceptance(
    world: World, a: Peer
) -> None:
    await commit_sending(a, *(send_to("k", message_id, delay_ms=100) for message_id in ("3", "1", "2")))
    await world.pass_time(150)
    assert await turns(a) == [["3"], ["1"], ["2"]]
