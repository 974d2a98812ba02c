"""The database: its schema, its transactions, and what happens while it is away."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.util import await_only

from inturn.database import Connection, Database, default_url
from inturn.database import database as module
from inturn.database.migrations.run import FOLDER
from inturn.errors import DatabaseOutdated, DatabaseUnavailable, SettingsError
from inturn.settings import Settings
from inturn.store import clock
from inturn.tasks.tables import limits, metadata
from inturn.web.app import make_app
from tests.servers import PrivatePostgres
from tests.waiting import until

PATIENT_S = 60.0
"""A database that gets the processor late is not away."""


async def test_the_migrations_make_what_the_tables_say(database_url: str) -> None:
    database = Database(database_url, timeout_s=PATIENT_S)
    assert await database.version() is None
    await asyncio.gather(*(database.migrate() for _ in range(3)))
    assert await database.version() == module.HEAD

    def differences(sync: sa.Connection) -> list[Any]:
        return list(compare_metadata(MigrationContext.configure(sync), metadata))

    assert await database.transaction(lambda at: at.run_sync(differences)) == []
    await database.close()


def test_the_newest_migration_is_the_one_that_is_needed() -> None:
    assert max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("0*.py")) == module.HEAD


async def test_an_empty_sqlite_file_is_made_and_postgres_waits_for_a_person(database_url: str) -> None:
    database = Database(database_url, timeout_s=PATIENT_S)
    if database.is_sqlite:
        await database.open()
        assert await database.version() == module.HEAD
    else:
        with pytest.raises(DatabaseOutdated, match="inturn migrate"):
            await database.open()
        await database.migrate()
        await database.open()
    await database.close()


async def test_a_transaction_is_all_or_nothing(database_url: str) -> None:
    database = Database(database_url, timeout_s=PATIENT_S)
    await database.migrate()

    async def write(at: Connection) -> None:
        await at.execute(sa.insert(limits).values(tenant_id="t", user_id="u", tokens=1))
        raise ValueError("after the first write")

    with pytest.raises(ValueError, match="after the first"):
        await database.transaction(write)
    assert await database.transaction(lambda at: at.scalar(sa.select(sa.func.count()).select_from(limits))) == 0
    await database.close()


async def test_a_database_that_is_away_is_told_within_the_timeout_and_used_again_when_it_is_back(
    fresh_postgres: PrivatePostgres,
) -> None:
    database = Database(fresh_postgres.url, timeout_s=PATIENT_S)
    await database.migrate()
    fresh_postgres.kill()
    database.timeout_s = 0.5
    with pytest.raises(DatabaseUnavailable):
        await database.version()
    await asyncio.to_thread(fresh_postgres.start)
    database.timeout_s = PATIENT_S
    # the connections of before are broken: nobody who asks now is told so
    assert await asyncio.gather(*(database.version() for _ in range(5))) == [module.HEAD] * 5
    await database.close()


def test_the_file_is_beside_the_store(tmp_path: Path) -> None:
    def of(url: str) -> str:
        return default_url(Settings(url=url))

    assert of("sqlite:////var/x.db") == "sqlite:////var/x-tasks.db"
    assert of("sqlite:///inturn.db?synchronous=normal") == "sqlite:///inturn-tasks.db"
    assert of("sqlite:///:memory:") == "sqlite:///:memory:"
    assert of("redis://h/0") == "sqlite:///inturn-tasks.db"
    with pytest.raises(SettingsError, match="there is no folder"):
        Database(f"sqlite:///{tmp_path}/none/x.db")


async def test_a_silent_database_is_told_within_the_timeout_and_is_used_again_when_it_speaks(
    fresh_postgres: PrivatePostgres,
) -> None:
    database = Database(fresh_postgres.url, timeout_s=30)
    await database.migrate()
    begun = asyncio.Event()

    async def write(at: Connection) -> str:
        if begun.is_set():
            return "a repeat"
        await at.execute(sa.insert(limits).values(tenant_id="t", user_id="u", tokens=1))
        await asyncio.to_thread(fresh_postgres.pause)
        begun.set()
        await at.scalar(sa.text("SELECT 1"))
        return "it was not silent"

    database.timeout_s = 12
    since = clock.now()
    with pytest.raises(DatabaseUnavailable):
        await database.transaction(write)
    # a rollback that waits for its server as well would take all of the timeout again
    assert clock.now() - since < 12 + 10
    assert begun.is_set()
    await asyncio.to_thread(fresh_postgres.resume)
    database.timeout_s = 30
    assert await database.transaction(lambda at: at.scalar(sa.select(sa.func.count()).select_from(limits))) == 0
    await database.close()


async def test_a_file_that_another_process_writes_is_told_within_the_timeout(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/x.db", timeout_s=30)
    await database.open()
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    database.timeout_s = 2
    since = clock.now()
    with pytest.raises(DatabaseUnavailable):
        await database.version()
    # SQLite itself would wait for as long as it was told at the start
    assert clock.now() - since < 2 + 20
    other.execute("ROLLBACK")
    database.timeout_s = 30
    assert await database.version() == module.HEAD
    other.close()
    await database.close()


async def test_a_cancelled_transaction_leaves_what_is_in_memory() -> None:
    database = Database("sqlite:///:memory:", timeout_s=30)
    await database.open()
    begun = asyncio.Event()

    async def wait(at: Connection) -> None:
        await at.execute(sa.insert(limits).values(tenant_id="t", user_id="u", tokens=1))
        begun.set()
        await asyncio.Event().wait()

    cancelled = asyncio.create_task(database.transaction(wait))
    await begun.wait()
    cancelled.cancel()
    await asyncio.wait([cancelled])
    for steps in range(50):  # wherever it is cancelled
        looking = asyncio.create_task(database.version())
        for _ in range(steps):
            await asyncio.sleep(0)
        looking.cancel()
        await asyncio.wait([looking])
    assert await database.version() == module.HEAD
    assert await database.transaction(lambda at: at.scalar(sa.select(sa.func.count()).select_from(limits))) == 0
    await database.close()


@pytest.mark.parametrize("place", ["", "x.db"])
async def test_a_statement_that_was_cancelled_locks_nobody_out(place: str, tmp_path: Path) -> None:
    """SQLite closes a connection only when its last cursor is gone, and that may be left to Python's collector."""
    database = Database(f"sqlite:///{tmp_path / place}" if place else "sqlite:///:memory:", timeout_s=PATIENT_S)
    await database.open()
    began, goes_on = threading.Event(), threading.Event()
    left: list[Any] = []

    def slowly() -> int:
        began.set()
        assert goes_on.wait(PATIENT_S)
        return 1

    async def write(at: Connection) -> None:
        driver = (await at.get_raw_connection()).driver_connection
        assert driver is not None
        await driver.create_function("slowly", 0, slowly)
        await at.execute(sa.insert(limits).values(tenant_id="t", user_id="u", tokens=1))
        left.append(await driver.execute("SELECT 1 UNION SELECT 2"))
        await at.execute(sa.text("SELECT slowly()"))

    writing = asyncio.create_task(database.transaction(write))
    assert await asyncio.to_thread(began.wait, PATIENT_S)
    writing.cancel()
    goes_on.set()
    await asyncio.wait([writing])
    assert await database.transaction(lambda at: at.scalar(sa.select(sa.func.count()).select_from(limits))) == 0
    assert left
    await database.close()


