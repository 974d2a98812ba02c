"""The whole app over both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.http.site import Site, opened


@pytest.fixture
async def site(store_url: str, namespace: str) -> AsyncIterator[Site]:
    async with opened(store_url, namespace) as made:
        yield made
