"""Three and five independent servers, and quorums of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from inturn.locks.quorum import Quorum
from tests.locks.quorum.world import MakeQuorum
from tests.servers import PrivateRedis


@pytest.fixture
def servers() -> Iterator[list[PrivateRedis]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(PrivateRedis()) for _ in range(3)]


@pytest.fixture
def five_servers() -> Iterator[list[PrivateRedis]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(PrivateRedis()) for _ in range(5)]


@pytest.fixture
async def make_quorum() -> AsyncIterator[MakeQuorum]:
    made: list[Quorum] = []

    def make(servers: list[PrivateRedis], **options: Any) -> Quorum:
        # longer than the usual half second: a test that gets the processor late must not take a server for absent
        made.append(Quorum([server.url for server in servers], **{"timeout": 8, **options}))
        return made[-1]

    yield make
    for quorum in made:
        quorum._store._servers._timeout_s = 0.5  # it is not for a server that the test has killed that we wait here
        await quorum.close()


@pytest.fixture
async def quorum(make_quorum: MakeQuorum, servers: list[PrivateRedis]) -> Quorum:
    return make_quorum(servers)


@pytest.fixture
async def other(make_quorum: MakeQuorum, servers: list[PrivateRedis]) -> Quorum:
    return make_quorum(servers)
