"""A file for each test, and the stores on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.store.sqlite.opener import Opener


@pytest.fixture
async def open_peer(sqlite_url: str) -> AsyncIterator[Opener]:
    opener = Opener(sqlite_url)
    yield opener
    for peer in opener.peers:
        await peer.store.close()
