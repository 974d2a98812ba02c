"""Apps on both stores. Two apps are two processes as far as the store can tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from inturn import InTurn
from inturn.locks.admin import LockInfo
from inturn.store import clock

MakeApp = Callable[[], InTurn]


@pytest.fixture
async def make_app(store_url: str, namespace: str) -> AsyncIterator[MakeApp]:
    apps: list[InTurn] = []

    def make() -> InTurn:
        apps.append(InTurn(store_url, namespace=namespace))
        return apps[-1]

    yield make
    for app in apps:
        await app.close()


@pytest.fixture
async def app(make_app: MakeApp) -> InTurn:
    return make_app()


@pytest.fixture
async def other(make_app: MakeApp) -> InTurn:
    return make_app()


async def until(check: Callable[[], Awaitable[bool]], within_s: float = 5.0) -> None:
    """Poll until it is so."""
    ends_at = clock.now() + within_s
    while not await check():
        assert clock.now() < ends_at, "it did not come true in time"
        await asyncio.sleep(0.005)


async def waiters(app: InTurn, name: str) -> int:
    info = await app.locks.inspect(name)
    return 0 if info is None else len(info.waiters)


async def until_waiting(app: InTurn, name: str, count: int) -> LockInfo:
    async def enough() -> bool:
        return await waiters(app, name) == count

    await until(enough)
    info = await app.locks.inspect(name)
    assert info is not None
    return info


async def until_free(app: InTurn, name: str, within_s: float = 5.0) -> None:
    async def free() -> bool:
        return await app.locks.inspect(name) is None

    await until(free, within_s)
