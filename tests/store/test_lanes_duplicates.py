"""Duplicate marks and dead letters. On every store."""

from __future__ import annotations

from inturn.store.lane import Submitted
from tests.store.world import Peer, World, work


async def bury(peer: Peer, key: str, message_id: str, **how: str) -> None:
    await peer.put(key, message_id, **how)
    for turn in await peer.claim("work", "other"):
        await peer.fail(turn, "dead", error="e")


async def test_a_message_that_failed_is_not_a_duplicate(a: Peer) -> None:
    await bury(a, "k", "m")
    await a.put("k", "m")
    turn = await a.begin("j", "m")
    await a.leave(turn)
    await a.begin("j", "m")


async def test_a_mark_ends_after_its_window(world: World, a: Peer) -> None:
    await a.done(await a.begin("k", "m"), window_ms=20_000)
    await a.put("j", "m")
    await a.done(await a.claim_one(), window_ms=20_000)
    await world.pass_time(2000)
    assert (await a.ask_turn("k", "m")).status == "duplicate"
    assert (await a.submit("j", "m")).status == "duplicate"
    await world.pass_time(20_000)
    assert (await a.attend("j", work("m"))).status == "unknown"
    await a.begin("k", "m")
    await a.put("j", "m")


async def test_ids_are_scoped_by_key_and_handler(a: Peer) -> None:
    await a.put("k", "m")
    await a.done(await a.claim_one(), result=b"1")
    await a.put("k", "m", handler="other")
    await a.put("k2", "m")
    inline = await a.queue_up("k", "m")
    await a.leave(inline)
    assert await a.submit("k", "m") == Submitted("duplicate", result=b"1")


async def test_keys_and_ids_do_not_run_into_each_other(a: Peer) -> None:
    await a.put("k", "b", handler="a")
    await a.put("k", "", handler="a")
    await a.put("ka", "b", handler="a")
    assert (await a.submit("k", "b", handler="a")).status == "pending"
    assert await a.mailbox("k") == ["b", ""]


async def test_an_id_that_is_accepted_again_is_taken_out_of_the_dead_letters(a: Peer) -> None:
    await bury(a, "k", "m")
    await a.put("k", "m", body=b'"again"')
    assert await a.store.dead(10) == []
    assert await a.store.dead_letter("k", work("m")) is None
    turn = await a.claim_one()
    assert (turn.messages[0].body, turn.attempts) == (b'"again"', 1)
    assert not await a.store.replay("k", work("m"))


async def test_dead_letters_are_listed_oldest_first(world: World, a: Peer) -> None:
    for key, message_id in (("k", "m1"), ("j", "m1"), ("k", "m2")):
        await bury(a, key, message_id)
        await world.pass_time(5)
    assert [(letter.key, letter.id) for letter in await a.store.dead(10)] == [("k", "m1"), ("j", "m1"), ("k", "m2")]
    assert [letter.key for letter in await a.store.dead(2)] == ["k", "j"]


async def test_a_replay_puts_the_message_back_at_its_old_place_with_all_its_attempts(a: Peer) -> None:
    await a.put("k", "m1", "m2", "m3", body=b'"b"')
    ended = await a.fail(await a.claim_one(), "dead", error="e", next_token=a.new_token())
    assert ended.next is not None
    assert await a.store.replay("k", work("m1"))
    assert await a.store.dead(10) == []
    assert await a.mailbox("k") == ["m2", "m1", "m3"]  # the one that runs comes first
    await a.fail(ended.next, "retry")
    assert await a.mailbox("k") == ["m1", "m2", "m3"]
    turn = await a.claim_one()
    assert (turn.ident, turn.messages[0].body, turn.attempts) == (work("m1"), b'"b"', 1)


async def test_a_replay_goes_past_the_mark(a: Peer) -> None:
    """The id was accepted and committed in another way since: a replay is a decision."""
    await bury(a, "k", "m")
    await a.store.replay("k", work("m"))
    turn = await a.claim_one()
    await a.done(turn, result=b"1")
    assert (await a.submit("k", "m")).status == "duplicate"


async def test_a_replay_may_be_repeated_and_happens_once(a: Peer) -> None:
    await bury(a, "k", "m")
    assert [await a.store.replay("k", work("m")) for _ in range(2)] == [True, False]
    assert await a.mailbox("k") == ["m"]
    assert not await a.store.replay("k", work("never"))


async def test_a_replay_wakes_the_lane_and_whoever_asks_finds_it_pending(a: Peer, b: Peer) -> None:
    await bury(a, "k", "m")
    await a.store.replay("k", work("m"))
    assert (await b.attend("k", work("m"))).status == "pending"
    assert (await b.submit("k", "m")).status == "pending"
    assert (await a.store.lane("k", 1)).ready == "work"


async def test_a_letter_that_was_too_late_is_not_too_late_when_it_is_replayed(world: World, a: Peer) -> None:
    await a.put("k", "m", late_ms=50)
    await world.pass_time(100)
    assert await a.claim() == []
    assert [letter.id for letter in await a.store.dead(10)] == ["m"]
    assert await a.store.replay("k", work("m"))
    assert (await a.claim_one()).ident == work("m")


async def test_a_letter_can_be_dropped(a: Peer) -> None:
    await bury(a, "k", "m")
    assert [await a.store.drop("k", work("m")) for _ in range(2)] == [True, False]
    assert await a.store.dead(10) == []
    assert await a.mailbox("k") == []
    assert (await a.attend("k", work("m"))).status == "unknown"


async def test_a_message_that_dies_twice_lies_there_once(a: Peer) -> None:
    await bury(a, "k", "m")
    await a.store.replay("k", work("m"))
    await a.fail(await a.claim_one(), "dead", error="f")
    (letter,) = await a.store.dead(10)
    assert letter.attempts == 1
    assert letter.errors[-1] == "f"
    assert (await a.store.lanes(1)).dead == 1
