"""The heartbeat against a real Redis that is paused, killed and emptied."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from inturn import InTurn, LeaseLost, StoreUnavailable, metrics
from inturn.locks.lease import Lease
from inturn.process import heartbeat
from inturn.settings import Settings, load_settings
from inturn.store import clock
from inturn.store.limits import BEAT_S
from tests.servers import PrivateRedis
from tests.store.stopwatch import Stopwatch
from tests.waiting import until, until_waiters


@pytest.fixture
async def app(fresh_redis: PrivateRedis) -> AsyncIterator[InTurn]:
    settings = load_settings({"INTURN_STORE_TIMEOUT": "3"})
    async with InTurn(fresh_redis.url, settings=settings) as app:
        yield app


async def evalsha_calls(app: InTurn) -> int:
    link = app.process.store._link()  # type: ignore[attr-defined]
    stats = (await link.ask("INFO", "commandstats")).decode()
    return sum(
        int(line.split("calls=")[1].split(",")[0]) for line in stats.splitlines() if line.startswith("cmdstat_eval")
    )


def confirmed() -> float:
    return REGISTRY.get_sample_value("inturn_renewals_total", {"outcome": "confirmed"}) or 0.0


async def until_renewed(app: InTurn, lease: Lease) -> None:
    """Its end has moved on again and again. It has a long ttl, as on a busy machine a beat may come seconds late."""
    beating = app.process.heartbeat
    for _ in range(3):
        ends_at = beating.deadline_of(lease.held)
        await until(lambda ends_at=ends_at: lease.lost or beating.deadline_of(lease.held) > ends_at)  # type: ignore[misc]
        assert not lease.lost


class Beats:
    """Counts the beats of an app. They are made by another thread, so that one may be under way at any time."""

    def __init__(self, app: InTurn, monkeypatch: pytest.MonkeyPatch) -> None:
        self._app = app
        self._beat = app.process.store.beat
        self.begun = self.ended = 0
        monkeypatch.setattr(app.process.store, "beat", self._count)

    async def _count(self, *args: Any) -> Any:
        self.begun += 1
        try:
            return await self._beat(*args)
        finally:
            self.ended += 1

    async def and_calls(self) -> tuple[int, int]:
        """How many there were, and how many calls the server has run: read while none is under way."""
        while True:
            begun, ended = self.begun, self.ended
            calls = await evalsha_calls(self._app)
            if begun == ended and begun == self.begun:
                return ended, calls


@pytest.mark.timeout(180)  # it computes, so a busy machine makes it slow
async def test_ten_thousand_leases_cost_one_call_per_beat(
    fresh_redis: PrivateRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with InTurn(fresh_redis.url) as app:  # with the usual time for a call, as hundreds of them are made at once
        beats, told = Beats(app, monkeypatch), confirmed()
        locks = [app.lock(f"n{number}", owner="me") for number in range(10_000)]
        for start in range(0, len(locks), 200):
            await asyncio.gather(*(lock.acquire() for lock in locks[start : start + 200]))
        first, calls_before = await beats.and_calls()

        async def has_beaten_twice() -> bool:
            return beats.ended >= first + 2

        await until(has_beaten_twice, 60)
        last, calls = await beats.and_calls()
        assert calls - calls_before == last - first
        assert all(lock.lease.remaining() > 20 for lock in locks)
    assert confirmed() - told >= last


@pytest.mark.timed
async def test_a_body_is_cancelled_before_its_lease_ends_when_the_store_does_not_answer(
    app: InTurn, fresh_redis: PrivateRedis
) -> None:
    ttl_s = 2.0
    try:
        with pytest.raises(LeaseLost, match="no renewal in time"):
            async with app.lock("a", ttl=ttl_s) as lease:
                fresh_redis.pause()
                async with Stopwatch() as watch:
                    await asyncio.sleep(30)
        # the last renewal was sent before the pause
        assert watch.own_s < ttl_s - heartbeat.margin_s(ttl_s) + 0.2
        assert lease.lost
    finally:
        fresh_redis.resume()


@pytest.mark.timed
@pytest.mark.parametrize("how", ["it does not answer", "it is gone"])
async def test_who_waits_learns_within_the_timeout_that_the_store_is_away(
    app: InTurn, fresh_redis: PrivateRedis, how: str
) -> None:
    async with InTurn(fresh_redis.url) as holder:
        held = await holder.lock("a").take()
        waiting = asyncio.create_task(app.lock("a").acquire())
        await until_waiters(holder, "a", 1)
        (fresh_redis.pause if how == "it does not answer" else fresh_redis.kill)()
        try:
            async with Stopwatch() as watch:
                with pytest.raises(StoreUnavailable):
                    await asyncio.wait_for(waiting, 30)
            assert watch.own_s < app.settings.store_timeout
            assert not held.is_over
        finally:
            (fresh_redis.resume if how == "it does not answer" else fresh_redis.start)()


async def test_a_pause_of_the_process_is_not_taken_for_an_absent_store(
    app: InTurn, fresh_redis: PrivateRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat's thread stands still while its beat is under way, for longer than those who wait are to wait."""
    beat, has_paused = app.process.store.beat, threading.Event()

    async def pausing(*args: Any) -> Any:
        asking = asyncio.ensure_future(beat(*args))
        await asyncio.sleep(0)
        if app.process.registry.waiting and not has_paused.is_set():
            time.sleep(app.settings.store_timeout * 0.8)  # noqa: ASYNC251 - that is the point
            has_paused.set()
        return await asking

    monkeypatch.setattr(app.process.store, "beat", pausing)
    async with InTurn(fresh_redis.url) as holder:
        async with holder.lock("a"):
            waiting = asyncio.create_task(app.lock("a").take())
            await until_waiters(holder, "a", 1)
            await until(has_paused.is_set)
            confirmed_at = app.process.heartbeat._confirmed_at[0]
            await until(lambda: app.process.heartbeat._confirmed_at[0] > confirmed_at)
            assert not waiting.done()
        assert (await asyncio.wait_for(waiting, 20)).fence > 0


