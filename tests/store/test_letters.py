"""How long dead letters are kept: by the clock of the store, as the process that buried them says. On every store."""

from __future__ import annotations

import sqlite3

import pytest
import redis.asyncio

from inturn.store.limits import LETTER_LIVES_MS, MAX_LETTERS
from tests.store.world import Peer, World, work

HOUR_MS = 3_600_000
SOON_MS = 10
"""Redis removes by number, and while the clock of a test stands still, numbers run ahead of it."""

_AS_BEFORE = """
local letter = cmsgpack.unpack(redis.call('HGET', KEYS[2], ARGV[1]))
redis.call('ZADD', KEYS[1], letter[4] * 1000, ARGV[1])
letter[6] = nil
redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack(letter))
"""


async def die(peer: Peer, key: str, *message_ids: str) -> None:
    for message_id in message_ids:
        await peer.put(key, message_id)
        assert (await peer.fail(await peer.claim_one(), "dead")).status == "failed"


async def ids(peer: Peer, limit: int = 1000) -> list[str]:
    return [letter.id for letter in await peer.store.dead(limit)]


async def make_older(world: World, key: str, ident: str) -> None:
    """The letter is as a version that kept them for ever left it."""
    if world.is_sqlite:
        with sqlite3.connect(world.path, timeout=5) as connection:
            connection.execute("UPDATE dead_letters SET until = NULL WHERE key = ? AND ident = ?", (key, ident))
        connection.close()
        return
    async with redis.asyncio.Redis.from_url(world.url) as client:
        prefix = f"{world.namespace}:{{0}}:"
        await client.eval(_AS_BEFORE, 2, f"{prefix}dead", f"{prefix}letters", f"{key}\0{ident}")


async def letters_left(world: World) -> set[str]:
    """What the database holds of dead letters."""
    left = await world.left_behind()
    return {what for what in left if what.startswith("dead_letters:") or what.endswith((":dead", ":letters"))}


async def test_a_letter_is_there_until_its_time_is_over_and_then_nobody_sees_it(world: World) -> None:
    a = await world.peer(letter_ms=HOUR_MS)
    await die(a, "k", "m")
    (letter,) = await a.store.dead(10)
    assert letter.until_ms == letter.died_ms + HOUR_MS
    await world.pass_time(HOUR_MS - 1)
    assert await a.store.dead_letter("k", work("m")) == letter
    assert (await a.attend("k", work("m"))).status == "dead"
    await world.pass_time(1)
    assert await a.store.dead(10) == []
    assert await a.store.dead_letter("k", work("m")) is None
    assert (await a.attend("k", work("m"))).status == "unknown"
    assert not await a.store.replay("k", work("m"))
    assert not await a.store.drop("k", work("m"))
    assert await a.mailbox("k") == []


async def test_seven_days_is_what_a_process_keeps_them_for_unless_it_is_told(world: World, a: Peer) -> None:
    await die(a, "k", "m")
    (letter,) = await a.store.dead(10)
    assert letter.until_ms - letter.died_ms == LETTER_LIVES_MS == 7 * 86_400_000


