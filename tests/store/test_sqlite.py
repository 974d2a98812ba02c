"""What is particular to SQLite: the file, the writer thread, group commit, deadlines, forks, other processes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from inturn.errors import SettingsError, StoreUnavailable
from inturn.store import clock
from inturn.store.protocol import Notice, Released
from inturn.store.sqlite import writer as writer_module
from inturn.store.sqlite.store import SqliteStore
from inturn.store.sqlite.transaction import Transaction
from tests.store.world import Peer, until

ME = f"host:{os.getpid()}:me"


class Opener:
    """Opens stores on one file, and closes them in the end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.peers: list[Peer] = []

    def __call__(self, query: str = "", *, process: str = ME, **how: Any) -> Peer:
        peer = Peer(SqliteStore(self.url + query, process, **how))
        self.peers.append(peer)
        return peer


@pytest.fixture
async def open_peer(sqlite_url: str) -> AsyncIterator[Opener]:
    opener = Opener(sqlite_url)
    yield opener
    for peer in opener.peers:
        await peer.store.close()


async def run(peer: Peer, verb: Callable[[Transaction], Any]) -> Any:
    """A verb of the test's own, in a transaction of the writer."""
    assert isinstance(peer.store, SqliteStore)
    return await peer.store._call(verb)


def path_of(peer: Peer) -> Path:
    return Path(peer.store.url.removeprefix("sqlite:///").partition("?")[0])


# -- group commit --------------------------------------------------------------------------------------------


async def test_calls_that_wait_together_are_one_transaction(open_peer: Opener) -> None:
    peer = open_peer()
    for _ in range(3):
        answers = await asyncio.gather(*(peer.acquire(peer.ask(f"n{number}")) for number in range(64)))
        assert len({answer.arrival for answer in answers}) == 64
    # all that is answered from one transaction carries its time
    assert len({answer.sent_at for answer in answers}) == 1


async def test_more_calls_than_a_batch_takes_are_answered_in_order(open_peer: Opener) -> None:
    peer = open_peer()
    count = writer_module.BATCH * 2 + 10
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
    goes_on = threading.Event()
    hanging = asyncio.create_task(run(peer, lambda tx: goes_on.wait(5)))
    await asyncio.sleep(0.02)

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


# -- deadlines and failures ----------------------------------------------------------------------------------


