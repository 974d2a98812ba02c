"""redis-py's `Lock`, and the same code on inturn: acquire, release, extend, locked and owned keep their names.

What changes: waiters are served in the order in which they came, and are woken instead of polling; the lease is renewed
while its holder lives; and a holder that lost it is cancelled instead of writing on.

    python examples/redis_lock_replaced.py redis://localhost:6379/0      (needs: pip install 'inturn[redis]')
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import redis
from redis.asyncio import Redis

from inturn import InTurn

WAITERS = 5
NAME = "example:repo:acme/site"


async def before(url: str) -> None:
    async with Redis.from_url(url) as client:
        lock = client.lock(NAME, timeout=30, blocking_timeout=10)
        await one_holder(lock)
        await in_line("redis-py", lambda: client.lock(NAME, timeout=30, blocking_timeout=10))


async def after(url: str) -> None:
    async with InTurn(url) as app:
        lock = app.lock(NAME, ttl=30, wait=10)
        await one_holder(lock)
        await in_line("inturn", lambda: app.lock(NAME, ttl=30, wait=10))


async def one_holder(lock: Any) -> None:
    """The code of a service. It does not know which lock it got."""
    if not await lock.acquire(blocking=False):
        raise SystemExit(f"someone else holds {NAME}")
    try:
        await lock.extend(60)
        assert await lock.locked()
        assert await lock.owned()
    finally:
        await lock.release()


async def in_line(side: str, make: Callable[[], Any]) -> None:
    """Waiters arrive one after the other while the lock is held. In which order, and how soon, do they get it?"""
    served: list[int] = []

    async def wait(number: int) -> None:
        async with make():
            served.append(number)

    async with asyncio.TaskGroup() as waiting, make():
        for number in range(WAITERS):
            waiting.create_task(wait(number))
            await asyncio.sleep(0.02)
        released_at = time.perf_counter()
    millis = (time.perf_counter() - released_at) * 1000
    print(f"{side}: served in the order {served}, all of them within {millis:.0f} ms", flush=True)


async def main(url: str) -> None:
    await before(url)
    await after(url)


if __name__ == "__main__":
    url = sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379/0"
    try:
        asyncio.run(main(url))
    except redis.ConnectionError as error:
        raise SystemExit(f"no Redis at {url}: {error}") from None
