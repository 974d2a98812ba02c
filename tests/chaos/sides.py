"""The two locks behind one face, so that the load and the faults are the same for both."""

from __future__ import annotations

import itertools
import os
import sqlite3
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Protocol

from redis.exceptions import RedisError

from inturn import InTurn
from inturn.errors import LockTimeout, StoreUnavailable
from inturn.locks.lock import Lock
from inturn.settings import Settings
from tests.chaos.load import Load
from tests.chaos.naive import NaiveLock, open_keys, pid_of


class Held(Protocol):
    @property
    def fence(self) -> int: ...
    @property
    def arrival(self) -> int: ...
    @property
    def lost(self) -> bool: ...


class Side(Protocol):
    def lock(
        self, name: str, capacity: int, priority: int, wait_s: float | None
    ) -> AbstractAsyncContextManager[Held]: ...

    async def holder_pid(self, name: str) -> int | None:
        """The process that holds the name now, as the store says."""
        ...

    def kept_alive(self) -> AbstractAsyncContextManager[object]:
        """Something held, so that the process goes on beating for whatever else it has in the store."""
        ...

    async def close(self) -> None: ...


class InTurnSide:
    def __init__(self, load: Load) -> None:
        settings = Settings(store_timeout=load.store_timeout_s)
        self.app = InTurn(load.url, namespace=load.namespace, settings=settings)
        self._ttl_s = load.ttl_s
        self._turns = itertools.count()

    def lock(self, name: str, capacity: int, priority: int, wait_s: float | None) -> AbstractAsyncContextManager[Held]:
        if capacity == 1:
            lock = self.app.lock(name, self._ttl_s, wait_s, priority)
        else:
            lock = self.app.semaphore(name, capacity, self._ttl_s, wait_s, priority)
        return Bare(lock) if next(self._turns) % 4 == 0 else lock

    async def holder_pid(self, name: str) -> int | None:
        view = await self.app.locks.inspect(name)
        return view.holders[0].pid if view is not None and view.holders else None

    def kept_alive(self) -> AbstractAsyncContextManager[object]:
        return self.app.lock(f"alive:{os.getpid()}", self._ttl_s)

    async def close(self) -> None:
        await self.app.close()


class Bare:
    """`acquire` and `release` by hand: the body is not cancelled, it has to look at `lost`."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    async def __aenter__(self) -> Held:
        if not await self._lock.acquire():
            raise LockTimeout(self._lock.name, 0.0)
        return self._lock.lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lock.release()


class NaiveSide:
    def __init__(self, load: Load) -> None:
        self._keys = open_keys(load)
        self._ttl_s = load.ttl_s
        self._prefix = f"{load.namespace}:"
        self._fences = itertools.count(1)

    def lock(self, name: str, capacity: int, priority: int, wait_s: float | None) -> AbstractAsyncContextManager[Held]:
        return NaiveLock(self._keys, lambda: next(self._fences), self._prefix + name, capacity, self._ttl_s, wait_s)

    async def holder_pid(self, name: str) -> int | None:
        try:
            value = await self._keys.get(f"{self._prefix}{name}:0")
        except (RedisError, sqlite3.Error) as error:
            raise StoreUnavailable(str(error)) from error
        return None if value is None else pid_of(value)

    def kept_alive(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def close(self) -> None:
        await self._keys.close()


def open_side(load: Load) -> Side:
    return InTurnSide(load) if load.lock == "inturn" else NaiveSide(load)
