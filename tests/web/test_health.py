"""Whether the process is alive and ready, and who is told what is wrong with its store."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.http.site import ADA_KEY, KEYS, Site, opened
from tests.servers import PrivateRedis


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