async def test_a_connection_that_nobody_waits_for_any_more_is_closed(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/x.db", timeout_s=PATIENT_S)
    connects, go = asyncio.Event(), asyncio.Event()

    @sa.event.listens_for(database._engine.sync_engine, "connect")
    def slowly(*_: Any) -> None:
        connects.set()
        await_only(go.wait())

    before = set(threading.enumerate())
    looking = asyncio.create_task(database.version())
    await connects.wait()
    looking.cancel()
    await asyncio.wait([looking])
    (of_the_connection,) = set(threading.enumerate()) - before
    go.set()
    await database.close()
    assert looking.cancelled()
    await until(lambda: not of_the_connection.is_alive())


async def test_a_database_is_closed_once_the_connection_of_a_cancelled_transaction_is_back(database_url: str) -> None:
    database = Database(database_url, timeout_s=PATIENT_S)
    gives_back, go = asyncio.Event(), asyncio.Event()

    @sa.event.listens_for(database._engine.sync_engine, "reset")
    def slowly(*_: Any) -> None:
        gives_back.set()
        await_only(go.wait())

    before = asyncio.all_tasks()
    looking = asyncio.create_task(database.version())
    await gives_back.wait()
    looking.cancel()
    await asyncio.wait([looking])
    closing = asyncio.create_task(database.close())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not closing.done()
    go.set()
    await closing
    assert asyncio.all_tasks() == before


def test_a_database_can_be_closed_after_its_loop_was_closed_under_a_connection(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/x.db", timeout_s=PATIENT_S)

    async def leave_it() -> None:
        @sa.event.listens_for(database._engine.sync_engine, "reset")
        def never(*_: Any) -> None:
            gives_back.set()
            await_only(asyncio.Event().wait())

        gives_back = asyncio.Event()
        looking = asyncio.create_task(database.version())
        await gives_back.wait()
        looking.cancel()
        await asyncio.wait([looking])
        sa.event.remove(database._engine.sync_engine, "reset", never)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_it())
    loop.close()

    async def go_on() -> None:
        async with asyncio.timeout(PATIENT_S):
            await database.close()
            await database.version()
            await database.close()

    asyncio.run(go_on())


async def test_who_is_not_let_in_is_told_at_once(fresh_postgres: PrivatePostgres, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is no database" * 100)
    nobody = fresh_postgres.url.replace("inturn@", "nobody@")
    for url in (fresh_postgres.url_of("none"), nobody, f"sqlite:///{tmp_path}/x.db"):
        database = Database(url, timeout_s=600)
        with pytest.raises(DatabaseUnavailable, match=r"does not exist|is not a database"):
            await database.open()
        await database.close()


async def test_a_server_that_refuses_for_a_moment_is_asked_again(fresh_postgres: PrivatePostgres) -> None:
    database = Database(fresh_postgres.url, timeout_s=30)
    await database.migrate()
    states = iter(["25006", "53100", "57014"])

    async def write(at: Connection) -> int:
        state = next(states, None)
        if state is not None:
            await at.execute(sa.text(f"DO $$ BEGIN RAISE SQLSTATE '{state}'; END $$"))
        return 1

    assert await database.transaction(write) == 1
    assert next(states, None) is None
    await database.close()


@pytest.mark.parametrize(
    "more", ["?sslmode=disable", "?sslmode=prefer&connect_timeout=5", "?application_name=x&channel_binding=prefer"]
)
async def test_a_url_for_other_clients_is_understood(postgres_url: str, more: str) -> None:
    for url in (postgres_url, "postgres" + postgres_url.removeprefix("postgresql")):
        database = Database(url + more, timeout_s=PATIENT_S)
        assert await database.version() is None
        await database.close()


async def test_a_socket_may_stand_in_the_url(fresh_postgres: PrivatePostgres) -> None:
    place = f"host={fresh_postgres.folder}&port={fresh_postgres.port}&user=inturn"
    database = Database(f"postgresql:///inturn?{place}", timeout_s=PATIENT_S)
    assert await database.version() is None
    await database.close()


def test_a_url_of_another_kind_is_refused_in_a_sentence_and_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="must start with") as refused:
        Database("mysql://root:a-password@127.0.0.1/x")
    assert "a-password" not in str(refused.value)
    with pytest.raises(SettingsError, match=r"sqlite:///relative\.db"):
        Database("sqlite://relative.db")
    with pytest.raises(SettingsError, match="this is a folder"):
        Database(f"sqlite:///{tmp_path}")


async def test_a_schema_of_a_newer_version_is_left_alone(database_url: str) -> None:
    database = Database(database_url, timeout_s=PATIENT_S)
    await database.migrate()
    await database.transaction(lambda at: at.execute(sa.text("UPDATE alembic_version SET version_num = '9999'")))
    for bring_up in (database.open, database.migrate):
        with pytest.raises(DatabaseOutdated, match="update inturn here"):
            await bring_up()
    await database.close()


def test_a_database_belongs_to_one_event_loop_until_it_is_closed(database_url: str) -> None:
    database = Database(database_url, timeout_s=PATIENT_S)

    async def migrate() -> None:
        await database.migrate()
        with pytest.raises(RuntimeError, match="in another event loop"):
            await asyncio.to_thread(asyncio.run, database.version())
        await database.close()

    async def look() -> str | None:
        found = await database.version()
        await database.close()
        return found

    asyncio.run(migrate())
    assert asyncio.run(look()) == module.HEAD


@pytest.mark.parametrize(
    ("store", "database"),
    [
        ("sqlite:///inturn.db", "sqlite:///inturn-tasks.db"),
        ("sqlite:///a/b.sqlite3", "sqlite:///a/b.sqlite3-tasks.db"),
        ("sqlite:////tmp/with space.db", "sqlite:////tmp/with space-tasks.db"),
        ("sqlite:///:memory:?synchronous=full", "sqlite:///:memory:"),
        ("rediss://user:secret@h:6380/1", "sqlite:///inturn-tasks.db"),
        ("unix:///run/redis.sock", "sqlite:///inturn-tasks.db"),
    ],
)  # fmt: skip
def test_every_kind_of_store_has_a_file_for_tasks(store: str, database: str) -> None:
    assert default_url(Settings(url=store)) == database
    assert default_url(Settings(url=store, database_url="postgresql://h/x")) == "postgresql://h/x"


async def test_what_a_migration_makes_it_can_take_away_again(database_url: str) -> None:
    database = Database(database_url, timeout_s=PATIENT_S)
    await database.migrate()

    def go_down(sync: sa.Connection) -> list[str]:
        config = Config()
        config.set_main_option("script_location", str(FOLDER))
        config.attributes["connection"] = sync
        command.downgrade(config, "base")
        return sa.inspect(sync).get_table_names()

    assert await database.transaction(lambda at: at.run_sync(go_down)) == ["alembic_version"]
    assert await database.version() is None
    await database.migrate()
    assert await database.version() == module.HEAD
    await database.close()


async def test_a_server_whose_postgres_is_outdated_does_not_start(postgres_url: str, sqlite_url: str) -> None:
    api = make_app(Settings(url=sqlite_url, database_url=postgres_url, database_timeout=PATIENT_S))
    with pytest.raises(DatabaseOutdated, match=f"is empty, and this inturn needs version {module.HEAD}: run `inturn"):
        async with api.router.lifespan_context(api):
            raise AssertionError("it has started")
