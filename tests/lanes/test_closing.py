"""Closing an app while a turn of it is being asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis

from inturn import InTurn, StoreUnavailable, Turn
from inturn.settings import Settings
from inturn.store import clock
from inturn.store.lane import Begun, Opening
from inturn.store.redis.keys import Keys
from tests.conftest import PATIENT_S, MakeApp
from tests.lanes.workbench import Gate, working
from tests.servers import PrivateRedis
from tests.waiting import until

TIMEOUT_S = 4.0


@pytest.mark.parametrize("is_held", [True, False], ids=["it waits", "it is granted"])
async def test_a_turn_whose_answer_comes_when_the_app_closes_does_not_wait_for_ever(
    make_app: MakeApp, other: InTurn, is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, gate = make_app(), Gate()
    await app.open()
    store = app.process.store
    begin = store.begin

    async def slow(opening: Opening) -> Begun:
        answer = await begin(opening)
        await gate.pass_through()
        return answer

    monkeypatch.setattr(store, "begin", slow)

    async def ask() -> None:
        async with app.turn("k"):
            raise AssertionError("it must not begin")

    async def scene() -> None:
        asking = asyncio.create_task(ask())
        await gate.reached.wait()
        closing = asyncio.create_task(app.close())
        await asyncio.sleep(0)
        gate.opened.set()
        with pytest.raises(StoreUnavailable, match="the app was closed"):
            async with asyncio.timeout(20):
                await asking
        await closing

    if is_held:
        async with other.turn("k"):
            await scene()
    else:
        await scene()
    async with other.turn("k", busy="reject"):
        pass


async def test_a_worker_ends_when_its_app_is_closed(make_app: MakeApp) -> None:
    app = make_app()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app) as worker:
        await (await app.submit("h", 1)).result(20)
        await app.close()
        done, _ = await asyncio.wait({worker}, timeout=10)
        assert done, "it goes on asking a store that was closed"


async def test_whoever_awaits_a_result_is_told_when_the_app_is_closed_and_the_store_stays_closed(
    make_app: MakeApp,
) -> None:
    app = make_app()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    receipt = await app.submit("h", None)  # no worker runs
    waiting = asyncio.create_task(receipt.result())
    await until(lambda: bool(app.process.registry.awaiting))
    await app.close()
    for told in (waiting, asyncio.create_task(receipt.result())):
        with pytest.raises(StoreUnavailable, match="the app was closed"):
            async with asyncio.timeout(20):
                await told


@pytest.mark.timed
@pytest.mark.parametrize("partitions", [1, 4])
async def test_closing_an_app_with_a_worker_takes_no_longer_than_the_stores_timeout_if_the_store_is_away(
    fresh_redis: PrivateRedis, partitions: int
) -> None:
    app = InTurn(fresh_redis.url, settings=Settings(store_timeout=TIMEOUT_S, partitions=partitions))

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    lock = app.lock("held")
    await lock.acquire()
    async with working(app) as worker:
        await until(lambda: bool(app.runtime.workers))
        fresh_redis.pause()
        began_at = clock.now()
        await app.close()
        took_s = clock.now() - began_at
        fresh_redis.resume()
        await worker
    assert took_s < 2 * TIMEOUT_S, "one timeout, and what a busy machine may add; each on its own would take three"


async def test_a_worker_that_could_not_sign_off_is_signed_off_when_the_store_is_back(fresh_redis: PrivateRedis) -> None:
    """It would be woken in place of workers that work, for as long as its process lives."""

    def workers() -> int:
        with redis.Redis.from_url(fresh_redis.url, socket_timeout=PATIENT_S) as client:
            return int(client.hlen(Keys("inturn", 0).workers))

    async with InTurn(fresh_redis.url, settings=Settings(store_timeout=TIMEOUT_S)) as app:

        @app.handler("h", key="k")
        async def h(turn: Turn[Any]) -> None: ...

        running = asyncio.create_task(app.run())
        await until(workers)
        fresh_redis.pause()
        for worker in list(app.runtime.workers):
            await worker.finish()
        await running
        fresh_redis.resume()
        await until(lambda: workers() == 0)
