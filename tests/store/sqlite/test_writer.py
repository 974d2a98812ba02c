"""The writer thread: group commit, deadlines, and what a failure costs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest

from inturn.errors import StoreUnavailable
from inturn.store import clock
from inturn.store.protocol import Notice, Released
from inturn.store.sqlite import calls as calls_module
from inturn.store.sqlite import writer as writer_module
from inturn.store.sqlite.store import SqliteStore
from inturn.store.sqlite.transaction import Transaction
from tests.store.sqlite.opener import Opener, path_of, run
from tests.store.stopwatch import Stopwatch


async def test_calls_that_wait_together_are_one_transaction(open_peer: Opener) -> None:
    peer = open_peer()
    for _ in range(3):
        answers = await asyncio.gather(*(peer.acquire(peer.ask(f"n{number}")) for number in range(64)))
        assert len({answer.arrival for answer in answers}) == 64
    # all that is answered from one transaction carries its time
    assert len({answer.sent_at for answer in answers}) == 1


async def test_more_calls_than_a_batch_takes_are_answered_in_order(open_peer: Opener) -> None:
    peer = open_peer()
    count = writer_module.MAX_BATCH * 2 + 10
    answers = await asyncio.gather(*(peer.acquire(peer.ask("n")) for _ in range(count)))
    arrivals = [answer.arrival for answer in answers]
    assert arrivals == sorted(arrivals)
    assert 3 <= len({answer.sent_at for answer in answers}) <= 4


async def test_a_call_that_fails_takes_no_other_with_it(open_peer: Opener) -> None:
    peer = open_peer()
    names = ["x", "\ud800", "y"]
    answers = await asyncio.gather(*(peer.acquire(peer.ask(n)) for n in names), return_exceptions=True)
    assert isinstance(answers[1], UnicodeEncodeError)
    assert await peer.store.names(10) == ["x", "y"]
    assert [answer.status for answer in answers[::2]] == ["granted", "granted"]  # type: ignore[union-attr]


async def test_a_call_that_only_looks_writes_nothing(open_peer: Opener) -> None:
    peer, other = open_peer(), open_peer(process="host:1:other")
    await peer.hold("n")
    version = await run(other, lambda tx: tx.execute("PRAGMA data_version").fetchone())
    await asyncio.gather(peer.store.names(5), peer.store.inspect("n"), peer.store.edges(["o"]))
    assert await run(other, lambda tx: tx.execute("PRAGMA data_version").fetchone()) == version


async def test_two_loops_use_one_writer_and_the_last_one_ends_it(open_peer: Opener) -> None:
    peer = open_peer()
    assert isinstance(peer.store, SqliteStore)
    held = await peer.hold("n")
    writer = peer.store.writer

    async def elsewhere() -> Released:
        released = await peer.release(held)
        await peer.store.close()
        return released

    assert await asyncio.to_thread(asyncio.run, elsewhere()) == Released("released")
    assert peer.store.writer is writer is not None
    await peer.store.close()
    assert peer.store.writer is None
    assert not any(thread.name == "inturn-sqlite" for thread in threading.enumerate())
    assert await peer.store.names(1) == []  # opened anew


async def test_closing_finishes_what_was_asked(open_peer: Opener) -> None:
    peer = open_peer()
    asked = [asyncio.create_task(peer.acquire(peer.ask(f"n{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    await peer.store.close()
    assert {(await task).status for task in asked} == {"granted"}


async def test_no_lock_is_taken_in_the_end_for_a_loop_that_is_gone(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("held")
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(tx: Transaction) -> None:
        hangs.set()
        goes_on.wait(20)

    hanging = asyncio.create_task(run(peer, hang))
    assert await asyncio.to_thread(hangs.wait, 20)

    async def elsewhere() -> None:
        asked = [asyncio.create_task(peer.release(held)), asyncio.create_task(peer.acquire(peer.ask("n")))]
        await asyncio.wait(asked, timeout=0.02)

    await asyncio.to_thread(asyncio.run, elsewhere())
    asyncio.get_running_loop().call_later(0.05, goes_on.set)
    await peer.store.close()
    await hanging
    assert await peer.store.names(5) == []


async def test_a_listener_that_fails_does_not_end_the_writer(
    open_peer: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(notice: Notice) -> None:
        raise LookupError(notice.name)

    peer = open_peer()
    peer.store.listen(fail, lambda: None)
    held, waiting = await peer.hold("n"), await peer.wait_for("n")
    await peer.release(held)
    assert (await peer.acquire(waiting)).status == "granted"
    assert "a listener failed" in caplog.text


@pytest.fixture
def patient_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the writer that says what is wrong: the loop may be the first to run after the machine stood still."""
    monkeypatch.setattr(calls_module, "GRACE_S", 20.0)


