"""The ready-made faces: over every source that they take, and beside a foreign client on Redis."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from inturn.compat.conversation import ConversationLock, Release
from inturn.compat.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.compat.visitor import VisitorLockService
from inturn.errors import ConversationLockError, StoreUnavailable
from tests.compat.foreign import ForeignClient
from tests.compat.sources import ASYNC, ON_REDIS, SYNC, Maker
from tests.servers import PrivateRedis
from tests.waiting import wait_until

Managers = tuple[DistributedLockManager, DistributedLockManager]


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker[DistributedLockManager]]:
    maker = Maker(tmp_path, DistributedLockManager, AsyncDistributedLockManager)
    with maker.stack:
        yield maker


@pytest.fixture
def key() -> str:
    return f"order-{uuid.uuid4().hex[:12]}"


def why(manager: DistributedLockManager) -> str | None:
    return manager.last_refusal


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
    assert why(mine) is None, "nobody holds it"
    assert not mine.release_lock(key, lock_id)
    assert why(mine) is None, "nobody holds it"
    assert theirs.acquire_lock(key)
    assert not mine.release_lock(key, lock_id)
    assert why(mine) == "held"
    assert theirs.is_locked(key)


def test_extending_never_shortens(managers: Managers, key: str) -> None:
    mine, theirs = managers
    lock_id = mine.acquire_lock(key, timeout=30)
    assert lock_id
    assert mine.extend_lock(key, lock_id, 0.001)
    time.sleep(0.02)  # longer than it would live if it had been shortened
    assert theirs.is_locked(key)
    assert mine.release_lock(key, lock_id)


def test_extending_counts_from_now_on_redis(on_redis: DistributedLockManager, foreign: ForeignClient, key: str) -> None:
    lock_id = on_redis.acquire_lock(key, timeout=20)
    assert lock_id
    assert 15_000 < foreign.life_ms(f"distributed_lock:{key}") <= 20_000
    assert on_redis.extend_lock(key, lock_id, 40)
    assert 35_000 < foreign.life_ms(f"distributed_lock:{key}") <= 40_000
    assert on_redis.extend_lock(key, lock_id, 30)
    assert foreign.life_ms(f"distributed_lock:{key}") > 35_000


@pytest.mark.parametrize("kind", [kind for kind in SYNC + ASYNC if "sqlite" in kind])
def test_extending_counts_from_now_on_sqlite(
    maker: Maker[DistributedLockManager], redis_url: str, key: str, kind: str
) -> None:
    manager, looking = maker.manager(kind, redis_url), maker.source("sync app on sqlite", redis_url)

    def life_s() -> float:
        (holder,) = looking.locks.inspect(f"distributed_lock:{key}").holders
        return float(holder.ends_in_s)

    lock_id = manager.acquire_lock(key, timeout=60)
    assert lock_id
    assert 50 < life_s() <= 60
    assert manager.extend_lock(key, lock_id, 90)
    assert 80 < life_s() <= 90
    assert manager.extend_lock(key, lock_id, 60)
    assert life_s() > 70


@pytest.mark.parametrize("kind", SYNC)
def test_of_many_threads_one_gets_it_and_each_hears_why(
    maker: Maker[DistributedLockManager], redis_url: str, key: str, kind: str
) -> None:
    managers = maker.manager(kind, redis_url), maker.manager(kind, redis_url)
    heard: list[tuple[bool, str | None]] = []

    def take(manager: DistributedLockManager) -> None:
        lock_id = manager.acquire_lock(key)
        heard.append((lock_id is not None, manager.last_refusal))

    threads = [threading.Thread(target=take, args=(manager,)) for manager in managers * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard, reverse=True) == [(True, None)] + [(False, "held")] * 15


def test_the_life_of_a_lock_is_the_managers_unless_it_is_given(
    on_redis: DistributedLockManager, foreign: ForeignClient, key: str
) -> None:
    assert on_redis.acquire_lock(key)
    assert 25_000 < foreign.life_ms(f"distributed_lock:{key}") <= 30_000
    assert on_redis.acquire_lock(f"{key}-short", timeout=0.05)
    assert foreign.life_ms(f"distributed_lock:{key}-short") <= 50


# -- beside a foreign client -------------------------------------------------------------------------------------


def test_we_exclude_a_foreign_client(on_redis: DistributedLockManager, foreign: ForeignClient, key: str) -> None:
    lock_id = on_redis.acquire_lock(key)
    assert lock_id
    assert foreign.holder(f"distributed_lock:{key}") == lock_id
    assert not foreign.take(f"distributed_lock:{key}", "theirs")
    assert not foreign.drop(f"distributed_lock:{key}", "theirs")
    assert on_redis.release_lock(key, lock_id)
    assert foreign.take(f"distributed_lock:{key}", "theirs")


def test_a_foreign_client_excludes_us(on_redis: DistributedLockManager, foreign: ForeignClient, key: str) -> None:
    assert foreign.take(f"distributed_lock:{key}", "theirs")
    assert on_redis.is_locked(key)
    assert on_redis.acquire_lock(key) is None
    assert on_redis.last_refusal == "held"
    assert not on_redis.release_lock(key, "ours")
    assert not on_redis.extend_lock(key, "ours", 60)
    assert foreign.holder(f"distributed_lock:{key}") == "theirs"
    assert foreign.life_ms(f"distributed_lock:{key}") <= 30_000
    assert foreign.drop(f"distributed_lock:{key}", "theirs")
    assert on_redis.acquire_lock(key)


def test_what_a_foreign_client_took_from_an_expired_lock_is_theirs(
    on_redis: DistributedLockManager, foreign: ForeignClient, key: str
) -> None:
    lock_id = on_redis.acquire_lock(key, timeout=0.05)
    assert lock_id
    wait_until(lambda: foreign.take(f"distributed_lock:{key}", "theirs"))
    assert not on_redis.release_lock(key, lock_id)
    assert not on_redis.extend_lock(key, lock_id, 60)
    assert foreign.holder(f"distributed_lock:{key}") == "theirs"


def test_a_lock_that_someone_set_without_an_end_gets_none_by_extending(
    on_redis: DistributedLockManager, foreign: ForeignClient, key: str
) -> None:
    foreign.send("SET", f"distributed_lock:{key}", "id")
    assert on_redis.extend_lock(key, "id", 1)
    assert foreign.life_ms(f"distributed_lock:{key}") == -1
    assert on_redis.release_lock(key, "id")


# -- an absent store ---------------------------------------------------------------------------------------------


def refuses_everything(manager: DistributedLockManager, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[tuple[Callable[[], object], object]] = [
        (lambda: manager.acquire_lock("k"), None),
        (lambda: manager.release_lock("k", "id"), False),
        (lambda: manager.is_locked("k"), False),
        (lambda: manager.extend_lock("k", "id", 1), False),
    ]
    for call, no in calls:
        caplog.clear()
        assert call() is no
        assert manager.last_refusal == "away"
        assert isinstance(manager.last_error, StoreUnavailable)
        assert manager.last_error.__cause__ is not None
        assert [(record.name, record.levelname) for record in caplog.records if "away" in record.message] == [
            ("inturn.locks", "WARNING")
        ]


def until_granted(manager: DistributedLockManager) -> None:
    """A busy machine may be slower than a short timeout, and a lock whose answer came too late stays locked."""
    keys = (f"k{number}" for number in itertools.count())
    wait_until(lambda: manager.acquire_lock(next(keys)))


@pytest.mark.parametrize("kind", ON_REDIS)
def test_where_nothing_listens_every_answer_is_no_and_the_reason_is_away(
    maker: Maker[DistributedLockManager], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    refuses_everything(maker.manager(kind, maker.nowhere(), timeout_s=0.3), caplog)


@pytest.mark.parametrize("kind", ON_REDIS)
def test_a_server_that_stopped_is_away_until_it_is_back(
    maker: Maker[DistributedLockManager], kind: str, fresh_redis: PrivateRedis, caplog: pytest.LogCaptureFixture
) -> None:
    manager = maker.manager(kind, fresh_redis.url, timeout_s=1.5)
    until_granted(manager)
    fresh_redis.kill()
    refuses_everything(manager, caplog)
    fresh_redis.start()
    until_granted(manager)
    assert manager.last_refusal is None
    assert manager.last_error is None


@pytest.mark.parametrize("kind", ON_REDIS)
def test_a_server_that_hangs_is_away(
    maker: Maker[DistributedLockManager], kind: str, fresh_redis: PrivateRedis, caplog: pytest.LogCaptureFixture
) -> None:
    manager = maker.manager(kind, fresh_redis.url, timeout_s=1.5)
    until_granted(manager)
    fresh_redis.pause()
    try:
        assert manager.acquire_lock("k") is None
        assert manager.last_refusal == "away"
    finally:
        fresh_redis.resume()


@pytest.mark.parametrize("kind", [kind for kind in SYNC + ASYNC if "sqlite" in kind])
def test_a_database_that_cannot_be_opened_is_away(
    maker: Maker[DistributedLockManager], kind: str, tmp_path: Path, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = maker.manager(kind, redis_url, timeout_s=0.3)
    (tmp_path / "inturn.db").mkdir()
    refuses_everything(manager, caplog)


# -- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["client", "async client"])
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: m.acquire_lock(""), ValueError, "lock_key=''"),
        (lambda m: m.acquire_lock(b"k"), TypeError, "lock_key=b'k'"),
        (lambda m: m.acquire_lock("k" * 513), ValueError, "lock_key="),
        (lambda m: m.acquire_lock("k", 0), ValueError, "timeout=0"),
        (lambda m: m.acquire_lock("k", -1), ValueError, "timeout=-1"),
        (lambda m: m.acquire_lock("k", float("nan")), ValueError, "timeout=nan"),
        (lambda m: m.acquire_lock("k", float("inf")), ValueError, "timeout=inf"),
        (lambda m: m.acquire_lock("k", "5"), TypeError, "timeout='5'"),
        (lambda m: m.release_lock("k", None), TypeError, "lock_id=None"),
        (lambda m: m.release_lock("", "id"), ValueError, "lock_key=''"),
        (lambda m: m.is_locked(7), TypeError, "lock_key=7"),
        (lambda m: m.extend_lock("k", "", 1), ValueError, "lock_id=''"),
        (lambda m: m.extend_lock("k", "id", 0), ValueError, "additional_time=0"),
    ],
)
def test_bad_input_is_named(
    maker: Maker[DistributedLockManager],
    redis_url: str,
    kind: str,
    call: Callable[[Any], object],
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        call(maker.manager(kind, redis_url))


def test_a_source_of_the_wrong_kind_is_named(maker: Maker[DistributedLockManager], redis_url: str) -> None:
    client, on_a_loop = maker.source("client", redis_url), maker.source("async client", redis_url)
    sync_app = maker.source("sync app on sqlite", redis_url)
    with pytest.raises(TypeError, match=r"redis_client=.* must be a redis\.Redis.* not redis\.asyncio\.client\.Redis"):
        DistributedLockManager(on_a_loop)
    with pytest.raises(TypeError, match="redis_client=None"):
        DistributedLockManager(cast(Any, None))
    wrong: Any
    for wrong in (client, sync_app, "redis://localhost"):
        for face in (AsyncDistributedLockManager, VisitorLockService, ConversationLock):
            with pytest.raises(TypeError, match=r"redis_client=.* must be a redis\.asyncio\.Redis"):
                face(wrong)
    with pytest.raises(ValueError, match="default_timeout=0"):
        DistributedLockManager(client, default_timeout=0)


# -- visitors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ASYNC)
def test_a_visitor_is_answered_by_one(
    maker: Maker[DistributedLockManager], redis_url: str, key: str, kind: str
) -> None:
    mine = maker.blocking(VisitorLockService(maker.source(kind, redis_url)))
    theirs = maker.blocking(VisitorLockService(maker.source(kind, redis_url)))
    lock_id = mine.acquire_lock(key)
    assert lock_id
    assert theirs.acquire_lock(key, ttl_seconds=5) is None
    assert theirs.last_refusal == "held"
    assert not theirs.release_lock(key, "wrong")
    assert mine.release_lock(key, lock_id)
    assert theirs.acquire_lock(key, ttl_seconds=0.05)
    wait_until(lambda: mine.acquire_lock(key))


@pytest.mark.parametrize("kind", [kind for kind in ASYNC if "sqlite" not in kind])
def test_a_visitors_lock_is_shared_with_a_foreign_client(
    maker: Maker[DistributedLockManager], redis_url: str, foreign: ForeignClient, key: str, kind: str
) -> None:
    visitors = maker.blocking(VisitorLockService(maker.source(kind, redis_url)))
    lock_id = visitors.acquire_lock(key)
    assert foreign.holder(f"ai:lock:visitor:{key}") == lock_id
    assert 25_000 < foreign.life_ms(f"ai:lock:visitor:{key}") <= 30_000
    assert not foreign.take(f"ai:lock:visitor:{key}", "theirs")
    assert visitors.release_lock(key, lock_id)
    assert foreign.take(f"ai:lock:visitor:{key}", "theirs")
    assert visitors.acquire_lock(key) is None
    assert not visitors.release_lock(key, lock_id)
    assert foreign.drop(f"ai:lock:visitor:{key}", "theirs")


@pytest.mark.parametrize("kind", [kind for kind in ASYNC if "sqlite" not in kind])
def test_an_absent_store_is_a_no_for_visitors(maker: Maker[DistributedLockManager], kind: str) -> None:
    visitors = maker.blocking(VisitorLockService(maker.source(kind, maker.nowhere(), timeout_s=0.2)))
    assert visitors.acquire_lock("v1") is None
    assert visitors.last_refusal == "away"
    assert visitors.release_lock("v1", "id") is False
    assert visitors.last_refusal == "away"


@pytest.mark.parametrize("kind", ["async client"])
def test_bad_visitors_are_named(maker: Maker[DistributedLockManager], redis_url: str, kind: str) -> None:
    visitors = maker.blocking(VisitorLockService(maker.source(kind, redis_url)))
    with pytest.raises(ValueError, match="visitor_uid=''"):
        visitors.acquire_lock("")
    with pytest.raises(ValueError, match="ttl_seconds=0"):
        visitors.acquire_lock("v1", 0)
    with pytest.raises(TypeError, match="lock_id=None"):
        visitors.release_lock("v1", None)


# -- conversations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ASYNC)
def test_a_conversation_is_answered_by_one(
    maker: Maker[DistributedLockManager], redis_url: str, key: str, kind: str
) -> None:
    lock = ConversationLock(maker.source(kind, redis_url))
    run = maker.runner.run
    release = run(lock.acquire(key))
    with pytest.raises(ConversationLockError, match=key) as refused:
        run(lock.acquire(key))
    assert refused.value.conversation_id == key
    run(lock.acquire(f"{key}-other"))
    assert run(_call(release))
    assert not run(_call(release)), "it was released already"
    assert run(_call(run(lock.acquire(key))))


@pytest.mark.parametrize("kind", ASYNC)
def test_an_expired_conversation_is_warned_about_and_not_taken_from_the_next(
    maker: Maker[DistributedLockManager], redis_url: str, key: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    run, source = maker.runner.run, maker.source(kind, redis_url)
    release = run(ConversationLock(source, ttl=0.05).acquire(key))
    taken: list[Release] = []

    def is_taken_by_the_next() -> bool:
        try:
            taken.append(run(ConversationLock(source).acquire(key)))
        except ConversationLockError:
            return False
        return True

    wait_until(is_taken_by_the_next)
    assert not run(_call(release))
    warned = [record.message for record in caplog.records if record.name == "inturn.locks"]
    assert len(warned) == 1
    assert f"not owner name=lock:conv:{key}" in warned[0]
    assert "now=held held=" in warned[0]
    assert run(_call(taken[0])), "the next one still had it"


@pytest.mark.parametrize("kind", [kind for kind in ASYNC if "sqlite" not in kind])
def test_a_conversation_is_shared_with_a_foreign_client(
    maker: Maker[DistributedLockManager], redis_url: str, foreign: ForeignClient, key: str, kind: str
) -> None:
    lock, run = ConversationLock(maker.source(kind, redis_url)), maker.runner.run
    release = run(lock.acquire(key))
    assert foreign.holder(f"lock:conv:{key}")
    assert 5_000 < foreign.life_ms(f"lock:conv:{key}") <= 10_000
    assert not foreign.take(f"lock:conv:{key}", "theirs")
    assert run(_call(release))
    assert foreign.take(f"lock:conv:{key}", "theirs")
    with pytest.raises(ConversationLockError):
        run(lock.acquire(key))


@pytest.mark.parametrize("kind", [kind for kind in ASYNC if "sqlite" not in kind])
def test_an_absent_store_is_raised_for_conversations(
    maker: Maker[DistributedLockManager], kind: str, fresh_redis: PrivateRedis, caplog: pytest.LogCaptureFixture
) -> None:
    lock, run = ConversationLock(maker.source(kind, fresh_redis.url, timeout_s=1.5)), maker.runner.run
    release = run(lock.acquire("c1"))
    fresh_redis.kill()
    with pytest.raises(StoreUnavailable):
        run(lock.acquire("c2"))
    assert not run(_call(release)), "and it does not hide what the caller raises"
    assert any("away name=lock:conv:c1" in record.message for record in caplog.records)
    with pytest.raises(TypeError, match="conversation_id=7"):
        run(lock.acquire(cast(Any, 7)))


async def _call(release: Release) -> bool:
    return await release()
