"""Watching lanes on SQLite: inside a process without the disk, between processes by rows that are soon forgotten."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from inturn.store.lane import Rule
from inturn.store.sqlite import advance, arrive, lanes
from inturn.store.sqlite import watch as watch_module
from inturn.store.sqlite.transaction import Transaction
from inturn.store.sqlite.watch import MAX_UNCALLED, Watcher, announce
from tests.store.sqlite.opener import Opener, run
from tests.store.world import Peer
from tests.waiting import until

OTHER = "host:1:other"


async def rows(peer: Peer, sql: str) -> list[Any]:
    found: list[Any] = await run(peer, lambda tx: tx.execute(sql).fetchall())
    return found


async def watch(peer: Peer, key: str) -> tuple[list[bytes], Callable[[], Any]]:
    heard: list[bytes] = []
    return heard, await peer.store.subscribe(key, heard.append)


async def test_a_watcher_in_the_same_process_hears_turns_and_chunks_in_their_order(open_peer: Opener) -> None:
    peer = open_peer()
    heard, stop = await watch(peer, "k")
    await peer.put("k", "m")
    turn = await peer.claim_one()
    peer.store.publish("k", b"chunk 1")
    await peer.done(turn)
    fence = turn.fence
    await until(lambda: len(heard) == 3)
    assert heard == [b"begin %d 1 work\0m" % fence, b"chunk 1", b"commit %d work\0m" % fence]
    assert await rows(peer, "SELECT * FROM heard") == []
    await stop()


async def test_a_watcher_in_another_process_hears_them_too(open_peer: Opener) -> None:
    worker, watcher = open_peer(), open_peer(process=OTHER)
    heard, stop = await watch(watcher, "k")
    await worker.put("k", "m")
    await worker.put("unwatched", "m")
    turns = {turn.key: turn for turn in await worker.claim()}
    for number in range(3):
        worker.store.publish("k", b"chunk %d" % number)
        worker.store.publish("unwatched", b"nobody hears this")
    await worker.fail(turns["k"], "dead", why="no")
    fence = turns["k"].fence
    said = [b"begin %d 1 work\0m" % fence, b"chunk 0", b"chunk 1", b"chunk 2", b"fail %d dead no" % fence]
    await until(lambda: len(heard) == len(said))
    assert heard == said
    await stop()
    assert await rows(worker, "SELECT * FROM heard") == []
    assert await rows(worker, "SELECT * FROM watching") == []
    assert await rows(worker, "SELECT watching FROM store") == [(0,)]


async def test_where_nobody_watches_nothing_is_written(open_peer: Opener) -> None:
    peer, other = open_peer(), open_peer(process=OTHER)
    await peer.store.check()
    await other.store.check()
    version = await rows(other, "PRAGMA data_version")
    for number in range(100):
        peer.store.publish("k", b"chunk %d" % number)
    await peer.store.check()
    assert await rows(other, "PRAGMA data_version") == version


async def test_who_has_stopped_to_watch_hears_no_more_and_another_watcher_goes_on(open_peer: Opener) -> None:
    peer = open_peer()
    (first, stop_first), (second, stop_second) = await watch(peer, "k"), await watch(peer, "k")
    peer.store.publish("k", b"1")
    await until(lambda: len(first) == len(second) == 1)
    await stop_first()
    peer.store.publish("k", b"2")
    await until(lambda: len(second) == 2)
    assert first == [b"1"]
    assert await rows(peer, "SELECT key FROM watching") == [("k",)]
    await stop_second()
    assert await rows(peer, "SELECT * FROM watching") == []


async def test_a_process_that_departs_is_forgotten(open_peer: Opener) -> None:
    peer, watcher = open_peer(), open_peer(process=OTHER)
    await watch(watcher, "k")
    await watcher.store.depart()
    assert await rows(peer, "SELECT * FROM watching") == []


async def test_a_process_that_says_no_more_that_it_watches_is_forgotten(open_peer: Opener) -> None:
    peer = open_peer()
    await run(peer, lambda tx: watch_module.watch(tx, OTHER, ["k"]))
    await run(peer, lambda tx: tx.execute("UPDATE watching SET until = ?", (tx.now,)))
    await peer.put("k", "m")
    await peer.claim_one()
    assert len(await rows(peer, "SELECT * FROM heard")) == 1
    await peer.beat()
    assert await rows(peer, "SELECT * FROM watching") == []
    assert await rows(peer, "SELECT * FROM heard") == []


async def test_a_process_that_was_forgotten_is_told_that_it_may_have_missed_something(
    open_peer: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, watcher = open_peer(), open_peer(process=OTHER)
    heard, _ = await watch(watcher, "k")
    monkeypatch.setattr(watch_module, "RENEW_S", 0.01)  # before it was watched, its renewal could come first
    await run(peer, lambda tx: watch_module.forget_process(tx, OTHER))
    await until(lambda: heard)
    assert heard == [b""]
    peer.store.publish("k", b"now")
    await until(lambda: heard == [b"", b"now"])


async def test_who_begins_to_watch_is_not_told_that_it_missed_something(
    open_peer: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Thread.start

    def begin_and_wait(thread: threading.Thread) -> None:
        begin(thread)
        if thread.name == "inturn-sqlite":
            time.sleep(0.02)  # the writer has looked around before it is told of the first call

    monkeypatch.setattr(threading.Thread, "start", begin_and_wait)
    peer, watcher = open_peer(), open_peer(process=OTHER)
    heard, _ = await watch(watcher, "k")
    await peer.store.check()
    peer.store.publish("k", b"chunk")
    await until(lambda: heard[-1:] == [b"chunk"])
    assert heard == [b"chunk"]


async def test_what_was_heard_is_forgotten_before_it_is_too_much(open_peer: Opener) -> None:
    peer, watcher = open_peer(), open_peer(process=OTHER)
    heard, _ = await watch(watcher, "k")
    await peer.store.check()
    said: list[bytes] = []
    for number in range(3 * watch_module.MAX_UNHEARD):
        said.append(b"chunk %d" % number)
        peer.store.publish("k", said[-1])
        if number % 100 == 99:
            await until(lambda: len(heard) == len(said))
    assert heard == said
    await until_none_but(peer, watch_module.MAX_READ)


async def until_none_but(peer: Peer, most: int) -> None:
    async with asyncio.timeout(20):
        while len(await rows(peer, "SELECT 1 FROM heard")) > most:  # noqa: ASYNC110 - another process forgets them
            await asyncio.sleep(0.002)


async def test_a_process_that_does_not_listen_is_told_that_it_missed_something_and_the_newest(
    open_peer: Opener,
) -> None:
    peer = open_peer()
    await run(peer, lambda tx: watch_module.watch(tx, OTHER, ["k"]))
    for _ in range(watch_module.MAX_UNHEARD):
        await run(peer, lambda tx: watch_module.say(tx, "k", b"chunk"))
    await run(peer, lambda tx: watch_module.say(tx, "k", b"commit"))
    found = await rows(peer, "SELECT process, key, text FROM heard ORDER BY number")
    assert found == [(OTHER, "", b""), (OTHER, "k", b"commit")]
    await run(peer, lambda tx: tx.execute("UPDATE heard SET said = 0"))
    await run(peer, lambda tx: watch_module.say(tx, "k", b"chunk"))
    await peer.beat()
    found = await rows(peer, "SELECT process, key, text FROM heard ORDER BY number")
    assert found == [(OTHER, "k", b"chunk"), (OTHER, "", b"")]
    watcher = open_peer(process=OTHER)
    heard, _ = await watch(watcher, "k")
    peer.store.publish("k", b"now")
    await until(lambda: b"now" in heard)
    assert heard == [b"chunk", b"", b"now"]


async def test_what_is_published_while_too_much_is_under_way_is_dropped(open_peer: Opener) -> None:
    peer, watcher = open_peer(), open_peer(process=OTHER)
    heard, _ = await watch(watcher, "k")
    await peer.store.check()
    writer = peer.store.writer  # type: ignore[attr-defined]
    assert writer.hold_still()  # its thread waits for us
    for number in range(watch_module.MAX_UNDER_WAY + 500):
        peer.store.publish("k", b"chunk %d" % number)
    writer.go_on()
    await until(lambda: len(heard) >= 1)
    await until(lambda: writer._relay._under_way == 0)
    peer.store.publish("k", b"now")
    await until(lambda: heard[-2:] == [b"", b"now"])
    assert len(heard) <= watch_module.MAX_UNDER_WAY + 2


async def test_a_listener_on_a_blocked_loop_blocks_nobody_and_misses_what_is_too_much() -> None:
    heard: list[bytes] = []
    watcher = Watcher("k", heard.append)

    def speak() -> None:
        for number in range(MAX_UNCALLED + 10):
            watcher.hear(b"%d" % number)

    thread = threading.Thread(target=speak)
    thread.start()
    thread.join()  # our loop does not run meanwhile
    await until(lambda: heard)
    assert heard == [b"", *(b"%d" % number for number in range(MAX_UNCALLED, MAX_UNCALLED + 10))]


async def test_a_listener_that_fails_does_not_stop_the_others(open_peer: Opener) -> None:
    peer = open_peer()

    def fail(text: bytes) -> None:
        raise ValueError(text)

    await peer.store.subscribe("k", fail)
    heard, _ = await watch(peer, "k")
    peer.store.publish("k", b"1")
    await until(lambda: heard == [b"1"])


async def statements_of_all_transitions(peer: Peer, key: str) -> list[str]:
    """What is executed inside of transactions while turns of this lane begin, commit, fail, go back and are lost."""
    statements: list[str] = []
    is_inside = False

    def trace(statement: str) -> None:
        nonlocal is_inside
        is_inside = is_inside or statement.startswith("BEGIN")
        if is_inside:
            statements.append(statement)
        is_inside = is_inside and not statement.startswith("COMMIT")

    await run(peer, lambda tx: tx.connection.set_trace_callback(trace))
    await peer.done(await peer.begin(key))
    await peer.leave(await peer.begin(key))
    await peer.put(key, "a", "b")
    await peer.fail(await peer.claim_one(), "retry")
    await peer.fail(await peer.claim_one(), "back")
    turn = await peer.claim_one()
    await peer.put(key, "c", rule=Rule("rollback"))
    await peer.fail(turn, "back")
    await peer.done(await peer.claim_one())
    await peer.put(key, "d")
    await peer.claim_one()
    await peer.store.clear(key)
    await run(peer, lambda tx: tx.connection.set_trace_callback(None))
    return statements


async def test_a_write_to_a_lane_that_nobody_watches_pays_nothing_for_watchers(
    open_peer: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while nobody watches anything, nor while another lane is watched. A lane that is watched does pay."""
    peer, watcher = open_peer(), open_peer(process=OTHER)
    told: list[str] = []

    def told_of(tx: Transaction, key: str, what: str, fence: int, rest: str) -> None:
        told.append(what)
        announce(tx, key, what, fence, rest)

    for module in (advance, arrive, lanes):
        monkeypatch.setattr(module, "announce", told_of)
    nobody = await statements_of_all_transitions(peer, "k1")
    assert await run(peer, lambda tx: (tx.audience, tx.heard, tx.unheard)) == ({}, (), None)
    heard, stop = await watch(watcher, "watched")
    elsewhere = await statements_of_all_transitions(peer, "k2")
    assert told == []  # not even a text was built
    assert len(elsewhere) == len(nobody)
    is_of_watchers = re.compile(r"(FROM|INTO|UPDATE) (heard|watching)\b")
    assert not [statement for statement in nobody + elsewhere if is_of_watchers.search(statement)]

    here = await statements_of_all_transitions(peer, "watched")
    assert len(here) > len(nobody)
    await until(lambda: len(heard) == len(told))
    assert set(told) == {"begin", "commit", "fail", "back", "interrupt", "lost"}
    await stop()
