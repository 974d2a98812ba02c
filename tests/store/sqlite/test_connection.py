"""Which file is opened and how, which is refused, and how its clock runs."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.errors import SettingsError, StoreUnavailable
from inturn.store.protocol import Released
from inturn.store.sqlite.store import SqliteStore
from tests.store.sqlite.opener import ME, Opener, Wall, path_of, run
from tests.store.world import Peer
from tests.waiting import until


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
        ("sqlite:///{folder}/x.db?log_mib=0", "log_mib='0': use a whole number of MiB"),
        ("sqlite:///{folder}/x.db?log_mib=many", "log_mib='many'"),
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


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes_of(peer: Peer) -> list[int]:
    return [Path(f"{path_of(peer)}{end}").stat().st_mode & 0o777 for end in ("", "-wal", "-shm")]


@pytest.mark.usefixtures("open_umask")
async def test_the_files_are_for_their_owner_only(open_peer: Opener) -> None:
    peer = open_peer()
    await peer.hold("n")
    assert modes_of(peer) == [0o600] * 3


@pytest.mark.usefixtures("open_umask")
async def test_a_file_that_everybody_can_read_is_warned_of_and_left_alone(open_peer: Opener) -> None:
    peer = open_peer()
    path_of(peer).touch(0o644)
    (warning,) = await peer.store.check()
    assert f"chmod o= {path_of(peer)} {path_of(peer)}-wal {path_of(peer)}-shm" in warning
    assert modes_of(peer) == [0o644] * 3


@pytest.mark.usefixtures("open_umask")
async def test_a_file_that_a_group_uses_is_meant_to_be(open_peer: Opener) -> None:
    peer = open_peer()
    path_of(peer).touch(0o660)
    assert await peer.store.check() == []
    assert modes_of(peer) == [0o660] * 3


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
