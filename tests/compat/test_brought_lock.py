"""A lock that a caller brings, synchronous or async: taken, extended and released, also if its user is cancelled."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio

from inturn.compat import brought_lock
from inturn.compat.brought_lock import BroughtLock, ask
from inturn.compat.managers import AsyncDistributedLockManager, DistributedLockManager
from inturn.errors import LockTimeout, StoreUnavailable
from tests.servers import PrivateRedis
from tests.waiting import until

LONG_S = 30.0


class Held:
    """A synchronous lock in memory, which can be made to wait. It notes which thread called it."""

    last_refusal: str | None = None

    def __init__(self) -> None:
        self.owner: str | None = None
        self.lives: list[Any] = []
        self.released: list[str] = []
        self.threads: set[int] = set()
        self.called, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()
        self.told: Any = None
        """What a release or an extension returns, if not whether the lock is the caller's. An error is raised."""
        self._ids = count(1)

    def acquire_lock(self, name: str, ttl: Any) -> str | None:
        self._enter(ttl)
        if self.owner is not None:
            return None
        self.owner = f"id-{next(self._ids)}"
        return self.owner

    def extend_lock(self, name: str, lock_id: str, life: Any) -> Any:
        self._enter(life)
        return self._tell(self.owner == lock_id)

    def release_lock(self, name: str, lock_id: str) -> Any:
        self._enter()
        is_ours = self.owner == lock_id
        if is_ours:
            self.owner = None
        self.released.append(lock_id)
        return self._tell(is_ours)

    def _enter(self, *lives: Any) -> None:
        self.threads.add(threading.get_ident())
        self.lives += lives
        self.called.set()
        assert self.goes_on.wait(20)

    def _tell(self, is_ours: bool) -> Any:
        if isinstance(self.told, BaseException):
            raise self.told
        return is_ours if self.told is None else self.told


class AsyncHeld(Held):
    """The same, async: whoever is cancelled in it does nothing."""

    async def acquire_lock(self, name: str, ttl: Any) -> str | None:  # type: ignore[override]
        await self._gate()
        return super().acquire_lock(name, ttl)

    async def extend_lock(self, name: str, lock_id: str, life: Any) -> Any:
        await self._gate()
        return super().extend_lock(name, lock_id, life)

    async def release_lock(self, name: str, lock_id: str) -> Any:
        await self._gate()
        return super().release_lock(name, lock_id)

    async def _gate(self) -> None:
        self.called.set()
        await until(self.goes_on.is_set)


KINDS = [Held, AsyncHeld]
Kind = Callable[[], Held]


def brought(lock: Any, ttl_s: float = LONG_S) -> BroughtLock:
    return BroughtLock(lock, "n", ttl_s, "user 7")


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_taken_extended_and_released(kind: Kind) -> None:
    lock = kind()
    held = brought(lock)
    lock_id = await held.take(0)
    assert lock_id == lock.owner == "id-1"
    assert await held.take(0) is None
    assert await held.extend(lock_id, LONG_S)
    assert not await held.extend("id-0", LONG_S)
    assert await held.release(lock_id)
    assert not await held.release(lock_id), "it was released before"


async def test_a_synchronous_lock_runs_beside_the_loop() -> None:
    lock = Held()
    held = brought(lock)
    lock_id = await held.take(0)
    assert lock_id
    for call in (held.take(0), held.extend(lock_id, 1), held.release(lock_id)):
        lock.called.clear()
        lock.goes_on.clear()
        calling = asyncio.create_task(call)
        await until(lock.called.is_set)  # the loop goes on while the lock hangs
        assert not calling.done()
        lock.goes_on.set()
        await calling
    assert threading.get_ident() not in lock.threads


async def test_locks_that_hang_keep_no_thread_from_anybody_else() -> None:
    """Neither from asyncio, which looks up addresses in its own, nor from who has a lock to extend or release."""
    hangs, works = Held(), Held()
    lock_id = await brought(works).take(0)
    assert lock_id
    hangs.goes_on.clear()
    asking = [asyncio.create_task(brought(hangs).take(0)) for _ in range(brought_lock.MAX_THREADS + 8)]
    try:
        await until(lambda: len(hangs.lives) == brought_lock.MAX_THREADS)
        assert await asyncio.wait_for(asyncio.to_thread(int, "1"), 20) == 1
        assert await asyncio.wait_for(brought(works).extend(lock_id, 1), 20)
        assert await asyncio.wait_for(brought(works).release(lock_id), 20)
    finally:
        hangs.goes_on.set()
        await asyncio.gather(*asking)


