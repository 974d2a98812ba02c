"""Processes of a test's own, apps whose stores are open, and a bad network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest

from inturn import InTurn
from inturn.settings import Settings
from tests.acceptance.jobs_books import Books, Desk
from tests.acceptance.looks import PATIENT
from tests.acceptance.processes import Processes
from tests.chaos.proxy import Proxy
from tests.jobs.world import world
from tests.servers import Broker, PrivateRedis

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


class Carrier(NamedTuple):
    """What carries jobs: a broker beside a store, or a store alone."""

    url: str
    rabbitmq_url: str | None = None
    broker: Broker | None = None
    vhost: str = ""


@pytest.fixture
def rabbitmq(redis_url: str, rabbitmq_url: str, broker: Broker, rabbitmq_vhost: str) -> Carrier:
    return Carrier(redis_url, rabbitmq_url, broker, rabbitmq_vhost)


@pytest.fixture(params=["rabbitmq", "redis", "sqlite"])
def carrier(request: pytest.FixtureRequest) -> Carrier:
    if request.param == "rabbitmq":
        found: Carrier = request.getfixturevalue("rabbitmq")
        return found
    return Carrier(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
async def books(carrier: Carrier, namespace: str, processes: Processes) -> AsyncIterator[Books]:
    """Of a server that only accepts jobs, once for everything that can carry them. The test hires the workers."""
    async with world(carrier.url, namespace, rabbitmq_url=carrier.rabbitmq_url, works=False) as made:
        made.provider.script = desk = Desk()
        yield Books(made, desk, processes, carrier.broker, carrier.vhost)
        processes.end()  # while there are still those whom they call


@pytest.fixture
async def rabbit_books(rabbitmq: Carrier, namespace: str, processes: Processes) -> AsyncIterator[Books]:
    """The same with a broker."""
    async with world(rabbitmq.url, namespace, rabbitmq_url=rabbitmq.rabbitmq_url, works=False) as made:
        made.provider.script = desk = Desk()
        yield Books(made, desk, processes, rabbitmq.broker, rabbitmq.vhost)
        processes.end()