async def test_a_database_that_another_keeps_locked_is_unavailable_in_time(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=0.3)
    await peer.store.check()
    other = sqlite3.connect(path_of(peer), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started_at = clock.now()
    calls = [peer.acquire(peer.ask(f"n{number}")) for number in range(3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert 0.25 < clock.now() - started_at < 1.5
    for answer in answers:
        assert isinstance(answer, StoreUnavailable)
        assert str(path_of(peer)) in str(answer)
        assert "another process keeps it locked" in str(answer)
        assert isinstance(answer.__cause__, sqlite3.OperationalError)
    other.execute("ROLLBACK")
    other.close()
    assert await peer.store.names(10) == []  # what was stale has not been done later
    await peer.hold("n0")


async def test_a_file_that_is_locked_while_it_is_opened_is_unavailable_in_time(open_peer: Opener) -> None:
    first = open_peer()
    await first.store.check()
    other = sqlite3.connect(path_of(first), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    late = open_peer(timeout_s=0.2, process="host:1:late")
    with pytest.raises(StoreUnavailable, match="another process keeps it locked"):
        await late.store.check()
    other.execute("COMMIT")
    other.close()
    assert await late.store.check() == []


async def test_a_lock_that_another_leaves_in_time_costs_only_the_wait(open_peer: Opener) -> None:
    peer = open_peer(timeout_s=5)
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
    peer = open_peer(timeout_s=0.2)
    await peer.store.check()
    goes_on = threading.Event()

    def hang(tx: Transaction) -> None:
        goes_on.wait(5)

    hanging = asyncio.create_task(run(peer, hang))
    await asyncio.sleep(0.02)
    queued = asyncio.create_task(peer.acquire(peer.ask("n")))
    for task in (hanging, queued):
        with pytest.raises(StoreUnavailable, match=r"no answer within 0\.2 s"):
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


async def test_a_damaged_file_is_said_and_a_good_one_is_used_again(open_peer: Opener) -> None:
    peer = open_peer()
    await peer.hold("n")
    await run(peer, lambda tx: tx.execute("DROP TABLE grants"))
    with pytest.raises(StoreUnavailable, match="no such table"):
        await peer.store.names(1)


# -- files and URLs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://user:secret@host/x.db", "names no file"),
        ("sqlite:///{folder}", "is a folder"),
        ("sqlite:///{folder}/missing/x.db", "folder .*missing does not exist"),
        ("sqlite:///{folder}/x.db?mode=ro&cache=shared", "unknown parameter .*: cache, mode"),
        ("sqlite:///{folder}/x.db?synchronous=maybe", "synchronous='maybe'"),
    ],
)
def test_a_bad_url_is_refused(tmp_path: Path, url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as refused:
        SqliteStore(url.format(folder=tmp_path), ME)
    assert "secret" not in str(refused.value)


async def test_a_relative_path_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("sqlite:///some%20file.db", ME)
    assert await store.check() == []
    await store.close()
    assert (tmp_path / "some file.db").exists()


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look like a header of one" * 20)
    store = SqliteStore(f"sqlite:///{path}", ME)
    with pytest.raises(SettingsError, match=r"notes.txt.*not an SQLite database"):
        await store.check()
    await store.close()
    assert path.read_text().startswith("not a database")


async def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE locks (x)")
    theirs.close()
    store = SqliteStore(f"sqlite:///{path}", ME)
    with pytest.raises(SettingsError, match=r"theirs.db is another program's database"):
        await store.check()
    await store.close()


async def test_a_newer_schema_is_refused(open_peer: Opener) -> None:
    peer = open_peer()
    await run(peer, lambda tx: tx.execute("PRAGMA user_version = 99"))
    await peer.store.close()
    with pytest.raises(SettingsError, match=r"version 99 .* upgrade inturn"):
        await peer.hold("n")


async def test_a_file_that_cannot_be_made_is_unavailable() -> None:
    store = SqliteStore("sqlite:////proc/inturn.db", ME)
    with pytest.raises(StoreUnavailable, match=r"/proc/inturn\.db.*cannot be opened or made"):
        await store.check()
    await store.close()


async def test_a_file_that_may_not_be_written_is_unavailable(open_peer: Opener) -> None:
    peer = open_peer()
    await peer.store.check()
    await run(peer, lambda tx: tx.execute("PRAGMA query_only = on"))
    with pytest.raises(StoreUnavailable, match="may not write the file"):
        await peer.hold("n")


@pytest.mark.parametrize(("query", "level"), [("", 2), ("?synchronous=normal", 1), ("?synchronous=OFF", 0)])
async def test_the_url_sets_how_safely_is_written(open_peer: Opener, query: str, level: int) -> None:
    peer = open_peer(query)
    warnings = await peer.store.check()
    assert [("synchronous=off" in warning) for warning in warnings] == ([True] if level == 0 else [])
    assert await run(peer, lambda tx: tx.execute("PRAGMA synchronous").fetchone()) == (level,)
    assert await run(peer, lambda tx: tx.execute("PRAGMA journal_mode").fetchone()) == ("wal",)


async def test_a_database_in_memory_works_within_the_process() -> None:
    peer = Peer(SqliteStore("sqlite:///:memory:", ME))
    (warning,) = await peer.store.check()
    assert "this process only" in warning
    held, waiting = await peer.hold("n"), await peer.wait_for("n")
    await peer.release(held)
    await until(lambda: peer.told("granted", waiting))
    await peer.store.close()


async def test_namespaces_of_one_url_share_nothing(open_peer: Opener) -> None:
    ours, theirs = open_peer(), open_peer(namespace="shop")
    await ours.hold("n")
    await theirs.hold("n")
    assert await theirs.store.names(5) == ["n"]
    # a file that one namespace made is not taken for another's, wherever the URL leads
    path = path_of(ours)
    twisted = SqliteStore(f"sqlite:///{path.with_name(f'{path.stem}.shop{path.suffix}')}", ME)
    with pytest.raises(SettingsError, match="belongs to the namespace 'shop'"):
        await twisted.check()
    await twisted.close()


async def test_many_processes_may_make_the_file_at_once(open_peer: Opener) -> None:
    peers = [open_peer(process=f"host:1:{number}") for number in range(12)]
    await asyncio.gather(*(peer.store.check() for peer in peers))
    answers = await asyncio.gather(*(peer.acquire(peer.ask("n")) for peer in peers))
    assert sorted(answer.status for answer in answers) == ["granted"] + ["waiting"] * 11


# -- time ----------------------------------------------------------------------------------------------------


class Wall:
    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def __call__(self) -> int:
        return self.ms * 1000


async def test_a_wall_clock_that_goes_back_stops_time_but_no_fence(open_peer: Opener) -> None:
    wall = Wall()
    peer = open_peer(wall=wall)
    first = await peer.acquire(peer.ask("x", ttl_ms=100))
    wall.ms -= 3_600_000
    second = await peer.acquire(peer.ask("y"))
    assert second.fence > first.fence
    beat = await peer.store.beat(0, [])
    assert beat.away_ms == 0
    assert beat.now_us == 1_800_000_000_000_000


async def test_old_notes_notices_and_processes_are_cleared_away(open_peer: Opener) -> None:
    wall = Wall()
    peer, other = open_peer(wall=wall), open_peer(wall=wall, process="host:1:other")
    held = await peer.hold("n")
    await other.hold("other")
    await other.store.force_release("n")
    wall.ms += 59_000
    assert await peer.release(held) == Released("lost")
    wall.ms += 1_000
    assert await peer.release(held) == Released("gone")
    assert [notice.kind for notice in await peer.beat()] == ["lost"]
    wall.ms += 3_600_000
    assert await peer.beat() == []
    wall.ms += 9 * 86_400_000
    await other.beat()
    counted = await run(other, lambda tx: tx.execute("SELECT count(*) FROM processes").fetchone())
    assert counted == (1,)


# -- other processes -----------------------------------------------------------------------------------------

WAITER = """
import asyncio, os, sys
from inturn.store.sqlite.store import SqliteStore
from inturn.store.protocol import Request

async def main():
    process = f"host:{os.getpid()}:child"
    store = SqliteStore(sys.argv[1], process)
    answer = await store.acquire(Request("n", process + "#1", "child", 1, 1, 30000, 0, 0, True))
    print(answer.status, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def start_waiter(url: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", WAITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    return child


def kill(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


async def test_a_waiter_whose_process_is_dead_is_passed_over_at_once(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("n")
    kill(await asyncio.to_thread(start_waiter, peer.store.url))
    waiting = await peer.wait_for("n")
    await peer.release(held)
    assert (await peer.acquire(waiting)).status == "granted"


async def test_a_process_of_another_home_is_not_judged_by_its_pid(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("n")
    kill(await asyncio.to_thread(start_waiter, peer.store.url))
    await run(peer, lambda tx: tx.execute("UPDATE processes SET home = 'a container' WHERE process LIKE '%child'"))
    await peer.release(held)
    view = await peer.store.inspect("n")
    assert view is not None
    assert [holder.owner for holder in view.holders] == ["child"]


async def test_a_waiter_that_lives_gets_a_provisional_grant(open_peer: Opener) -> None:
    peer = open_peer()
    held = await peer.hold("n")
    child = await asyncio.to_thread(start_waiter, peer.store.url)
    await peer.release(held)
    view = await peer.store.inspect("n")
    kill(child)
    assert view is not None
    assert [holder.owner for holder in view.holders] == ["child"]


async def test_another_process_is_woken_within_milliseconds(open_peer: Opener) -> None:
    peer, other = open_peer(), open_peer(process="host:1:other")
    took = []
    for _ in range(10):
        held, waiting = await peer.hold("n"), await other.wait_for("n")
        await peer.release(held)
        released_at = time.perf_counter()
        await until(lambda waiting=waiting: other.told("granted", waiting))  # type: ignore[misc]
        took.append(time.perf_counter() - released_at)
        await other.release(waiting)
    assert sorted(took)[5] < 0.02


LEAVER = """
import asyncio, sys
from inturn.store.sqlite.store import SqliteStore
from inturn.store.protocol import Request

process = "host:1:leaver"
store = SqliteStore(sys.argv[1], process)

async def main():
    for name in ("x", "y"):
        await store.acquire(Request(name, f"{process}#{name}", "leaver", 1, 1, 30000, 0, 0, True))
    asyncio.create_task(store.release("x", f"{process}#x"))
    await asyncio.sleep(0)

asyncio.run(main())
"""


async def test_what_was_released_at_the_very_end_is_free(open_peer: Opener) -> None:
    peer = open_peer()
    command = [sys.executable, "-c", LEAVER, peer.store.url]
    for _ in range(5):
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=20)
        assert "x" not in await peer.store.names(5)


async def test_after_a_fork_parent_and_child_both_go_on(open_peer: Opener) -> None:
    """The fork happens in the middle of traffic: the child must find neither a held mutex nor a phantom lock."""
    peer = open_peer()
    await peer.store.check()
    is_done = False

    async def traffic() -> int:
        rounds = 0
        while not is_done:
            requests = [peer.ask(f"t{number}") for number in range(8)]
            answers = await asyncio.gather(*map(peer.acquire, requests))
            assert {answer.status for answer in answers} == {"granted"}
            await asyncio.gather(*map(peer.release, requests))
            rounds += 1
        return rounds

    def child() -> int:
        peer.store.process = f"host:{os.getpid()}:child"

        async def use() -> int:
            async with asyncio.timeout(20):
                held = await peer.hold("child", wait=False)
                assert (await peer.release(held)).status == "released"
                await peer.store.close()
            return 0

        try:
            return asyncio.run(use())
        except BaseException as error:  # noqa: BLE001 - it must not run on as a second test session
            os.write(2, f"{error!r}\n".encode())
            return 1

    def fork_often() -> list[int]:
        codes = []
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                os._exit(child())
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return codes

    moving = asyncio.create_task(traffic())
    codes = await asyncio.to_thread(fork_often)
    is_done = True
    assert codes == [0] * 10
    assert await moving > 0
    assert await run(peer, lambda tx: tx.execute("PRAGMA integrity_check").fetchone()) == ("ok",)