@pytest.mark.timed
async def test_a_database_that_another_keeps_locked_is_unavailable_in_time(
    open_peer: Opener, patient_callers: None
) -> None:
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    other = sqlite3.connect(path_of(peer), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with Stopwatch() as watch:
        calls = [peer.acquire(peer.ask(f"n{number}")) for number in range(3)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert watch.took_s > 0.95
    assert watch.own_s < 2.2
    for answer in answers:
        assert isinstance(answer, StoreUnavailable)
        assert str(path_of(peer)) in str(answer)
        assert "another process keeps it locked" in str(answer)
        assert isinstance(answer.__cause__, sqlite3.OperationalError)
    other.execute("ROLLBACK")
    other.close()
    assert await peer.store.names(10) == []  # what was stale has not been done later
    await peer.hold("n0")


@pytest.mark.timed
async def test_a_file_that_is_locked_while_it_is_opened_is_unavailable_in_time(
    open_peer: Opener, patient_callers: None
) -> None:
    first = open_peer()
    await first.store.check()
    other = sqlite3.connect(path_of(first), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    late = open_peer(timeout_s=2, process="host:1:late")
    with pytest.raises(StoreUnavailable, match="another process keeps it locked"):
        await late.store.check()
    other.execute("COMMIT")
    other.close()
    assert await late.store.check() == []


async def test_a_lock_that_another_leaves_in_time_costs_only_the_wait(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=20)
    await peer.store.check()
    other = sqlite3.connect(path_of(peer), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    asked = asyncio.create_task(peer.acquire(peer.ask("n")))
    await asyncio.sleep(0.05)
    assert not asked.done()
    left_at = clock.now()
    other.execute("COMMIT")
    other.close()
    answer = await asked
    assert answer.status == "granted"
    # a lease is counted from when the transaction began, not from when the caller began to wait for it
    assert answer.sent_at >= left_at - 0.01


async def test_a_writer_that_hangs_does_not_keep_its_callers(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(tx: Transaction) -> None:
        hangs.set()
        goes_on.wait(20)

    hanging = asyncio.create_task(run(peer, hang))
    assert await asyncio.to_thread(hangs.wait, 20)
    queued = asyncio.create_task(peer.acquire(peer.ask("n")))
    for task in (hanging, queued):
        with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
            await task
    goes_on.set()
    assert await peer.store.names(1) == []  # its deadline had passed before the writer reached it


async def test_a_full_disk_is_said_and_a_release_still_works(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("n")

    def limit(pages: int) -> Callable[[Transaction], Any]:
        return lambda tx: tx.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    await run(peer, lambda tx: tx.execute("PRAGMA max_page_count = 1").fetchone())
    asked = [peer.acquire(peer.ask(f"{number}" + "x" * 500)) for number in range(100)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert refused
    assert all(isinstance(answer, StoreUnavailable) for answer in refused)
    assert "the disk is full" in str(refused[-1])
    assert await peer.release(held) == Released("released")
    await run(peer, limit(10_000))
    await peer.hold("y" * 500)


async def test_a_file_whose_tables_are_gone_is_said(open_peer: Opener) -> None:
    peer = open_peer()
    await peer.hold("n")
    await run(peer, lambda tx: tx.execute("DROP TABLE grants"))
    with pytest.raises(StoreUnavailable, match="no such table"):
        await peer.store.names(1)
