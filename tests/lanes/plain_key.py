"""A service that knows of inturn nothing but a plain key, and the handler whose turns share that key."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from inturn import InTurn, Turn
from inturn.store import clock
from tests.conftest import PATIENT_S
from tests.lanes.workbench import Gate
from tests.waiting import until

on_redis = pytest.mark.parametrize("store_url", ["redis"], indirect=True)
"""Plain keys are a matter of Redis."""
SOON_S = 0.3
"""How soon a plain key that was given back is noticed."""
TTL_S = 10.0
"""Longer than a busy machine lets a process wait for its turn."""
DROP = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Plain:
    """A service that knows of inturn nothing but the key: `SET key id NX PX`, and compare-and-delete."""

    def __init__(self, client: Any, key: str) -> None:
        self._client = client
        self.key = key

    async def take(self, life_ms: int = 30_000) -> str | None:
        lock_id = secrets.token_hex(8)
        return lock_id if await self._client.set(self.key, lock_id, nx=True, px=life_ms) else None

    async def drop(self, lock_id: str) -> bool:
        return bool(await self._client.eval(DROP, 1, self.key, lock_id))

    async def steal(self, life_ms: int = 30_000) -> str:
        lock_id = secrets.token_hex(8)
        await self._client.set(self.key, lock_id, px=life_ms)
        return lock_id

    async def delete(self) -> None:
        await self._client.delete(self.key)

    async def holder(self) -> str | None:
        value = await self._client.get(self.key)
        return None if value is None else value.decode()

    async def life_ms(self) -> int:
        return int(await self._client.pttl(self.key))


@contextlib.asynccontextmanager
async def plain_key(redis_url: str, key: str) -> AsyncIterator[Plain]:
    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        plain = Plain(client, key)
        yield plain
        await plain.delete()


def add(app: InTurn, plain: Plain, gate: Gate | None = None, **options: Any) -> None:
    options = {"ttl": TTL_S, "state": list, "backoff": (0, 0), **options}

    @app.handler("h", key="visitor:{uid}", shares="ai:lock:visitor:{uid}", **options)
    async def h(turn: Turn[list[Any]]) -> float:
        began_at = clock.now()
        assert await plain.take() is None, "while our turn runs, nobody else gets it"
        turn.state.append(turn.body.get("n", 0))
        if gate is not None:
            await gate.pass_through()
        if turn.body.get("fails"):
            raise ValueError("no")
        return began_at


def body(plain: Plain, **more: Any) -> dict[str, Any]:
    return {"uid": plain.key.rpartition(":")[2], **more}


async def until_free(plain: Plain, within_s: float = 5.0) -> None:
    async def is_free() -> bool:
        return await plain.holder() is None

    await until(is_free, within_s)
