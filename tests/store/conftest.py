"""A world for each test, once on every kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.world import Peer, World

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On Redis time is the server's, and goes on while a test is kept waiting by others: leases of milliseconds end."""
    for item in items:
        if HERE in item.path.parents and "redis" in item.nodeid:
            item.add_marker("alone")


@pytest.fixture
async def world(store_url: str, namespace: str) -> AsyncIterator[World]:
    world = World(store_url, namespace)
    yield world
    await world.close()


@pytest.fixture
async def a(world: World) -> Peer:
    """A process."""
    return await world.peer()


@pytest.fixture
async def b(world: World, a: Peer) -> Peer:
    """Another process at the same database."""
    return await world.peer()
