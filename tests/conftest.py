"""Real servers, private to the run: a test asks for a URL and isolates itself by its own namespace."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from inturn.services import MissingProgram, PrivateRedis
from tests.servers.program import find_redis
from inturn.settings import variables
from tests.floor import Floor

FOLDER = pytest.StashKey[str]()
FLOOR = pytest.StashKey[Floor]()


def pytest_configure(config: pytest.Config) -> None:
    """A developer's own servers and settings must not be touched, also not by processes that tests start."""
    read = {name for names in variables() for name in names}
    for name in list(os.environ):
        if name != "INTURN_REDIS_SERVER" and (name in read or name.startswith("INTURN_")):
            del os.environ[name]
    os.environ["INTURN_OFFLINE_PACE"] = "0"  # no test waits for words that are written slowly
    # an example that gets the processor late is no counter-example
    settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy machine")
    if (worker := worker_input(config)) is not None:
        floor = config.stash[FLOOR] = Floor(Path(worker["floor"]))
        config.add_cleanup(floor.close)


def worker_input(config: pytest.Config) -> dict[str, Any] | None:
    """What a worker was told by the process that spreads the tests; none in that process, and if nothing is spread."""
    told: dict[str, Any] | None = getattr(config, "workerinput", None)
    return told


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every worker of the run is told of the same folder."""
    config: pytest.Config = node.config
    if FOLDER not in config.stash:
        folder = TemporaryDirectory(prefix="inturn-tests-")
        config.add_cleanup(folder.cleanup)
        config.stash[FOLDER] = folder.name
    node.workerinput["floor"] = config.stash[FOLDER]


def is_alone(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("alone") is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The workers wait for each other once: one of them begins with all that runs alone."""
    if FLOOR in config.stash:
        items.sort(key=lambda item: not is_alone(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the clock of pytest-timeout: waiting is not the test's own time
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    floor, alone = item.config.stash.get(FLOOR, None), is_alone(item)
    with nullcontext() if floor is None else floor.taken(alone=alone, keep=alone and is_alone(nextitem)):
        return (yield)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Installing a server may take longer than a test may; a missing one fails the run, before any worker starts."""
    if worker_input(session.config) is not None:
        return
    try:
        find_redis()
    except MissingProgram as missing:
        pytest.exit(str(missing), returncode=1)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[PrivateRedis]:
    """One Redis for the whole run, or for each of its workers. It is shared: nobody flushes, kills or pauses it."""
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
