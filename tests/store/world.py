"""One database and the processes that use it, driven by a test: two stores are two processes.

Time passes by the clock that the store reads: SQLite's is moved, Redis's is waited for.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from typing import Any

import redis.asyncio

from inturn.store.open import open_store
from inturn.store.protocol import Acquired, Notice, Released, Request, Store
from inturn.store.sqlite.address import Address
from inturn.store.sqlite.store import SqliteStore
from inturn.store.sqlite.transaction import wall_us

TTL_MS = 30_000


class Peer:
    """A process at the store. What it is told is kept in `notices`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.notices: list[Notice] = []
        self._numbers = 0
        store.listen(self.notices.append, lambda: None)

    def ask(
        self,
        name: str,
        *,
        owner: str = "",
        capacity: int = 1,
        weight: int = 1,
        ttl_ms: int = TTL_MS,
        life_ms: int = 0,
        priority: int = 0,
        wait: bool = True,
    ) -> Request:
        self._numbers += 1
        token = f"{self.store.process}#{self._numbers}"
        return Request(name, token, owner or token, capacity, weight, ttl_ms, life_ms, priority, wait)

    async def acquire(self, request: Request) -> Acquired:
        return await self.store.acquire(request)

    async def release(self, request: Request) -> Released:
        return await self.store.release(request.name, request.token)

    async def hold(self, name: str, **how: Any) -> Request:
        request = self.ask(name, **how)
        answer = await self.store.acquire(request)
        assert answer.status == "granted", answer
        return request

    async def hold_many(self, number: int) -> None:
        """Other locks, whose names come first."""
        await asyncio.gather(*(self.hold(f"another {n}") for n in range(number)))

    async def wait_for(self, name: str, **how: Any) -> Request:
        request = self.ask(name, **how)
        answer = await self.store.acquire(request)
        assert answer.status == "waiting", answer
        return request

    async def beat(self, *noted: Notice) -> list[Notice]:
        return (await self.store.beat(0, noted)).notices

    def told(self, kind: str, request: Request) -> list[Notice]:
        return [notice for notice in self.notices if (notice.kind, notice.token) == (kind, request.token)]


class World:
    def __init__(self, url: str, namespace: str) -> None:
        self.url = url
        self.namespace = namespace
        self.is_sqlite = url.startswith("sqlite:")
        self._ahead_us = 0
        self._peers: list[Peer] = []

    async def peer(self) -> Peer:
        """A new process."""
        process = f"host:{os.getpid()}:{len(self._peers):04x}"
        store: Store
        if self.is_sqlite:
            store = SqliteStore(self.url, process, namespace=self.namespace, wall=lambda: wall_us() + self._ahead_us)
        else:
            store = open_store(self.url, process, namespace=self.namespace)
        peer = Peer(store)
        self._peers.append(peer)
        await store.check()
        return peer

    async def pass_time(self, ms: int) -> None:
        if self.is_sqlite:
            self._ahead_us += ms * 1000
        else:
            await asyncio.sleep(ms / 1000)

    async def left_behind(self) -> set[str]:
        """What is in the database beside its one counter, and where that began."""
        if self.is_sqlite:
            path = str(Address.from_url(self.url, self.namespace))
            connection = sqlite3.connect(path)
            tables = ("processes", "grants", "places", "inbox", "lost")
            found = {f"{table}: {row}" for table in tables for row in connection.execute(f"SELECT * FROM {table}")}
            connection.close()
            return found
        async with redis.asyncio.Redis.from_url(self.url) as client:
            keys = {key.decode() async for key in client.scan_iter(f"{self.namespace}:*")}
        return keys - {f"{self.namespace}:{{0}}:fence", f"{self.namespace}:{{0}}:era"}

    async def close(self) -> None:
        for peer in self._peers:
            await peer.store.close()


async def until(is_so: Callable[[], object], within_s: float = 5.0) -> None:
    """Wait for what another thread or process does; a failure, not a hang, if it does not."""
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.002)
