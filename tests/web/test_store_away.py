"""The store goes away: nothing runs unguarded, and nothing is answered that was not kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from inturn.services import PrivateRedis
from inturn.web import IdempotencyMiddleware
from inturn.http.asgi import Receive, Scope, Send
from tests.web.conftest import MakeTurns
from tests.http.calls import Shop, ask, respond


@pytest.fixture
def durable_redis() -> Iterator[PrivateRedis]:
    with PrivateRedis(appendonly=True, extra=("--appendfsync", "always")) as server:
        yield server


async def test_without_its_store_nothing_runs(shop: Shop, make_turns: MakeTurns, fresh_redis: PrivateRedis) -> None:
    guarded = IdempotencyMiddleware(shop, make_turns(fresh_redis.url, store_timeout=1.5))
    assert (await ask(guarded, "k")).status == 201
    fresh_redis.kill()
    for key in ("k", "k2"):
        refused = await ask(guarded, key)
        assert (refused.status, refused.problem(), refused.header("retry-after")) == (503, "store-unavailable", "5")
    assert shop.runs == 1
    assert (await ask(guarded, None)).status == 201


async def test_a_response_is_not_sent_unless_it_is_known_to_be_kept(
    shop: Shop, make_turns: MakeTurns, durable_redis: PrivateRedis
) -> None:
    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        durable_redis.kill()
        await respond(send, b"charged")

    shop.does = work
    guarded = IdempotencyMiddleware(shop, make_turns(durable_redis.url, store_timeout=1.5), ttl=4)
    unknown = await ask(guarded, "k")
    assert (unknown.status, unknown.problem(), unknown.header("retry-after")) == (503, "outcome-unknown", "5")
    await asyncio.to_thread(durable_redis.start)
    shop.does = None
    async with asyncio.timeout(15):
        while (again := await ask(guarded, "k")).status != 201:
            assert again.status in (409, 503)
            await asyncio.sleep(0.02)
    assert again.body == b"run 2"
