"""Apps with lanes on both stores. Two apps are two processes as far as the store can tell."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest
from prometheus_client import REGISTRY

from inturn import InTurn
from inturn.lanes.admin import LaneInfo
from inturn.settings import Settings
from inturn.store import clock

MakeApp = Callable[..., InTurn]
T = TypeVar("T")


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    """A failed test shows what the lanes said."""
    caplog.set_level(logging.DEBUG, "inturn.lanes")


@pytest.fixture
async def make_app(store_url: str, namespace: str) -> AsyncIterator[MakeApp]:
    apps: list[InTurn] = []

    def make(**settings: Any) -> InTurn:
        apps.append(InTurn(store_url, namespace=namespace, settings=Settings(**settings)))
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


@contextlib.asynccontextmanager
async def working(app: InTurn, concurrency: int = 10, grace: float = 5) -> AsyncIterator[asyncio.Task[None]]:
    """A worker for as long as the block lasts. It must not end by itself, unless the block sees to that."""
    task = asyncio.create_task(app.run(concurrency, grace))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(check: Callable[[], Awaitable[object]], within_s: float = 5.0) -> None:
    """Poll until it is so."""
    ends_at = clock.now() + within_s
    while not await check():
        assert clock.now() < ends_at, "it did not come true in time"
        await asyncio.sleep(0.005)


async def until_status(app: InTurn, key: str, *statuses: str, within_s: float = 5.0) -> LaneInfo:
    ends_at = clock.now() + within_s
    while (info := await app.lanes.inspect(key)).status not in statuses:
        assert clock.now() < ends_at, f"the lane is still {info}"
        await asyncio.sleep(0.005)
    return info


async def until_waiting(app: InTurn, key: str, count: int, within_s: float = 5.0) -> LaneInfo:
    ends_at = clock.now() + within_s
    while (info := await app.lanes.inspect(key)).waiting != count:
        assert clock.now() < ends_at, f"not {count} wait, but {info.waiting}"
        await asyncio.sleep(0.005)
    return info


async def put(app: InTurn, key: str, state: Any, **options: Any) -> None:
    """Give a lane its state, by an inline turn."""
    async with app.turn(key, state=type(state), **options) as turn:
        turn.state = state


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def apart(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task as another request would be: what is made inside a turn belongs to that turn."""
    return asyncio.get_running_loop().create_task(work, context=contextvars.Context())


class Gate:
    """A handler waits here until the test opens it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        await self.opened.wait()
