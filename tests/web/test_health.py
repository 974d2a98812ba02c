"""Whether the process is alive and ready, and who is told what is wrong with its store."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from inturn.store import clock
from inturn.store.protocol import Acquired, Request
from inturn.store.redis.store import RedisStore
from inturn.web import health
from tests.http.site import ADA_KEY, KEYS, Site, opened
from tests.servers import PrivateRedis
from tests.waiting import until


async def test_it_says_that_it_lives_and_is_ready(site: Site) -> None:
    assert (await site.client.get("/healthz")).json() == {"status": "ok"}
    assert (await site.client.get("/readyz")).json() == {"status": "ready", "store": "ok"}
    for path in ("/healthz", "/readyz"):
        assert (await site.client.head(path)).status_code == 200


async def test_where_the_store_is_is_told_only_to_callers_who_are_known(
    fresh_redis: PrivateRedis, namespace: str
) -> None:
    fresh_redis.kill()
    address = str(urlsplit(fresh_redis.url).port or urlsplit(fresh_redis.url).path)
    async with opened(fresh_redis.url, namespace, store_timeout=0.5, api_keys=KEYS) as site:
        for headers in ({}, {"authorization": "Bearer nobody-0123456789"}):
            answer = await site.client.get("/readyz", headers=headers)
            assert (answer.status_code, answer.json()) == (503, {"status": "unready", "store": "not responding"})
        told = await site.client.get("/readyz", headers={"authorization": f"Bearer {ADA_KEY}"})
        assert told.status_code == 503
        assert address in told.json()["store"]
    async with opened(fresh_redis.url, namespace, store_timeout=0.5) as site:
        assert address in (await site.client.get("/readyz")).json()["store"]


async def readiness(site: Site) -> tuple[int, str]:
    answer = await site.client.get("/readyz")
    return answer.status_code, answer.json()["store"]


async def test_a_redis_that_can_only_be_read_is_not_ready(fresh_redis: PrivateRedis, namespace: str) -> None:
    async with opened(fresh_redis.url, namespace) as site:
        assert await readiness(site) == (200, "ok")
        store = site.turns.process.store
        assert isinstance(store, RedisStore)
        await store._link().ask("CONFIG", "SET", "min-replicas-to-write", "1")

        async def refuses() -> bool:
            status, why = await readiness(site)
            return status == 503 and "NOREPLICAS" in why

        await until(refuses)
        await store._link().ask("CONFIG", "SET", "min-replicas-to-write", "0")
        await until(lambda: _is_ready(site))


async def test_an_sqlite_that_can_only_be_read_is_not_ready(sqlite_url: str) -> None:
    async with opened(f"{sqlite_url}?log_mib=1", "inturn") as site:
        assert await readiness(site) == (200, "ok")
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM store").fetchone()

            async def refuses() -> bool:
                await asyncio.gather(*(site.start() for _ in range(16)), return_exceptions=True)
                status, why = await readiness(site)
                return status == 503 and "over its limit of 1 MiB" in why

            await until(refuses)
        await until(lambda: _is_ready(site))


async def _is_ready(site: Site) -> bool:
    return await readiness(site) == (200, "ok")


async def test_many_who_ask_cost_the_store_one_write(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked = site.turns.process.store, []
    acquire = store.acquire

    async def counted(request: Request) -> Acquired:
        asked.append(request)
        return await acquire(request)

    monkeypatch.setattr(store, "acquire", counted)
    began_at = clock.now()
    answers = await asyncio.gather(*(site.client.get("/readyz") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(asked) <= 1 + (clock.now() - began_at) / health.FRESH_S
