"""A file that an older inturn made is brought up to date when it is opened: version 1 had locks only, 2 no policies."""

from __future__ import annotations

import asyncio
import sqlite3
from importlib.resources import files

from inturn.store.lane import Rule
from inturn.store.limits import LETTER_LIVES_MS
from inturn.store.protocol import Acquired, Released
from inturn.store.sqlite.connection import APPLICATION_ID, SCHEMA_VERSION
from inturn.store.sqlite.transaction import wall_us
from tests.store.sqlite.opener import Opener, path_of, run
from tests.store.world import Peer, work

HELD = "host:1:old#1"


def make_version_1(peer: Peer) -> None:
    """As version 1 left it, with a lock that is held in it."""
    connection = sqlite3.connect(path_of(peer))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript((files("inturn.store.sqlite") / "schema/schema.sql").read_text("utf-8"))
    connection.execute("INSERT INTO store VALUES (1, 'inturn', 1000, 1000, 1000, '')")
    connection.execute("INSERT INTO grants VALUES ('n', ?, 'me', 1, 1000, 1000, 0, 0, 0, 1, 1, NULL)", (HELD,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


def tables_of(peer: Peer) -> set[str]:
    connection = sqlite3.connect(path_of(peer))
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    connection.close()
    return found


async def test_a_file_of_version_1_is_upgraded_in_place(open_peer: Opener) -> None:
    peer = open_peer()
    make_version_1(peer)
    busy: Acquired = await peer.acquire(peer.ask("n", wait=False))
    assert (busy.status, busy.other) == ("busy", HELD)
    await peer.put("k", "m")
    assert (await peer.claim_one()).key == "k"
    assert await peer.store.release("n", HELD) == Released("released")
    assert await run(peer, lambda tx: tx.execute("PRAGMA user_version").fetchone()) == (SCHEMA_VERSION,)


async def test_an_upgraded_file_has_the_tables_of_a_new_one(open_peer: Opener) -> None:
    new, old = open_peer(namespace="other"), open_peer()
    make_version_1(old)
    await new.store.check()
    await old.store.check()
    path = path_of(new)
    fresh = sqlite3.connect(path.with_name(f"{path.stem}.other{path.suffix}"))
    assert tables_of(old) == {sql for (sql,) in fresh.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    fresh.close()


async def test_many_processes_may_upgrade_the_file_at_once(open_peer: Opener) -> None:
    peers = [open_peer(process=f"host:1:{number}") for number in range(8)]
    make_version_1(peers[0])
    await asyncio.gather(*(peer.store.check() for peer in peers))
    answers = await asyncio.gather(*(peer.submit("k", "m") for peer in peers))
    assert sorted(answer.status for answer in answers) == ["accepted"] + ["pending"] * 7


def make_version_2(peer: Peer, died_ms: int = 0) -> None:
    """As version 2 left it: a message that waits, one that has failed before, one that runs, and a dead letter."""
    make_version_1(peer)
    connection = sqlite3.connect(path_of(peer))
    connection.executescript((files("inturn.store.sqlite") / "schema/lanes.sql").read_text("utf-8"))
    lanes = "INSERT INTO lanes VALUES (?, ?, ?, 30000, ?, 0, 0, ?, '', '', ?, ?, 60000, '', ?, ?)"
    connection.execute(lanes, ("waits", "", 0, 0, "", "work", 3, 2, None))
    connection.execute(lanes, ("runs", HELD, 4, 2**60, work("r"), "", None, 0, 2**60))
    messages = "INSERT INTO messages VALUES (?, ?, ?, 0, x'7b7d', ?, 30000, 600000, 1, 0, 0, NULL, '[]', '', ?)"
    connection.execute(messages, (1, "waits", work("failed"), 1, 1))
    connection.execute(messages, (2, "waits", work("new"), 0, 1))
    connection.execute(messages, (3, "runs", work("r"), 1, 0))
    connection.execute(
        "INSERT INTO dead_letters VALUES (9, ?, 60000, 8, 'dead', ?, 0, x'7b7d', 3, 30000, 600000, 1, '[\"{}\"]')",
        (died_ms or wall_us() // 1000, work("d")),
    )
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()


async def test_a_file_of_version_2_is_upgraded_in_place(open_peer: Opener) -> None:
    peer = open_peer()
    make_version_2(peer)
    assert await peer.mailbox("waits") == ["failed", "new"]
    turn = await peer.claim_one()
    assert (turn.ident, turn.attempts) == (work("failed"), 2)
    again = await peer.done(turn, next_token=peer.new_token())
    assert again
    assert (again.ident, again.attempts) == (work("new"), 1)
    assert await peer.store.replay("dead", work("d"))
    assert (await peer.claim_one()).ident == work("d")
    assert (await peer.store.steer("runs", HELD, 4, 1)).status == "steered"
    assert await run(peer, lambda tx: tx.execute("PRAGMA user_version").fetchone()) == (SCHEMA_VERSION,)


async def test_a_dead_letter_of_version_2_expires_counted_from_when_it_died(open_peer: Opener) -> None:
    peer, now_ms = open_peer(), wall_us() // 1000
    make_version_2(peer, died_ms=now_ms - LETTER_LIVES_MS + 60_000)
    assert [letter.until_ms - now_ms for letter in await peer.store.dead(10)] == [60_000]
    shorter = open_peer(process="host:1:short", letter_ms=LETTER_LIVES_MS - 60_000)
    assert await shorter.store.dead(10) == []
    await peer.beat()  # from here on it has the time of the process that beat first
    assert len(await shorter.store.dead(10)) == 1
    await shorter.beat()
    assert len(await shorter.store.dead(10)) == 1


async def test_what_has_failed_under_version_2_is_joined_by_nothing(open_peer: Opener) -> None:
    peer = open_peer()
    make_version_2(peer)
    await peer.submit("waits", "more", rule=Rule("merge", cap=10))
    assert [len(turn.messages) for turn in await peer.claim()] == [1]
    opened = await run(peer, lambda tx: tx.execute("SELECT open FROM messages ORDER BY number").fetchall())
    assert opened == [(0,), (1,), (0,), (1,)]


async def test_a_file_of_version_2_that_was_upgraded_has_the_tables_of_a_new_one(open_peer: Opener) -> None:
    new, old = open_peer(namespace="other"), open_peer()
    make_version_2(old)
    await new.store.check()
    await old.store.check()
    path = path_of(new)
    fresh = sqlite3.connect(path.with_name(f"{path.stem}.other{path.suffix}"))
    assert tables_of(old) == {sql for (sql,) in fresh.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    fresh.close()
