"""The writer thread: group commit, deadlines, and what a failure costs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from inturn.errors import StoreUnavailable
from inturn.store import clock
from inturn.store.protocol import Notice, Released
from inturn.store.sqlite import writer as writer_module
from inturn.store.sqlite.store import SqliteStore
from inturn.store.sqlite.transaction import Transaction
from tests.store.sqlite.opener import Opener, path_of, run
from tests.store.stopwatch import Stopwatch
from tests.store.world import Peer


@contextmanager
def locked(peer: Peer) -> Iterator[None]:
    """Another program has the write lock of the file."""
    with closing(sqlite3.connect(path_of(peer), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


class Hang:
    """A verb that hangs in the writer until a test lets it go on."""

    __name__ = "hang"

    def __init__(self) -> None:
        self.hangs, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, tx: Transaction) -> None:
        self.hangs.set()
        self.goes_on.wait(20)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.hangs.wait, 20)


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


async def test_closing_does_not_wait_for_ever_for_a_file_that_is_locked(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    with locked(peer):
        asked = asyncio.create_task(peer.acquire(peer.ask("n")))
        await asyncio.sleep(0)
        await peer.store.close()
    assert not any(thread.name == "inturn-sqlite" for thread in threading.enumerate())
    with pytest.raises(StoreUnavailable, match="another process keeps it locked"):
        await asked


async def test_a_loop_that_was_left_does_not_keep_the_writer_from_others(open_peer: Opener) -> None:
    """It may be run again, so it is not closed; but nobody in it looks at the time."""
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    left = asyncio.new_event_loop()

    async def ask() -> asyncio.Task[object]:
        task = left.create_task(run(peer, lambda tx: None))
        await asyncio.sleep(0)
        return task

    with locked(peer):
        asked = await asyncio.to_thread(left.run_until_complete, ask())
        with pytest.raises(StoreUnavailable, match="another process keeps it locked"):
            await peer.store.names(1)  # its time is up after that of the other
    assert await peer.store.names(1) == []
    with pytest.raises(StoreUnavailable, match="not begun within 1 s"):
        await asyncio.to_thread(left.run_until_complete, asked)
    left.close()


async def test_no_lock_is_taken_in_the_end_for_a_loop_that_is_gone(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("held")
    hang = Hang()
    hanging = asyncio.create_task(run(peer, hang))
    await hang.reached()

    async def elsewhere() -> None:
        asked = [asyncio.create_task(peer.release(held)), asyncio.create_task(peer.acquire(peer.ask("n")))]
        await asyncio.wait(asked, timeout=0.02)

    await asyncio.to_thread(asyncio.run, elsewhere())
    asyncio.get_running_loop().call_later(0.05, hang.goes_on.set)
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


@pytest.mark.timed
async def test_a_database_that_another_keeps_locked_is_unavailable_in_time(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    with locked(peer):
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
    assert await peer.store.names(10) == []  # what was stale has not been done later
    await peer.hold("n0")


async def test_a_caller_that_waits_behind_others_hears_that_the_file_is_locked(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    asked = []
    with locked(peer):
        for number in range(8):
            asked.append(asyncio.create_task(peer.acquire(peer.ask(f"n{number}"))))
            await asyncio.sleep(0.1)
        answers = await asyncio.gather(*asked, return_exceptions=True)
    assert ["another process keeps it locked" in str(answer) for answer in answers] == [True] * 8
    await peer.hold("n")


@pytest.mark.timed
async def test_a_file_that_is_locked_while_it_is_opened_is_unavailable_in_time(open_peer: Opener) -> None:
    first = open_peer()
    await first.store.check()
    late = open_peer(timeout_s=2, process="host:1:late")
    with locked(first), pytest.raises(StoreUnavailable, match="another process keeps it locked"):
        await late.store.check()
    assert await late.store.check() == []


async def test_a_lock_that_another_leaves_in_time_costs_only_the_wait(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=20)
    await peer.store.check()
    with locked(peer):
        asked = asyncio.create_task(peer.acquire(peer.ask("n")))
        await asyncio.sleep(0.05)
        assert not asked.done()
        left_at = clock.now()
    answer = await asked
    assert answer.status == "granted"
    # a lease is counted from when the transaction began, not from when the caller began to wait for it
    assert answer.sent_at >= left_at - 0.01


async def test_a_writer_that_hangs_does_not_keep_its_callers(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    hang = Hang()
    hanging = asyncio.create_task(run(peer, hang))
    await hang.reached()
    queued = asyncio.create_task(peer.acquire(peer.ask("n")))
    with pytest.raises(StoreUnavailable, match="no answer within 1 s: the disk does not answer"):
        await hanging
    with pytest.raises(StoreUnavailable, match="not begun within 1 s: other calls used up the time"):
        await queued
    hang.goes_on.set()
    assert await peer.store.names(1) == []  # its time was up before the writer reached it


async def test_a_call_of_which_is_said_that_it_was_not_begun_never_is(open_peer: Opener) -> None:
    """Its batch had begun, and hung before its turn came."""
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    first, second = Hang(), Hang()
    hanging = asyncio.create_task(run(peer, first))
    await first.reached()
    batch = [asyncio.create_task(run(peer, second)), asyncio.create_task(peer.acquire(peer.ask("n")))]
    await asyncio.sleep(0)
    first.goes_on.set()
    await hanging
    await second.reached()
    with pytest.raises(StoreUnavailable, match="not begun within 1 s"):
        await batch[1]
    second.goes_on.set()
    with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
        await batch[0]
    assert await peer.store.names(1) == []


@pytest.mark.parametrize("first", ["loop", "writer"])
async def test_time_in_which_the_process_stood_still_is_not_held_against_its_calls(
    open_peer: Opener, first: str
) -> None:
    """As after a SIGSTOP, a suspended laptop, or sync code in the loop. Either of our threads may run first then."""
    peer = open_peer(timeout_s=1)
    await peer.store.check()
    hang = Hang()
    hanging = asyncio.create_task(run(peer, hang))
    await hang.reached()
    queued = asyncio.create_task(peer.acquire(peer.ask("n")))
    await asyncio.sleep(0)
    if first == "writer":
        threading.Timer(1.5, hang.goes_on.set).start()
    time.sleep(2)  # noqa: ASYNC251 - that is the point
    if first == "loop":
        asyncio.get_running_loop().call_later(0.05, hang.goes_on.set)
    assert (await queued).status == "granted"
    await hanging


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
