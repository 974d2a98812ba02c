"""The database: its schema, its transactions, and what happens while it is away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from inturn.database import Connection, Database, default_url
from inturn.database import database as module
from inturn.database.migrations.run import FOLDER
from inturn.errors import DatabaseOutdated, DatabaseUnavailable, SettingsError
from inturn.settings import Settings
from inturn.tasks.tables import limits, metadata
from tests.servers import PrivatePostgres

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
