"""The ready-made faces: over every source that they take, and beside a foreign client on Redis."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

import inturn
import inturn.sync
from inturn.errors import ConversationLockError, StoreUnavailable
from inturn.locks.conversation import ConversationLock
from inturn.locks.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.locks.visitor import VisitorLock, VisitorLockService
from inturn.services import PrivateRedis, free_port
from inturn.settings import Settings
from tests.locks.foreign import ForeignClient, wait_until

SYNC = ["client", "client that decodes", "sync app on redis", "app on redis", "sync app on sqlite", "app on sqlite"]
ASYNC = ["async client", "async client that decodes", "async app on redis", "async app on sqlite"]
ON_REDIS = [kind for kind in SYNC + ASYNC if "sqlite" not in kind]


class Blocking:
    """An asynchronous face on a loop of its own, so that one test serves both kinds."""

    def __init__(self, face: Any, runner: asyncio.Runner) -> None:
        self._face = face
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._face, name)
        return (lambda *args, **options: self._runner.run(value(*args, **options))) if callable(value) else value


class Maker:
    """Makes sources and faces of a kind, and closes them all."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.stack = ExitStack()
        self.runner = self.stack.enter_context(asyncio.Runner())

    def url(self, kind: str, redis_url: str) -> str:
        return f"sqlite:///{self.tmp_path / 'inturn.db'}" if "sqlite" in kind else redis_url

    def source(self, kind: str, redis_url: str, timeout_s: float = 5.0) -> Any:
        options: dict[str, Any] = {"socket_timeout": timeout_s, "retry": Retry(NoBackoff(), 1)}
        options |= {"decode_responses": "decodes" in kind}
        settings = Settings(store_timeout=timeout_s)
        if kind.startswith("client"):
            return self.stack.enter_context(redis.Redis.from_url(redis_url, **options))
        if kind.startswith("async client"):
            client = redis.asyncio.Redis.from_url(redis_url, **options)
            self.stack.callback(lambda: self.runner.run(client.aclose()))
            return client
        if kind.startswith("sync app"):
            sync_app = inturn.sync.InTurn(self.url(kind, redis_url), settings=settings)
            self.stack.callback(sync_app.close)
            return sync_app
        app = inturn.InTurn(self.url(kind, redis_url), settings=settings)
        self.stack.callback(lambda: self.runner.run(app.close()))
        return app

    def manager(self, kind: str, redis_url: str, timeout_s: float = 5.0) -> DistributedLockManager:
        source = self.source(kind, redis_url, timeout_s)
        if kind.startswith("async"):
            manager = Blocking(AsyncDistributedLockManager(source), self.runner)
            return cast(DistributedLockManager, manager)
        return self.stack.enter_context(DistributedLockManager(source))

    def blocking(self, face: Any) -> Any:
        return Blocking(face, self.runner)


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker]:
    maker = Maker(tmp_path)
    with maker.stack:
        yield maker


@pytest.fixture
def key() -> str:
    return f"order-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def foreign(redis_server: PrivateRedis) -> Iterator[ForeignClient]:
    with ForeignClient(redis_server.port) as client:
        yield client


@pytest.fixture(params=SYNC + ASYNC)
def managers(
    request: pytest.FixtureRequest, maker: Maker, redis_url: str
) -> tuple[DistributedLockManager, DistributedLockManager]:
    """Two managers of one kind, on one store."""
    return maker.manager(request.param, redis_url), maker.manager(request.param, redis_url)


@pytest.fixture(params=ON_REDIS)
def on_redis(request: pytest.FixtureRequest, maker: Maker, redis_url: str) -> DistributedLockManager:
    return maker.manager(request.param, redis_url)


Managers = tuple[DistributedLockManager, DistributedLockManager]


# -- a manager among its like ------------------------------------------------------------------------------------


def test_a_lock_excludes_until_it_is_released(managers: Managers, key: str) -> None:
    mine, theirs = managers
    assert not mine.is_locked(key)
    lock_id = mine.acquire_lock(key)
    assert isinstance(lock_id, str)
    assert mine.last_refusal is None
    assert theirs.is_locked(key)
    assert theirs.acquire_lock(key) is None
    assert theirs.last_refusal == "held"
    assert theirs.last_error is None
    assert mine.release_lock(key, lock_id)
    assert not theirs.is_locked(key)
    assert theirs.acquire_lock(key)
    assert theirs.last_refusal is None


def test_only_its_own_id_releases_or_extends_a_lock(managers: Managers, key: str) -> None:
    mine, theirs = managers
    lock_id = mine.acquire_lock(key)
    assert lock_id
    for wrong in ("wrong", f"{lock_id}x", "host:1:00000000#7"):
        assert not theirs.release_lock(key, wrong)
        assert theirs.last_refusal == "held"
        assert not theirs.extend_lock(key, wrong, 10)
        assert theirs.last_refusal == "held"
    assert theirs.extend_lock(key, lock_id, 10)  # whoever has the id may act on it
    assert theirs.release_lock(key, lock_id)


def test_a_lock_is_not_renewed_and_ends_with_its_life(managers: Managers, key: str) -> None:
    mine, theirs = managers
    before = time.monotonic()
    lock_id = mine.acquire_lock(key, timeout=0.3)
    assert lock_id
    wait_until(lambda: not theirs.is_locked(key))
    assert time.monotonic() - before >= 0.299
    assert not mine.extend_lock(key, lock_id, 10)
    assert mine.last_refusal is None, "nobody holds it"
    assert not mine.release_lock(key, lock_id)
    assert mine.last_refusal is None, "nobody holds it"
    assert theirs.acquire_lock(key)
    assert not mine.release_lock(key, lock_id)
    assert mine.last_refusal == "held"
    assert theirs.is_locked(key)


def test_extending_never_shortens(managers: Managers, key: str) -> None:
    mine, theirs = managers
    lock_id = mine.acquire_lock(key, timeout=30)
    assert lock_id
    assert mine.extend_lock(key, lock_id, 0.001)
    time.sleep(0.02)  # longer than it would live if it had been shortened
    assert theirs.is_locked(key)
    assert mine.release_lock(key, lock_id)


def test_extending_counts_from_now(managers: Managers, key: str) -> None:
    mine, theirs = managers
    lock_id = mine.acquire_lock(key, timeout=5)
    before = time.monotonic()
    assert lock_id
    assert mine.extend_lock(key, lock_id, 5.3)
    wait_until(lambda: not theirs.is_locked(key))
    assert 5.299 <= time.monotonic() - before < 8


def test_one_of_many_threads_gets_it(managers: Managers, key: str, request: pytest.FixtureRequest) -> None:
    mine, theirs = managers
    if isinstance(mine, Blocking):
        pytest.skip("an asynchronous face belongs to one loop")
    got: list[str | None] = []
    refusals: list[str | None] = []

    def take(manager: DistributedLockManager) -> None:
        got.append(manager.acquire_lock(key))
        refusals.append(manager.last_refusal)

    threads = [threading.Thread(target=take, args=(manager,)) for manager in (mine, theirs) * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(lock_id is not None for lock_id in got) == 1
    assert sorted(refusals, key=str) == [None] + ["held"] * 15, "each thread hears of its own call"
