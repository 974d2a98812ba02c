"""Every ready-made face is counted and logged as every lock is, and its log tells "held" from "away"."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from inturn.compat import counted, dedup, managers
from inturn.compat.conversation import ConversationLock
from inturn.compat.visitor import VisitorLockService
from inturn.errors import ConversationLockError, StoreUnavailable
from tests.compat.sources import Maker
from tests.waiting import wait_until

KINDS = ["client", "app on sqlite", "async client", "async app on sqlite"]
ON_A_LOOP = ["async client", "async app on sqlite"]


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Maker[Any]]:
    maker = Maker[Any](tmp_path, managers.DistributedLockManager, managers.AsyncDistributedLockManager)
    with maker.stack:
        yield maker


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[Maker[Any]]:
    maker = Maker[Any](tmp_path, dedup.MessageDeduplicationManager, dedup.AsyncMessageDeduplicationManager)
    with maker.stack:
        yield maker


@pytest.fixture
def key() -> str:
    return f"order-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "inturn.locks")
    caplog.set_level(logging.DEBUG, "inturn.lanes")
    return caplog


class Counts:
    """How much each metric has grown since this was made."""

    def __init__(self) -> None:
        self._before = self._now()

    def _now(self) -> dict[str, float]:
        outcomes = ("granted", "busy", "unavailable", "cancelled")
        found = {name: _sample("inturn_lock_acquisitions_total", outcome=name) for name in outcomes}
        for name in ("wait", "hold"):
            found[name] = _sample(f"inturn_lock_{name}_seconds_count")
        found["lost"] = _sample("inturn_lock_lost_total", why="it was gone when it was released")
        return found

    def grown(self) -> dict[str, float]:
        now = self._now()
        return {name: now[name] - was for name, was in self._before.items() if now[name] != was}


def _sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def told(log: pytest.LogCaptureFixture, name: str) -> list[tuple[str, str]]:
    """The level and the words of each line, without what differs from run to run."""
    lines = []
    for record in log.records:
        if record.name == name:
            words = re.sub(r" id=\S+", "", record.message)
            words = re.sub(r"held=[\d.]+s", "held=…", words)
            lines.append((record.levelname, re.sub(r"why=away: .*", "why=away", words)))
    log.clear()
    return lines


@pytest.mark.parametrize("kind", KINDS)
def test_a_manager_counts_and_logs_what_becomes_of_its_locks(
    locks: Maker[Any], redis_url: str, key: str, kind: str, log: pytest.LogCaptureFixture
) -> None:
    manager, counts, name = locks.manager(kind, redis_url), Counts(), f"name=distributed_lock:{key}"
    lock_id = manager.acquire_lock(key, timeout=20)
    assert manager.acquire_lock(key) is None
    assert manager.extend_lock(key, lock_id, 30)
    assert not manager.extend_lock(key, "other", 30)
    assert not manager.release_lock(key, "other")
    assert manager.release_lock(key, lock_id)
    assert not manager.release_lock(key, lock_id)
    assert told(log, "inturn.locks") == [
        ("DEBUG", f"acquire {name} life=20s"),
        ("INFO", f"refused {name} why=held"),
        ("DEBUG", f"extend {name} life=30s"),
        ("WARNING", f"not owner {name} verb=extend now=held"),
        ("WARNING", f"not owner {name} verb=release now=held"),
        ("DEBUG", f"release {name} held=…"),
        ("WARNING", f"not owner {name} verb=release now=free"),
    ]
    assert counts.grown() == {"granted": 1, "busy": 1, "wait": 1, "hold": 1}


def test_who_waits_is_refused_again_and_again_and_that_is_told_once(
    locks: Maker[Any], redis_url: str, key: str, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "AGAIN_MS", 60_000)
    manager, refused = locks.manager("client", redis_url), f"refused name=distributed_lock:{key} why=held"
    lock_id = manager.acquire_lock(key)
    assert [manager.acquire_lock(key) for _ in range(3)] == [None] * 3
    assert told(log, "inturn.locks")[1:] == [("INFO", refused), ("DEBUG", refused), ("DEBUG", refused)]
    assert manager.release_lock(key, lock_id)
    assert manager.acquire_lock(key)
    assert manager.acquire_lock(key) is None
    assert told(log, "inturn.locks")[-1] == ("INFO", refused)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_that_expired_before_its_release_is_lost(
    locks: Maker[Any], redis_url: str, key: str, kind: str, log: pytest.LogCaptureFixture
) -> None:
    manager, counts = locks.manager(kind, redis_url), Counts()
    lock_id = manager.acquire_lock(key, timeout=0.05)
    wait_until(lambda: not manager.is_locked(key))
    assert not manager.release_lock(key, lock_id)
    assert counts.grown() == {"granted": 1, "wait": 1, "hold": 1, "lost": 1}
    assert told(log, "inturn.locks")[-1] == (
        "WARNING",
        f"not owner name=distributed_lock:{key} verb=release now=free held=…",
    )


def test_no_line_of_the_log_has_an_id_that_could_release_the_lock(
    locks: Maker[Any], redis_url: str, key: str, log: pytest.LogCaptureFixture
) -> None:
    manager = locks.manager("client", redis_url)
    lock_id = manager.acquire_lock(key)
    assert manager.release_lock(key, lock_id)
    assert lock_id[-8:] in log.text
    assert lock_id not in log.text


@pytest.mark.parametrize("kind", ["client", "async client", "async app on redis"])
def test_a_refusal_by_an_absent_store_is_told_from_one_by_a_holder(
    locks: Maker[Any], key: str, kind: str, log: pytest.LogCaptureFixture
) -> None:
    manager, counts = locks.manager(kind, locks.nowhere(), timeout_s=0.3), Counts()
    assert manager.acquire_lock(key) is None
    assert manager.last_refusal == "away"
    assert told(log, "inturn.locks")[-1] == ("WARNING", f"refused name=distributed_lock:{key} why=away")
    assert counts.grown() == {"unavailable": 1}


@pytest.mark.parametrize("kind", ON_A_LOOP)
def test_the_locks_of_visitors_are_counted_and_logged(
    locks: Maker[Any], redis_url: str, key: str, kind: str, log: pytest.LogCaptureFixture
) -> None:
    service, counts = locks.blocking(VisitorLockService(locks.source(kind, redis_url))), Counts()
    lock_id = service.acquire_lock(key)
    assert service.acquire_lock(key) is None
    assert service.release_lock(key, lock_id)
    name = f"name=ai:lock:visitor:{key}"
    assert told(log, "inturn.locks") == [
        ("DEBUG", f"acquire {name} life=30s"),
        ("INFO", f"refused {name} why=held"),
        ("DEBUG", f"release {name} held=…"),
    ]
    assert counts.grown() == {"granted": 1, "busy": 1, "wait": 1, "hold": 1}


@pytest.mark.parametrize("kind", ON_A_LOOP)
def test_the_locks_of_conversations_are_counted_and_logged(
    locks: Maker[Any], redis_url: str, key: str, kind: str, log: pytest.LogCaptureFixture
) -> None:
    lock, run, counts = ConversationLock(locks.source(kind, redis_url)), locks.runner.run, Counts()

    async def taken_and_released() -> None:
        release = await lock.acquire(key)
        with pytest.raises(ConversationLockError):
            await lock.acquire(key)
        assert await release()

    run(taken_and_released())
    name = f"name=lock:conv:{key}"
    assert told(log, "inturn.locks") == [
        ("DEBUG", f"acquire {name} life=10s"),
        ("INFO", f"refused {name} why=held"),
        ("DEBUG", f"release {name} held=…"),
    ]
    assert counts.grown() == {"granted": 1, "busy": 1, "wait": 1, "hold": 1}
    away = ConversationLock(locks.source("async client", locks.nowhere(), timeout_s=0.3))
    with pytest.raises(StoreUnavailable):
        run(away.acquire(key))
    assert told(log, "inturn.locks") == [("WARNING", f"refused {name} why=away")]
    assert counts.grown()["unavailable"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_claims_and_marks_are_counted_and_logged(
    marks: Maker[Any], redis_url: str, key: str, kind: str, log: pytest.LogCaptureFixture
) -> None:
    mine, theirs, counts = marks.manager(kind, redis_url), marks.manager(kind, redis_url), Counts()
    name = f"name=processed_msg:{key}"
    assert mine.claim(key)
    assert not theirs.claim(key)
    assert theirs.is_duplicate(key)
    assert mine.release_claim(key)
    assert mine.claim(key, 60)
    mine.mark_as_processed(key, 90)
    theirs.mark_as_processed(f"{key}-other", 90)
    assert told(log, "inturn.lanes") == [
        ("DEBUG", f"acquire {name} life=300s"),
        ("INFO", f"refused {name} why=held"),
        ("INFO", f"refused {name} why=duplicate"),
        ("DEBUG", f"release {name} held=…"),
        ("DEBUG", f"acquire {name} life=60s"),
        ("DEBUG", f"mark {name} life=90s"),
        ("DEBUG", f"mark {name}-other life=90s"),
    ]
    assert counts.grown() == {"granted": 3, "busy": 2, "wait": 2, "hold": 1}