@pytest.mark.timed
@pytest.mark.parametrize("how", ["it does not answer", "it is gone"])
async def test_closing_takes_no_longer_than_the_timeout_when_the_store_is_away(
    app: InTurn, fresh_redis: PrivateRedis, how: str
) -> None:
    lock = app.lock("a")
    await lock.acquire()
    (fresh_redis.pause if how == "it does not answer" else fresh_redis.kill)()
    try:
        async with Stopwatch() as watch:
            await app.close()
        assert watch.own_s < app.settings.store_timeout + 0.5
        assert lock.lease.lost
    finally:
        (fresh_redis.resume if how == "it does not answer" else fresh_redis.start)()


@pytest.mark.parametrize(("ttl", "renew"), [(2.0, True), (0.5, True), (0.5, False)])
async def test_a_short_lease_does_not_cost_a_beat(
    app: InTurn, monkeypatch: pytest.MonkeyPatch, ttl: float, renew: bool
) -> None:
    beats, began_at = Beats(app, monkeypatch), clock.now()
    for _ in range(300):
        try:
            async with app.lock("a", ttl=ttl, renew=renew):
                pass
        except LeaseLost:
            continue  # on a machine that stood still
    assert beats.begun <= (clock.now() - began_at) / (ttl / 4 if renew else 1.0) + 3


async def test_a_lease_that_is_shorter_than_a_beat_is_renewed_in_time(app: InTurn) -> None:
    async with app.lock("long", ttl=60):
        await until(lambda: app.process.heartbeat._beats_every_s == BEAT_S)
        async with app.lock("a", ttl=3.6) as lease:
            await until_renewed(app, lease)
            assert app.process.heartbeat._beats_every_s <= 0.9


