"""The AI service over each way in which jobs travel: through the store, on SQLite and Redis, and through RabbitMQ."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.jobs.world import World, world

Open = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(params=["sqlite", "redis", "rabbitmq"])
def opened(request: pytest.FixtureRequest, namespace: str) -> Open:
    """Opens a world. The test gives settings by name."""
    return by(request, namespace, request.param)


@pytest.fixture(params=["sqlite", "rabbitmq"])
def opened_either(request: pytest.FixtureRequest, namespace: str) -> Open:
    """The same, for what does not differ between stores."""
    return by(request, namespace, request.param)


def by(request: pytest.FixtureRequest, namespace: str, way: str) -> Open:
    store = "sqlite" if way == "sqlite" else "redis"
    given: dict[str, Any] = {"url": request.getfixturevalue(f"{store}_url"), "namespace": namespace}
    if way == "rabbitmq":
        given["rabbitmq_url"] = request.getfixturevalue("rabbitmq_url")

    def open_it(**more: Any) -> AbstractAsyncContextManager[World]:
        return world(**given, **more)

    return open_it


@pytest.fixture
async def here(opened: Open) -> AsyncIterator[World]:
    async with opened() as made:
        yield made


@pytest.fixture
async def embedded(sqlite_url: str, namespace: str) -> AsyncIterator[World]:
    async with world(sqlite_url, namespace) as made:
        yield made
