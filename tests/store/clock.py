"""A clock for Redis that a test moves: time passes for one namespace, and only when the test says so.

The scripts are the real ones plus one step, which sets `now` from a key of the test's namespace. A call's deadline is
still held against the server's own clock. What Redis itself lets expire comes nearer by as much as the clock moves.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import cache
from typing import Any

import redis.asyncio

from inturn.store.redis.scripts import Script
from inturn.store.redis.store import RedisStore
from inturn.store.redis.wire import Wire

_READ = re.compile(r"^if now > tonumber\(ARGV\[.*?\]\) then return { 'stale' } end$", re.MULTILINE)
"""The last line of lua/include/clock.lua: from here on a script goes by `now`."""
_MOVED = """
local moved = redis.call('HMGET', ARGV[1] .. 'clock', 'stands_at', 'ahead')
now_us = tonumber(moved[1] or now_us + (moved[2] or 0))
now = math.floor(now_us / 1000)
"""
_BEGIN = """
local time = redis.call('TIME')
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'stands_at', string.format('%.0f', time[1] * 1000000 + time[2]))
end
"""
_FLOW = """
local time, stands_at = redis.call('TIME'), redis.call('HGET', KEYS[1], 'stands_at')
local ahead = stands_at and stands_at - time[1] * 1000000 - time[2] or 0
redis.call('HDEL', KEYS[1], 'stands_at')
redis.call('HSET', KEYS[1], 'ahead', string.format('%.0f', ahead))
"""
_PASS = """
for _, key in ipairs(redis.call('KEYS', '*' .. ARGV[1] .. '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[2]) end
end
local field = redis.call('HEXISTS', KEYS[1], 'stands_at') == 1 and 'stands_at' or 'ahead'
redis.call('HINCRBY', KEYS[1], field, ARGV[2] * 1000)
"""


@cache
def _with_moved_clock(script: Script) -> Script:
    source, count = _READ.subn(lambda line: line[0] + _MOVED, script.source.decode())
    assert count == 1, script.verb
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest().encode()
    return replace(script, source=source.encode(), sha=sha)


class _MovedWire(Wire):
    def call(self, script: Script, *arguments: Any, **named: Any) -> bytes:
        return super().call(_with_moved_clock(script), *arguments, **named)

    def whole_source(self, script: Script, *arguments: Any, **named: Any) -> bytes:
        return super().whole_source(_with_moved_clock(script), *arguments, **named)


class RedisClock:
    """The clock of one namespace. It stands still until `flow`."""

    def __init__(self, url: str, namespace: str) -> None:
        self._redis = redis.asyncio.Redis.from_url(url)
        self._namespace = namespace
        self.key = f"{namespace}:{{0}}:clock"

    async def set_on(self, store: RedisStore) -> None:
        """The store's calls see this clock."""
        await self._redis.eval(_BEGIN, 1, self.key)
        store._wire = _MovedWire()

    async def pass_time(self, ms: int) -> None:
        await self._redis.eval(_PASS, 1, self.key, self._namespace, ms)

    async def flow(self) -> None:
        """From here on it runs as the server's does."""
        await self._redis.eval(_FLOW, 1, self.key)

    async def close(self) -> None:
        await self._redis.aclose()