async def test_what_is_left_over_is_given_back_as_fast_as_it_comes(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, done = app.process.registry, 0

    async def undo() -> None:
        nonlocal done
        done += 1

    beats = Beats(app, monkeypatch)
    async with app.lock("a", ttl=60):
        for number in range(10_000):
            registry.once_more("x", f"nobody#{number}", 0.0, undo)
        begun = beats.begun
        await until(lambda: not registry.leftovers)
    assert done == 10_000
    assert beats.begun - begun <= 4, "all of them with the next beat, not a few with each"


async def test_a_store_that_lost_its_memory_ends_every_lease_and_fences_go_on(
    app: InTurn, fresh_redis: PrivateRedis
) -> None:
    with pytest.raises(LeaseLost, match="lost its memory"):
        async with app.lock("a") as lease:
            await asyncio.to_thread(fresh_redis.restart, keep_data=False)
            await asyncio.sleep(30)
    async with app.lock("a") as later:
        assert later.fence > lease.fence


async def test_a_late_release_after_the_memory_was_lost_is_refused(app: InTurn, fresh_redis: PrivateRedis) -> None:
    lock = app.lock("a")
    await lock.acquire()
    await asyncio.to_thread(fresh_redis.restart, keep_data=False)
    with pytest.raises(LeaseLost):
        await lock.release()


async def test_a_restart_that_keeps_the_data_keeps_the_lease() -> None:
    with PrivateRedis(appendonly=True, extra=("--appendfsync", "always")) as server:
        settings = Settings(store_timeout=15)  # a busy machine may take long to start the server again
        async with InTurn(server.url, settings=settings) as app, InTurn(server.url, settings=settings) as other:
            async with app.lock("a", ttl=30) as lease:
                waiting = asyncio.create_task(other.lock("a").take())
                await until_waiters(app, "a", 1)
                await asyncio.to_thread(server.restart, keep_data=True)
                assert await app.lock("a").locked()
                assert not waiting.done()
            assert not lease.lost
            assert (await asyncio.wait_for(waiting, 30)).fence > lease.fence


async def test_an_unexpected_error_does_not_end_the_heartbeat(
    app: InTurn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "inturn.heartbeat")
    beat, broken = app.process.store.beat, 1

    async def break_once(*args: Any) -> Any:
        nonlocal broken
        if broken:
            broken -= 1
            raise RuntimeError("unexpected")
        return await beat(*args)

    monkeypatch.setattr(app.process.store, "beat", break_once)
    async with app.lock("a", ttl=20) as lease:
        await until_renewed(app, lease)
    assert "unexpected" in caplog.text


async def test_a_process_that_holds_nothing_rests_and_wakes_again(app: InTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "REST_AFTER_S", 0.05)
    async with app.lock("a"):
        pass

    async def rests() -> bool:
        return app.process.heartbeat.is_resting

    await until(rests)
    async with app.lock("a", ttl=20) as lease:
        await until_renewed(app, lease)


async def test_a_server_that_was_restored_from_an_older_copy_ends_the_leases_that_it_does_not_know() -> None:
    with PrivateRedis() as server:
        async with InTurn(server.url) as app:
            async with app.lock("before"):
                pass
            link = app.process.store._link()  # type: ignore[attr-defined]
            assert await link.ask("SAVE") == b"OK"
            with pytest.raises(LeaseLost):
                async with app.lock("a", ttl=20):
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                    await asyncio.sleep(30)


async def test_a_heartbeat_that_ended_is_begun_anew_by_the_next_lock(app: InTurn) -> None:
    async with app.lock("a"):
        pass
    beating = app.process.heartbeat
    await asyncio.to_thread(beating.stop)
    async with app.lock("a", ttl=20) as lease:
        await until_renewed(app, lease)


async def test_a_store_that_refuses_at_once_is_not_asked_in_a_tight_loop(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = Beats(app, monkeypatch)  # of this app alone: all apps of a process share the metric
    async with app.lock("a", ttl=60):
        link = app.process.store._link()  # type: ignore[attr-defined]
        failed_before = metrics.beats_failed._value.get()
        await link.ask("CONFIG", "SET", "min-replicas-to-write", "1")
        began_at, begun = clock.now(), beats.begun
        await until(lambda: beats.begun - begun > 4)
        await link.ask("CONFIG", "SET", "min-replicas-to-write", "0")
        assert clock.now() - began_at > 1, "there is a pause of half a second after each"
        assert metrics.beats_failed._value.get() - failed_before >= 4


async def test_what_is_left_over_is_given_back_although_the_partitions_cannot_be_checked(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_away(pushes: bool = True) -> None:
        raise StoreUnavailable("the node of partition 0 is away")

    undone = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def undo() -> None:
        loop.call_soon_threadsafe(undone.set)

    async with app.lock("a", ttl=60):
        monkeypatch.setattr(app.process.store, "check_partitions", is_away)
        app.process.heartbeat.confirm_soon()
        app.process.registry.once_more("x", "token", 0.0, undo)
        await asyncio.wait_for(undone.wait(), 20)
        assert app.process.heartbeat._must_check, "it is asked again"


async def test_partitions_are_checked_again_if_a_connection_comes_back_during_a_check(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = asyncio.Event(), threading.Event()
    loop, checks = asyncio.get_running_loop(), 0

    async def slowly(pushes: bool = True) -> None:
        nonlocal checks
        checks += 1
        loop.call_soon_threadsafe(begun.set)
        await asyncio.to_thread(go.wait, 20)

    async with app.lock("a", ttl=60):
        monkeypatch.setattr(app.process.store, "check_partitions", slowly)
        app.process.heartbeat.confirm_soon()
        await asyncio.wait_for(begun.wait(), 20)
        app.process.heartbeat.confirm_soon()
        go.set()
        await until(lambda: checks == 2)