def test_a_fork_has_threads_of_its_own() -> None:
    lock = Held()
    assert asyncio.run(brought(lock).take(0))
    child = os.fork()
    if child == 0:
        taken = asyncio.run(asyncio.wait_for(brought(Held()).take(0), 20))
        os._exit(0 if taken else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_whole_seconds_are_given_as_a_whole_number(kind: Kind) -> None:
    """Redis refuses `EX 30.0`, and so would the lock of somebody who hands the number on."""
    lock = kind()
    for ttl_s in (30.0, 0.5):
        held = brought(lock, ttl_s)
        lock_id = await held.take(0)
        assert lock_id
        await held.extend(lock_id, ttl_s)
        await held.release(lock_id)
    assert [(life, type(life)) for life in lock.lives] == [(30, int), (30, int), (0.5, float), (0.5, float)]


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_waited_for_up_to_a_time(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(brought_lock, "clock", SimpleNamespace(now=lambda: 0.05 * next(ticks)))
    lock = kind()
    first = await brought(lock).take(0)
    assert first
    with pytest.raises(LockTimeout):
        await brought(lock).take(0.2)
    assert len(lock.lives) > 2, "it was asked for more than once"
    await brought(lock).release(first)
    assert await brought(lock).take(0.2) == "id-2"


async def test_those_who_wait_together_do_not_ask_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or each release would be found by all of them at once, a quarter of a second later."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    for _ in range(2):
        ticks = count()
        monkeypatch.setattr(brought_lock, "clock", SimpleNamespace(now=lambda ticks=ticks: 0.05 * next(ticks)))
        lock = AsyncHeld()
        lock.owner = "another"
        with pytest.raises(LockTimeout):
            await brought(lock).take(0.5)
    half = len(pauses) // 2
    assert half > 2
    assert pauses[: half - 1] != pauses[half:-1]
    assert max(pauses) <= brought_lock.LAST_PAUSE_S


@pytest.mark.parametrize("kind", KINDS)
async def test_a_store_that_hangs_is_away_and_what_it_grants_later_is_given_back(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a client of redis-py that has no `socket_timeout`."""
    monkeypatch.setattr(brought_lock, "ANSWERS_WITHIN_S", 0.05)
    lock = kind()
    lock.goes_on.clear()
    try:
        with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
            await brought(lock, 1.0).take(LONG_S)
    finally:
        lock.goes_on.set()
    await until(lambda: lock.released == ["id-1"] and lock.owner is None)


async def test_a_lock_that_cannot_be_extended_is_ours_until_its_life_is_over() -> None:
    bare = SimpleNamespace(acquire_lock=lambda name, ttl: "id", release_lock=lambda name, lock_id: True)
    assert await brought(bare).extend("id", LONG_S)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_store_that_is_away_is_not_a_lock_that_is_held(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    lock = kind()
    lock.owner, lock.last_refusal, lock.told = "another", "away", False
    for call in (brought(lock).take(5), brought(lock).extend("id-1", 5)):
        with pytest.raises(StoreUnavailable, match="the store of the lock is away"):
            await call
    assert await brought(lock).release("id-1"), "nobody knows whether it was ours"
    assert "the lock of user 7 could not be released, and expires by itself" in caplog.text


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_was_wrong_with_the_store_is_told(fresh_redis: PrivateRedis, is_async: bool) -> None:
    lock: AsyncDistributedLockManager | DistributedLockManager
    client = redis.asyncio.Redis.from_url(fresh_redis.url)
    with redis.Redis.from_url(fresh_redis.url) as sync_client:
        lock = AsyncDistributedLockManager(client) if is_async else DistributedLockManager(sync_client)
        lock_id = await brought(lock).take(0)
        assert lock_id
        fresh_redis.kill()
        with pytest.raises(StoreUnavailable, match="SET: ConnectionError"):
            await brought(lock).take(5)
        with pytest.raises(StoreUnavailable, match="EVAL: ConnectionError"):
            await brought(lock).extend(lock_id, 5)
        assert await brought(lock).release(lock_id)
    await client.aclose()


@pytest.mark.parametrize("told", [RuntimeError("redis is away"), asyncio.CancelledError()])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_that_fails_is_logged(
    kind: Kind, told: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    lock = kind()
    lock_id = await brought(lock).take(0)
    assert lock_id
    lock.told = told
    assert await brought(lock).release(lock_id)
    assert "the lock of user 7 could not be released" in caplog.text


async def test_an_extension_that_hangs_is_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brought_lock, "ANSWERS_WITHIN_S", 0.05)

    class Hanging:
        def acquire_lock(self, name: str, ttl: float) -> str:
            return "id-1"

        def release_lock(self, name: str, lock_id: str) -> bool:
            return True

        async def extend_lock(self, name: str, lock_id: str, life_s: float) -> bool:
            return bool(await asyncio.get_running_loop().create_future())

    with pytest.raises(StoreUnavailable, match="no answer"):
        await brought(Hanging()).extend("id-1", 30)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_that_hangs_is_given_up_when_the_lock_has_expired(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    lock = kind()
    lock_id = await brought(lock).take(0)
    assert lock_id
    lock.goes_on.clear()
    try:
        assert await brought(lock, 0.05).release(lock_id)
        assert "the lock of user 7 could not be released" in caplog.text
    finally:
        lock.goes_on.set()  # a thread cannot be ended


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_granted_to_someone_who_was_cancelled_is_released(kind: Kind) -> None:
    lock = kind()
    lock.goes_on.clear()
    taking = asyncio.create_task(brought(lock).take(5))
    await until(lock.called.is_set)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    lock.goes_on.set()
    await until(lambda: lock.released == ["id-1"] and lock.owner is None)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_goes_on_without_the_one_who_was_cancelled_in_it(kind: Kind) -> None:
    lock = kind()
    lock_id = await brought(lock).take(0)
    assert lock_id
    lock.called.clear()
    lock.goes_on.clear()
    releasing = asyncio.create_task(brought(lock).release(lock_id))
    await until(lock.called.is_set)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    assert lock.owner == lock_id
    lock.goes_on.set()
    await until(lambda: lock.owner is None)


async def test_who_is_cancelled_while_they_wait_waits_no_longer() -> None:
    lock = Held()
    lock.owner = "another"
    taking = asyncio.create_task(brought(lock).take(LONG_S))
    await until(lambda: len(lock.lives) > 1)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert lock.owner == "another"


async def test_a_method_may_return_an_awaitable_without_being_a_coroutine_function() -> None:
    inner = AsyncHeld()
    bare = SimpleNamespace(
        acquire_lock=lambda name, ttl: inner.acquire_lock(name, ttl),
        release_lock=lambda name, lock_id: inner.release_lock(name, lock_id),
    )
    lock_id = await brought(bare).take(0)
    assert lock_id
    assert await brought(bare).release(lock_id)
    assert inner.threads == {threading.get_ident()}, "what waits, waits on the loop"


async def test_each_of_many_callers_in_threads_hears_its_own_refusal(
    redis_server: PrivateRedis, namespace: str
) -> None:
    """A manager has one `last_refusal` for each thread; who read it on the loop would read another call's."""
    client = redis.Redis.from_url(redis_server.url)

    class Sometimes(DistributedLockManager):
        def acquire_lock(self, lock_key: str, timeout: Any = None) -> str | None:
            if "away" not in lock_key:
                return super().acquire_lock(lock_key, timeout)
            self._threads.last = SimpleNamespace(refusal="away", error=StoreUnavailable(lock_key))
            return None

    with client, Sometimes(client) as lock:
        held = f"{namespace}-held"
        assert lock.acquire_lock(held, 20)
        names = [f"away-{number}" if number % 2 else held for number in range(40)]
        told = await asyncio.gather(*(ask(lock, lock.acquire_lock, name, 20) for name in names))
    assert [str(each.error) if each.error else held for each in told] == names
