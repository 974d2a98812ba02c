"""A failed test of lanes shows what the lanes said; a plain key for those that share one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from tests.lanes.plain_key import Plain, plain_key


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "inturn.lanes")


@pytest.fixture
async def plain(redis_url: str, namespace: str) -> AsyncIterator[Plain]:
    async with plain_key(redis_url, f"ai:lock:visitor:{namespace}") as plain:
        yield plain