async def test_a_beat_removes_what_is_over_as_if_it_had_been_dropped(world: World) -> None:
    a = await world.peer(letter_ms=HOUR_MS)
    await die(a, "k", "m1")
    await world.pass_time(HOUR_MS // 2)
    await die(a, "k", "m2")
    await world.pass_time(HOUR_MS // 2 + SOON_MS)
    await a.beat()
    assert (await a.store.lanes(10)).dead == 1
    assert await ids(a) == ["m2"]
    await world.pass_time(HOUR_MS + SOON_MS)
    await a.beat()
    assert (await a.store.lanes(10)).dead == 0
    assert await letters_left(world) == set()
    await die(a, "k", "m1")
    assert await ids(a) == ["m1"]


async def test_one_beat_removes_a_bounded_number_and_the_next_one_goes_on(world: World) -> None:
    a = await world.peer(letter_ms=HOUR_MS)
    await die(a, "k", *(f"m{number}" for number in range(MAX_LETTERS + 3)))
    await world.pass_time(HOUR_MS + SOON_MS)
    await die(a, "k", "living")
    assert await ids(a, 1) == ["living"]
    await a.beat()
    assert (await a.store.lanes(10)).dead == 4
    await a.beat()
    assert (await a.store.lanes(10)).dead == 1
    assert await ids(a) == ["living"]


@pytest.mark.parametrize("is_short_first", [True, False])
async def test_each_letter_has_the_time_of_the_process_that_buried_it(world: World, is_short_first: bool) -> None:
    short, long = await world.peer(letter_ms=HOUR_MS), await world.peer(letter_ms=5 * HOUR_MS)
    for peer, name in ((short, "short"), (long, "long"))[:: 1 if is_short_first else -1]:
        await die(peer, "k", name)
    assert await ids(short) == await ids(long) == (["short", "long"] if is_short_first else ["long", "short"])
    await world.pass_time(2 * HOUR_MS)
    for peer in (short, long):
        await peer.beat()
        assert await ids(peer) == ["long"]
        assert (await peer.store.lanes(10)).dead == 1
        assert (await peer.attend("k", work("long"))).status == "dead"
    assert await short.store.replay("k", work("long"))


async def test_a_message_that_the_store_buried_itself_gets_its_time_from_the_next_beat(world: World) -> None:
    short, long = await world.peer(letter_ms=HOUR_MS), await world.peer(letter_ms=5 * HOUR_MS)
    turn = await short.begin("k", ttl_ms=10 * HOUR_MS)
    await short.put("k", "late", late_ms=100)
    await world.pass_time(150)
    await short.done(turn)  # this finds it
    assert [letter.until_ms - letter.died_ms for letter in await short.store.dead(10)] == [HOUR_MS]
    assert [letter.until_ms - letter.died_ms for letter in await long.store.dead(10)] == [5 * HOUR_MS]
    await world.pass_time(1000)
    await long.beat()
    await short.beat()
    assert [letter.until_ms - letter.died_ms for letter in await short.store.dead(10)] == [5 * HOUR_MS]
    await world.pass_time(5 * HOUR_MS)
    await short.beat()
    assert await letters_left(world) == set()


async def test_letters_of_an_older_version_expire_counted_from_when_they_died(world: World) -> None:
    a = await world.peer(letter_ms=HOUR_MS)
    await die(a, "k", "old", "older", "replayed")
    for message_id in ("old", "older", "replayed"):
        await make_older(world, "k", work(message_id))
    await world.pass_time(HOUR_MS - 10)
    assert await ids(a) == ["old", "older", "replayed"]
    assert await a.store.replay("k", work("replayed"))
    await a.beat()
    assert await ids(a) == ["old", "older"]
    (letter, _) = await a.store.dead(10)
    assert letter.until_ms == letter.died_ms + HOUR_MS
    await world.pass_time(10)
    assert await ids(a) == []
    await world.pass_time(SOON_MS)
    await a.beat()
    assert await letters_left(world) == set()


async def test_nobody_sees_a_letter_of_an_older_version_that_is_over_although_no_beat_has_come(world: World) -> None:
    a = await world.peer(letter_ms=HOUR_MS)
    await die(a, "k", "old")
    await make_older(world, "k", work("old"))
    await world.pass_time(HOUR_MS)
    assert await a.store.dead(10) == []
    assert await a.store.dead_letter("k", work("old")) is None
    assert (await a.attend("k", work("old"))).status == "unknown"
    assert not await a.store.replay("k", work("old"))


async def test_many_letters_of_an_older_version_get_their_time_in_portions(world: World) -> None:
    a = await world.peer(letter_ms=HOUR_MS)
    names = [f"m{number:03d}" for number in range(MAX_LETTERS + 3)]
    await die(a, "k", *names)
    for name in names:
        await make_older(world, "k", work(name))
    for _ in range(2):
        await a.beat()
        assert sorted(await ids(a)) == names
    other = await world.peer(letter_ms=1)
    assert len(await ids(other)) == len(names), "all of them have their time"


async def test_a_message_whose_letter_is_over_may_come_again(world: World) -> None:
    a = await world.peer(letter_ms=HOUR_MS)
    await die(a, "k", "m")
    await world.pass_time(HOUR_MS)
    await a.put("k", "m")
    assert await letters_left(world) == set(), "it is not what became of the message any more"
    await a.done(await a.claim_one())
    assert (await a.attend("k", work("m"))).status == "done"
