"""Real servers, private to the run: a test asks for a URL and isolates itself by its own namespace."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.core
import pytest
from _pytest.python import FunctionDefinition
from hypothesis import HealthCheck, is_hypothesis_test, settings

from inturn import InTurn
from inturn.settings import NOT_A_SETTING, Settings, variables
from tests.floor import Floor, Way, in_parts
from tests.kept_cases import keep, seeds_of
from tests.servers import Broker, MissingProgram, PrivatePostgres, PrivateRabbitMQ, PrivateRedis
from tests.servers.program import find_postgres, find_rabbitmq, find_redis
from tests.servers.rabbitmq import SharedRabbitMQ, shared_broker
from tests.servers.server import ServerFailed

FOLDER = pytest.StashKey[str]()
FLOOR = pytest.StashKey[Floor]()
FIXED_SEED = 0
PATIENT_S = 20.0
"""The timeout of the store, where a test is not about it: a store that gets the processor late is not away."""
MakeApp = Callable[..., InTurn]


def pytest_configure(config: pytest.Config) -> None:
    """A developer's own servers and settings must not be touched, also not by processes that tests start."""
    gc.disable()  # while tests are collected: nothing of that is garbage, and there is a lot to look through
    read = {name for names in variables() for name in names}
    for name in list(os.environ):
        if name not in NOT_A_SETTING and (name in read or name.startswith("INTURN_")):
            del os.environ[name]
    os.environ["INTURN_OFFLINE_PACE"] = "0"  # no test waits for words that are written slowly
    # whoever runs us in the background has us ignore Ctrl-C; what we start, and interrupt, must not
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # an example that gets the processor late is no counter-example
    # and where `CI` is set, Hypothesis would go by the test's source instead of our seeds
    too_slow = [HealthCheck.too_slow]
    settings.register_profile("ours", deadline=None, database=None, derandomize=False, suppress_health_check=too_slow)
    settings.load_profile("ours")
    if hypothesis.core.global_force_seed is None:
        set_seed(FIXED_SEED)
    if (worker := worker_input(config)) is not None:
        floor = config.stash[FLOOR] = Floor(Path(worker["floor"]))
        config.add_cleanup(floor.close)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--explore", type=int, default=0, help="run random tests so many times, each with another seed; keep failures"
    )


def set_seed(seed: int | None) -> None:
    """As `--hypothesis-seed` does."""
    vars(hypothesis.core)["global_force_seed"] = seed


def is_random(function: pytest.Function | FunctionDefinition) -> bool:
    """Whether it draws examples: by hypothesis, or it says so itself."""
    return is_hypothesis_test(function.obj) or function.get_closest_marker("random") is not None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A random test is run with the same seed every time, and with each seed that has found something."""
    if not is_random(metafunc.definition):
        return
    count = metafunc.config.getoption("--explore")
    seeds = [secrets.randbelow(10**9) for _ in range(count)] or seeds_of(metafunc.definition.nodeid)
    if seeds:
        metafunc.fixturenames.append("seed_of_chance")
        metafunc.parametrize("seed_of_chance", seeds if count else [FIXED_SEED, *seeds], indirect=True)


@pytest.fixture
def seed_of_chance(request: pytest.FixtureRequest) -> int:
    seed: int = request.param
    return seed


def seed_of(item: pytest.Item) -> int | None:
    """The seed that it is run with, if that is not the one of all."""
    seed: int | None = item.callspec.params.get("seed_of_chance") if hasattr(item, "callspec") else None
    return seed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    seed, before = seed_of(item), hypothesis.core.global_force_seed
    if seed is not None:
        set_seed(seed)
    try:
        return (yield)
    finally:
        set_seed(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    seed = seed_of(item)
    if report.when == "call" and report.failed and item.config.getoption("--explore") and seed is not None:
        keep(item.nodeid.partition("[")[0], seed)
    return report


def worker_input(config: pytest.Config) -> dict[str, Any] | None:
    """What a worker was told by the process that spreads the tests; none in that process, and if nothing is spread."""
    told: dict[str, Any] | None = getattr(config, "workerinput", None)
    return told


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every worker of the run is told of the same folder. The RabbitMQ that they share starts while they do."""
    config: pytest.Config = node.config
    if FOLDER not in config.stash:
        folder = TemporaryDirectory(prefix="inturn-tests-")
        config.add_cleanup(folder.cleanup)
        config.stash[FOLDER] = folder.name
        config.add_cleanup(SharedRabbitMQ(Path(folder.name)).stop)
    node.workerinput["floor"] = config.stash[FOLDER]


