"""Keys that vanish from under us (eviction that was allowed, a hand at the server) end waits, not the heartbeat."""

from __future__ import annotations

import asyncio

from inturn import InTurn
from tests.locks.conftest import until_waiting


async def test_who_waits_for_a_lock_that_vanished_asks_again(redis_url: str, namespace: str) -> None:
    async with InTurn(redis_url, namespace=namespace) as app, InTurn(redis_url, namespace=namespace) as other:
        await app.lock("a").acquire()
        waiting = asyncio.create_task(other.lock("a").take())
        await until_waiting(app, "a", 1)
        link = app.process.store._link()  # type: ignore[attr-defined]
        assert await link.ask("DEL", f"{namespace}:{{0}}:lock:a") == 1
        lease = await asyncio.wait_for(waiting, 10)
        assert not lease.lost
        await lease.release()
