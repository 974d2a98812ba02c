"""The lock that people copy from a blog, for comparison: a key with a short life, polled for, never renewed, no fence.

It runs in the same harness under the same faults, to show that the checker finds what is wrong with it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import sqlite3
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

import redis.asyncio
from redis.exceptions import RedisError

from inturn.errors import LeaseLost, LockTimeout, StoreUnavailable
from inturn.store import clock
from tests.chaos.load import Load

POLL_S = 0.02
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end"


class Keys(Protocol):
    """Compare-and-set keys with a life."""

    async def set_if_absent(self, key: str, value: str, life_s: float) -> bool: ...
    async def delete_if_equal(self, key: str, value: str) -> bool: ...
    async def get(self, key: str) -> str | None: ...
    async def close(self) -> None: ...


class RedisKeys:
    def __init__(self, url: str) -> None:
        self._redis = redis.asyncio.Redis.from_url(url, socket_timeout=2.0, decode_responses=True)

    async def set_if_absent(self, key: str, value: str, life_s: float) -> bool:
        return bool(await self._redis.set(key, value, nx=True, px=round(life_s * 1000)))

    async def delete_if_equal(self, key: str, value: str) -> bool:
        return bool(await self._redis.eval(RELEASE, 1, key, value))

    async def get(self, key: str) -> str | None:
        found = await self._redis.get(key)
        return None if found is None else str(found)

    async def close(self) -> None:
        await self._redis.aclose()


class SqliteKeys:
    def __init__(self, file: str) -> None:
        self._db = sqlite3.connect(file, isolation_level=None, timeout=2.0)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, value TEXT, until REAL)")

    async def set_if_absent(self, key: str, value: str, life_s: float) -> bool:
        until = clock.now() + life_s
        sql = (
            "INSERT INTO keys VALUES (?1, ?2, ?3) "
            "ON CONFLICT (key) DO UPDATE SET value = ?2, until = ?3 WHERE until < ?4"
        )
        return self._db.execute(sql, (key, value, until, clock.now())).rowcount == 1

    async def delete_if_equal(self, key: str, value: str) -> bool:
        return self._db.execute("DELETE FROM keys WHERE key = ? AND value = ?", (key, value)).rowcount == 1

    async def get(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM keys WHERE key = ? AND until > ?", (key, clock.now())).fetchone()
        return None if row is None else str(row[0])

    async def close(self) -> None:
        self._db.close()


def open_keys(load: Load) -> Keys:
    return SqliteKeys(load.file) if load.url.startswith("sqlite:") else RedisKeys(load.url)


def pid_of(value: str) -> int:
    return int(value.partition(":")[0])


class NaiveLock:
    """`async with` it, as with ours. Its fence is a counter of this process, as far as a blog has one at all."""

    arrival = 0
    lost = False

    def __init__(
        self, keys: Keys, fence: Callable[[], int], name: str, slots: int, ttl_s: float, wait_s: float | None
    ) -> None:
        self._keys = keys
        self._new_fence = fence
        self._name = name
        self._slots = [f"{name}:{slot}" for slot in range(slots)]
        self._ttl_s = ttl_s
        self._wait_s = wait_s
        self._value = f"{os.getpid()}:{secrets.token_hex(8)}"
        self._key = ""
        self.fence = 0

    async def __aenter__(self) -> NaiveLock:
        began = clock.now()
        try:
            for key in itertools.cycle(self._slots):
                if await self._keys.set_if_absent(key, self._value, self._ttl_s):
                    self._key = key
                    self.fence = self._new_fence()
                    return self
                if self._wait_s is not None and clock.now() - began > self._wait_s:
                    raise LockTimeout(self._name, clock.now() - began)
                await asyncio.sleep(POLL_S)
        except (RedisError, sqlite3.Error) as error:
            raise StoreUnavailable(str(error)) from error
        raise AssertionError("a cycle does not end")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not await self._keys.delete_if_equal(self._key, self._value):
                raise LeaseLost(self._name, self.fence, "its time was up")
        except (RedisError, sqlite3.Error) as failure:
            raise StoreUnavailable(str(failure)) from failure