def way_of(item: pytest.Item | None) -> Way:
    """How it shares the machine with other tests: by its marker."""
    for way in (Way.ALONE, Way.TIMED):
        if item is not None and item.get_closest_marker(way.name.lower()) is not None:
            return way
    return Way.SHARED


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The workers wait for each other once: they begin with what measures time, and go on with the rest. Long and
    random tests come early in that, or in the end all would wait for the last of them.
    """
    if config.getoption("--explore"):
        items[:] = [item for item in items if isinstance(item, pytest.Function) and is_random(item)]
    if (worker := worker_input(config)) is not None:
        items.sort(key=lambda item: not (isinstance(item, pytest.Function) and is_random(item)))
        items.sort(key=lambda item: item.get_closest_marker("long") is None)
        items[:] = in_parts([(way_of(item), item) for item in items], worker["workercount"])


def pytest_collection_finish() -> None:
    """What was collected stays until the end: no later garbage collection looks at all of it again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the clock of pytest-timeout: waiting is not the test's own time
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    floor, way = item.config.stash.get(FLOOR, None), way_of(item)
    if way is not Way.SHARED and (worker := worker_input(item.config)) is not None:
        with suppress(ServerFailed):  # told to those who need it; while it starts, nobody can measure time
            shared_broker(Path(worker["floor"]))
    with nullcontext() if floor is None else floor.taken(way, keep=way is not Way.SHARED and way is way_of(nextitem)):
        return (yield)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Installing a server may take longer than a test may; a missing one fails the run, before any worker starts."""
    if worker_input(session.config) is not None or session.config.option.collectonly:
        return
    try:
        find_redis()
        find_rabbitmq()
        find_postgres()
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
def durable_redis() -> Iterator[PrivateRedis]:
    """A Redis for one test that keeps what it has answered, also when it is killed."""
    with PrivateRedis(appendonly=True, extra=("--appendfsync", "always")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: PrivateRedis) -> str:
    return redis_server.url


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """One RabbitMQ for the whole run and all of its workers, who have nothing to themselves but a virtual host."""
    if (worker := worker_input(pytestconfig)) is None:
        with PrivateRabbitMQ() as server:
            yield server.broker
        return
    yield shared_broker(Path(worker["floor"]))


@pytest.fixture
def rabbitmq_vhost(broker: Broker, namespace: str) -> Iterator[str]:
    """A virtual host that no other test has. Its queues and connections go with it."""
    broker.add_vhost(namespace)
    yield namespace
    broker.delete_vhost(namespace)


@pytest.fixture
def rabbitmq_url(broker: Broker, rabbitmq_vhost: str) -> str:
    return broker.url_of(rabbitmq_vhost)


@pytest.fixture
def fresh_rabbitmq() -> Iterator[PrivateRabbitMQ]:
    """A RabbitMQ for one test, to be killed, paused and restarted. It takes some seconds to start."""
    with PrivateRabbitMQ() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PrivatePostgres]:
    """One PostgreSQL for the whole run, or for each of its workers that needs it. Nobody kills or pauses it."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PrivatePostgres, namespace: str) -> Iterator[str]:
    """A database that no other test has. Its connections go with it."""
    name = namespace.replace("-", "_")
    postgres_server.create_database(name)
    yield postgres_server.url_of(name)
    postgres_server.drop_database(name)


@pytest.fixture
def fresh_postgres() -> Iterator[PrivatePostgres]:
    """A PostgreSQL for one test, to be killed, paused and restarted."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'inturn.db'}"


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a store, once for every kind of store."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once for every kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tasks.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def make_app(store_url: str, namespace: str) -> AsyncIterator[MakeApp]:
    """Two apps are two processes as far as the store can tell. The test gives settings by name."""
    apps: list[InTurn] = []

    def make(**settings: Any) -> InTurn:
        patient = {"store_timeout": PATIENT_S, **settings}
        apps.append(InTurn(store_url, namespace=namespace, settings=Settings(**patient)))
        return apps[-1]

    yield make
    for app in apps:
        await app.close()


@pytest.fixture
async def app(make_app: MakeApp) -> InTurn:
    return make_app()


@pytest.fixture
async def other(make_app: MakeApp) -> InTurn:
    """Another process."""
    return make_app()


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"
