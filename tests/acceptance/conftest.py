"""Processes of a test's own, apps whose stores are open, and a bad network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from inturn import InTurn
from inturn.settings import Settings
from tests.acceptance.looks import PATIENT
from tests.acceptance.processes import Processes
from tests.chaos.proxy import Proxy
from tests.servers import PrivateRedis

FAR_TIMEOUT_S = 5.0


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.end()


@pytest.fixture
async def app(store_url: str, namespace: str) -> AsyncIterator[InTurn]:
    async with InTurn(store_url, namespace=namespace, settings=PATIENT) as opened:
        yield opened


@pytest.fixture
async def other(store_url: str, namespace: str) -> AsyncIterator[InTurn]:
    async with InTurn(store_url, namespace=namespace, settings=PATIENT) as opened:
        yield opened


@pytest.fixture
async def proxy(redis_server: PrivateRedis) -> AsyncIterator[Proxy]:
    async with Proxy(redis_server.port) as made:
        yield made


@pytest.fixture
async def far(proxy: Proxy, namespace: str) -> AsyncIterator[InTurn]:
    """An app behind the bad network."""
    async with InTurn(proxy.url, namespace=namespace, settings=Settings(store_timeout=FAR_TIMEOUT_S)) as app:
        yield app


@pytest.fixture
async def patient(proxy: Proxy, namespace: str) -> AsyncIterator[InTurn]:
    """Another one there."""
    async with InTurn(proxy.url, namespace=namespace, settings=PATIENT) as app:
        yield app


@pytest.fixture
async def near(redis_url: str, namespace: str) -> AsyncIterator[InTurn]:
    async with InTurn(redis_url, namespace=namespace, settings=PATIENT) as app:
        yield app
