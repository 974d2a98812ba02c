"""The heartbeat against a real Redis that is paused, killed and emptied."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from inturn import InTurn, LeaseLost, StoreUnavailable
from inturn.locks.lease import Lease
from inturn.process import heartbeat
from inturn.settings import load_settings
from inturn.store import clock
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
        ends_at = beating.deadline_of(lease)
        await until(lambda ends_at=ends_at: lease.lost or beating.deadline_of(lease) > ends_at)  # type: ignore[misc]
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
        assert all(lock.owned_by("me").lease.remaining() > 20 for lock in locks)
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


async def test_who_waits_learns_that_the_store_is_away(app: InTurn, fresh_redis: PrivateRedis) -> None:
    async with InTurn(fresh_redis.url) as holder, holder.lock("a"):
        waiting = asyncio.create_task(app.lock("a").acquire())
        await until_waiters(holder, "a", 1)
        fresh_redis.pause()
        try:
            with pytest.raises(StoreUnavailable):
                await asyncio.wait_for(waiting, 30)
        finally:
            fresh_redis.resume()


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
        async with InTurn(server.url) as app, InTurn(server.url) as other:
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
    app: InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    async with app.lock("a", ttl=60):
        link = app.process.store._link()  # type: ignore[attr-defined]
        began_at = clock.now()
        await link.ask("CONFIG", "SET", "min-replicas-to-write", "1")

        async def has_failed_often() -> bool:
            return caplog.text.count("beat failed") >= 4

        await until(has_failed_often, 20)
        await link.ask("CONFIG", "SET", "min-replicas-to-write", "0")
        assert clock.now() - began_at > 1, "there is a pause of half a second after each"
