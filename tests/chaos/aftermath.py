"""After the faults: every name can be had again within the ttl and a few seconds, and nothing is left in the store."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import redis

from inturn import InTurn
from inturn.errors import LockTimeout
from inturn.locks.lock import Lock
from tests.chaos.checker import Violation
from tests.chaos.history import now
from tests.chaos.load import Load
from tests.redis_keys import AT_A_TIME

A_FEW_SECONDS = 4.0


def _lock(app: InTurn, load: Load, name: str, wait_s: float) -> Lock:
    capacity = dict(load.names)[name]
    if capacity == 1:
        return app.lock(name, load.ttl_s, wait_s)
    return app.semaphore(name, capacity, load.ttl_s, wait_s)


async def stuck_names(app: InTurn, load: Load) -> list[Violation]:
    """While the workers rest but beat: whoever still holds something keeps it for good."""

    async def probe(name: str) -> Violation | None:
        wait_s = load.ttl_s + A_FEW_SECONDS
        try:
            async with _lock(app, load, name, wait_s):
                return None
        except LockTimeout as late:
            return Violation("stuck", name, f"{late}; {await app.locks.inspect(name)}")

    found = await asyncio.gather(*(probe(name) for name, _ in load.names))
    return [violation for violation in found if violation is not None]


async def what_is_left(app: InTurn, load: Load) -> list[Violation]:
    """Once every worker has gone: no holders, no waiters, no keys or rows."""
    deadline = now() + load.ttl_s + A_FEW_SECONDS
    while True:
        # a lock that only dead processes use is looked at when somebody asks for it
        for name, _ in load.names:
            lock = _lock(app, load, name, 0.0)
            if await lock.acquire():
                await lock.release()
        await app.locks.list()
        left = leftovers(load)
        if not left:
            return []
        if now() > deadline:
            return [Violation("stuck", "store", f"left behind: {', '.join(left)}")]
        await asyncio.sleep(0.1)


def leftovers(load: Load) -> list[str]:
    """Keys or rows that a store without holders and waiters must not have."""
    if load.url.startswith("sqlite:"):
        with closing(sqlite3.connect(load.file)) as db:
            return [f"{table}{row}" for table in ("grants", "places") for row in db.execute(f"SELECT * FROM {table}")]
    kinds = ("lock:", "queue:", "places:", "names", "waits")
    with redis.Redis.from_url(load.url, decode_responses=True) as client:
        keys = [str(key) for key in client.scan_iter(f"{load.namespace}:*", count=AT_A_TIME)]
    return [key for key in keys if key.partition("}:")[2].startswith(kinds)]
