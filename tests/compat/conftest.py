"""Managers over every source, by the `maker` of the test's module, and a foreign client beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.foreign import ForeignClient
from tests.compat.sources import ASYNC, ON_REDIS, SYNC, Maker
from tests.servers import PrivateRedis


@pytest.fixture(params=SYNC + ASYNC)
def managers(request: pytest.FixtureRequest, maker: Maker[Any], redis_url: str) -> tuple[Any, Any]:
    """Two managers of one kind, on one store."""
    return maker.manager(request.param, redis_url), maker.manager(request.param, redis_url)


@pytest.fixture(params=ON_REDIS)
def on_redis(request: pytest.FixtureRequest, maker: Maker[Any], redis_url: str) -> Any:
    return maker.manager(request.param, redis_url)


@pytest.fixture
def foreign(redis_server: PrivateRedis) -> Iterator[ForeignClient]:
    with ForeignClient(redis_server.port) as client:
        yield client
