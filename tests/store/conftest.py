"""A world for each test, once on every kind of store; and stores on a SQLite file of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.store.sqlite.opener import Opener
from tests.store.world import Peer, World


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


@pytest.fixture
async def open_peer(sqlite_url: str) -> AsyncIterator[Opener]:
    opener = Opener(sqlite_url)
    yield opener
    for peer in opener.peers:
        await peer.store.close()
