"""Failures of a store in the log: the first at once, then a line now and then that tells how many there were."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Any

import pytest

from inturn import InTurn
from inturn.errors import StoreUnavailable
from inturn.settings import Settings
from inturn.store import failures
from inturn.store.redis.store import RedisStore
from tests.servers import PrivateRedis
from tests.store.sqlite.opener import Opener, run
from tests.store.world import Peer


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that the test moves."""
    moved = [1000.0]
    monkeypatch.setattr(failures, "clock", type("Clock", (), {"now": staticmethod(lambda: moved[0])}))
    monkeypatch.setattr(failures, "_lines", failures._Lines())
    return moved


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record for record in caplog.records if record.name == "inturn.store"]
    assert all(record.levelno == logging.WARNING for record in found)
    return [record.getMessage() for record in found]


def test_the_first_is_logged_at_once_and_the_others_are_counted(
    at: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        failures.unavailable("submit", "a.db", "the disk is full")
    assert lines(caplog) == ["submit at a.db: the disk is full"]
    at[0] += 10.0
    failures.unavailable("beat", "a.db", "the disk is full")
    assert lines(caplog)[1:] == [
        "beat at a.db: the disk is full (99 more calls failed since the last such line, 10 s ago)"
    ]
    at[0] += 10.0
    failures.unavailable("beat", "a.db", "the disk is full")
    assert lines(caplog)[2:] == ["beat at a.db: the disk is full"]


def test_one_store_does_not_hide_another(at: list[float], caplog: pytest.LogCaptureFixture) -> None:
    failures.unavailable("submit", "a.db", "the disk is full")
    failures.unavailable("submit", "b.db", "the disk is full")
    assert len(lines(caplog)) == 2


async def fails(peer: Peer, **how: Any) -> None:
    with pytest.raises(StoreUnavailable):
        await peer.put("k", "m", **how)


async def test_a_full_sqlite_is_in_the_log(
    at: list[float], open_peer: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    peer = open_peer()
    await peer.store.check()
    await run(peer, lambda tx: tx.execute("PRAGMA max_page_count = 1").fetchone())
    for _ in range(3):
        await fails(peer, body=b'"' + b"x" * 100_000 + b'"')
    (line,) = lines(caplog)
    assert line.startswith("submit at /")
    assert "the disk is full; free some space" in line


async def test_a_redis_that_refuses_is_in_the_log(
    at: list[float], fresh_redis: PrivateRedis, caplog: pytest.LogCaptureFixture
) -> None:
    store = RedisStore(fresh_redis.url, "host:1:me")
    peer = Peer(store)
    await peer.put("k", "first")
    await store._link().ask("CONFIG", "SET", "min-replicas-to-write", "1")
    for _ in range(3):
        await fails(peer)
    (line,) = lines(caplog)
    assert line.startswith("submit at ")
    assert "NOREPLICAS" in line
    await peer.store.close()


async def test_a_store_that_is_away_is_one_line_however_many_locks_are_asked_for(
    at: list[float], fresh_redis: PrivateRedis, caplog: pytest.LogCaptureFixture
) -> None:
    async with InTurn(fresh_redis.url, settings=Settings(store_timeout=1.0)) as app:
        fresh_redis.kill()
        caplog.clear()
        asked = [app.lock(f"x{number}").acquire() for number in range(20)]
        failed = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(each) for each in failed} == {StoreUnavailable}
        registry = app.process.registry
        await registry.quiet()  # what was asked for and not answered is given back, or left to the heartbeat
        assert len(registry.leftovers) >= 20
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
        assert len(lines(caplog)) == 1


def test_a_child_that_was_forked_in_the_middle_of_it_goes_on() -> None:
    with failures._lines._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # it would wait for ever
            failures._lines.add("here", StoreUnavailable("away"))
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
