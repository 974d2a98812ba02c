"""Real servers, private to the run: a test asks for a URL and isolates itself by its own namespace."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.services import MissingProgram, PrivateRedis
from inturn.services.find import find_redis
from inturn.settings import variables


def pytest_configure() -> None:
    """A developer's own servers and settings must not be touched, also not by processes that tests start."""
    read = {name for names in variables() for name in names}
    for name in list(os.environ):
        if name != "INTURN_REDIS_SERVER" and (name in read or name.startswith("INTURN_")):
            del os.environ[name]
    os.environ["INTURN_OFFLINE_PACE"] = "0"  # no test waits for words that are written slowly


def pytest_sessionstart() -> None:
    """Installing a server may take longer than a test may; a missing one fails the run."""
    try:
        find_redis()
    except MissingProgram as missing:
        pytest.exit(str(missing), returncode=1)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[PrivateRedis]:
    """One Redis for the whole run. It is shared: nobody flushes, kills or pauses it."""
    with PrivateRedis() as server:
        yield server


@pytest.fixture
def fresh_redis() -> Iterator[PrivateRedis]:
    """A Redis for one test, to be killed, paused and restarted."""
    with PrivateRedis() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: PrivateRedis) -> str:
    return redis_server.url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'inturn.db'}"


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a store, once for every kind of store."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"
