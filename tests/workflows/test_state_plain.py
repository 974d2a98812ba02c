"""The plain layout `wf:{conversation_id}` of other services: read with care, renewed by every set."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis.asyncio

from inturn.errors import StateMismatch, StoreUnavailable
from inturn.workflows import RedisWorkflowStateStore
from tests.servers import PrivateRedis
from tests.workflows.conftest import state_of


async def test_a_state_is_kept_as_json_under_its_name_for_a_day(
    plain: RedisWorkflowStateStore, client: redis.asyncio.Redis, namespace: str
) -> None:
    state = state_of(namespace, collected_data={"name": "Ada"})
    assert await plain.get(namespace) is None
    await plain.set(namespace, state)
    assert json.loads(await client.get(f"wf:{namespace}") or b"") == state.model_dump()
    assert 86_390 <= await client.ttl(f"wf:{namespace}") <= 86_400
    assert await plain.get(namespace) == state
    await plain.delete(namespace)
    assert await client.exists(f"wf:{namespace}") == 0
    await plain.delete(namespace)


async def test_every_set_renews_the_life_and_a_get_does_not(client: redis.asyncio.Redis, namespace: str) -> None:
    plain = RedisWorkflowStateStore(client, ttl_seconds=1000)
    await plain.set(namespace, state_of(namespace))
    await client.expire(f"wf:{namespace}", 10)
    await plain.get(namespace)
    assert await client.ttl(f"wf:{namespace}") <= 10
    await plain.set(namespace, state_of(namespace))
    assert 990 <= await client.ttl(f"wf:{namespace}") <= 1000


GARBAGE = [b"", b"garbage", b"{}", b"[]", b"null", b"\xff\xfe", b'{"conversation_id": 7}']


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_is_not_read_as_a_state(
    plain: RedisWorkflowStateStore, client: redis.asyncio.Redis, namespace: str, garbage: bytes
) -> None:
    await client.set(f"wf:{namespace}", garbage)
    with pytest.raises(StateMismatch, match=f"wf:{namespace}"):
        await plain.get(namespace)
    wrong = {**state_of(namespace).model_dump(), "turn_count": -1}
    await client.set(f"wf:{namespace}", json.dumps(wrong))
    with pytest.raises(StateMismatch, match="turn_count"):
        await plain.get(namespace)


async def test_the_state_of_another_conversation_is_none_of_this_one(
    plain: RedisWorkflowStateStore, client: redis.asyncio.Redis, namespace: str
) -> None:
    await client.set(f"wf:{namespace}", state_of("another").model_dump_json())
    with pytest.raises(StateMismatch, match="conversation_id"):
        await plain.get(namespace)


async def test_a_redis_that_is_away_is_the_store_that_is_away(fresh_redis: PrivateRedis, namespace: str) -> None:
    async with redis.asyncio.Redis.from_url(fresh_redis.url) as client:
        plain = RedisWorkflowStateStore(client)
        await plain.set(namespace, state_of(namespace))
        fresh_redis.kill()
        for call in (plain.get(namespace), plain.set(namespace, state_of(namespace)), plain.delete(namespace)):
            with pytest.raises(StoreUnavailable):
                await call


@pytest.mark.parametrize("life", [0, -1, float("nan"), float("inf")])
def test_a_life_that_is_none_is_refused(client: Any, life: float) -> None:
    with pytest.raises(ValueError, match="ttl_seconds"):
        RedisWorkflowStateStore(client, life)
