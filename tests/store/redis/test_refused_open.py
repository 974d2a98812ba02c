"""An app whose store is refused, or away, when it is opened: nothing of it is left, and another try may succeed."""

from __future__ import annotations

import asyncio
import threading

import pytest
import redis

from inturn import InTurn, SettingsError, StoreUnavailable, sync
from inturn.settings import Settings
from tests.servers import PrivateRedis
from tests.store.redis.peers import admin
from tests.waiting import until, wait_until


def _clients(server: PrivateRedis) -> int:
    with admin(server) as owner:
        return len(owner.client_list()) - 1


REFUSALS = {
    "partitions": (["SET", "inturn:{0}:partitions", "7"], {}, "is divided into 7"),
    "eviction": (["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"], {}, "maxmemory-policy"),
    "password": (["CONFIG", "SET", "requirepass", "secret"], {}, "requires a password"),
    "not a cluster": (["PING"], {"scheme": "redis+cluster"}, "standalone server"),
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_an_open_that_is_refused_leaves_no_connection_and_no_task(fresh_redis: PrivateRedis, what: str) -> None:
    command, options, why = REFUSALS[what]
    with admin(fresh_redis) as owner:
        owner.execute_command(*command)
    before = asyncio.all_tasks()
    app = InTurn(fresh_redis.url.replace("redis", options.get("scheme", "redis"), 1))
    for _ in range(2):
        with pytest.raises(Exception, match=why):
            async with app:
                pytest.fail("it must not open")
    with pytest.raises(Exception, match=why):
        async with app.lock("n"):
            pytest.fail("nor must it lock")
    await until(lambda: asyncio.all_tasks() == before)
    if what != "password":  # then nobody may look
        await until(lambda: _clients(fresh_redis) == 0)
    await app.close()


async def test_callers_that_come_at_once_are_all_refused(fresh_redis: PrivateRedis, owner: redis.Redis) -> None:
    owner.config_set("maxmemory-policy", "allkeys-lru")
    app = InTurn(fresh_redis.url)
    answers = await asyncio.gather(*(app.open() for _ in range(20)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {SettingsError}
    owner.config_set("maxmemory-policy", "noeviction")
    async with app, app.lock("n"):
        pass


async def test_a_store_that_was_away_at_the_first_open_is_opened_by_the_next(fresh_redis: PrivateRedis) -> None:
    before = asyncio.all_tasks()
    app = InTurn(fresh_redis.url, settings=Settings(store_timeout=4))
    fresh_redis.kill()
    with pytest.raises(StoreUnavailable):
        await app.open()
    await until(lambda: asyncio.all_tasks() == before)
    fresh_redis.start()
    async with app, app.lock("n"):
        pass


def test_a_synchronous_app_that_is_refused_leaves_no_thread(fresh_redis: PrivateRedis, owner: redis.Redis) -> None:
    owner.config_set("maxmemory-policy", "allkeys-lru")
    before = set(threading.enumerate())
    with pytest.raises(SettingsError), sync.InTurn(fresh_redis.url):
        pytest.fail("it must not open")
    assert set(threading.enumerate()) == before
    wait_until(lambda: len(owner.client_list()) == 1)
