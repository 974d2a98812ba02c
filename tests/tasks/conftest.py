"""The Tasks service on each database, with the store that goes with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from inturn.database import Database
from tests.tasks.world import World, world

Open = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url, timeout_s=30)
    await made.migrate()
    yield made
    await made.close()


@pytest.fixture
def opened(sqlite_url: str, namespace: str, database_url: str) -> Open:
    """Opens a world. The test gives settings by name."""

    def open_it(**settings: Any) -> AbstractAsyncContextManager[World]:
        return world(sqlite_url, namespace, database_url, **settings)

    return open_it


@pytest.fixture
async def here(opened: Open) -> AsyncIterator[World]:
    async with opened() as made:
        yield made


@pytest.fixture
async def embedded(sqlite_url: str, namespace: str, tmp_path: Path) -> AsyncIterator[World]:
    """For what does not differ between databases."""
    async with world(sqlite_url, namespace, f"sqlite:///{tmp_path}/tasks.db") as made:
        yield made
