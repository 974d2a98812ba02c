"""`Database`: an engine, its transactions and its schema, on an SQLite file or on PostgreSQL.

A transaction is a function that may run more than once: it is repeated if its connection broke or the database asked
for it. After a commit whose answer was lost it has happened already, so whatever it writes has a key of its own, and
a repeat finds it. What does not come to an end within the timeout is raised as `DatabaseUnavailable`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from inturn.errors import DatabaseOutdated, DatabaseUnavailable, MissingExtra, SettingsError
from inturn.settings import Settings, mask
from inturn.store import clock

try:
    from sqlalchemy import event, make_url, text
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
    from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
except ImportError as error:
    raise MissingExtra("inturn.database", "tasks") from error

log = logging.getLogger("inturn.database")

Connection = AsyncConnection
T = TypeVar("T")

POOL = 10
"""Connections to PostgreSQL that a process keeps. A worker of uvicorn needs no more to keep PostgreSQL busy."""
OVER = 20
HEAD = "0001"
"""The newest migration. A test compares it with the files."""
_PASSING = {"40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300", "25P02"}
"""SQLSTATEs that are about the moment: conflicts, deadlocks, a server that stops, starts or is full."""


def default_url(settings: Settings) -> str:
    """Beside the store, where that is a file."""
    if settings.database_url is not None:
        return settings.database_url
    scheme, _, path = settings.url.partition("://")
    path = path.partition("?")[0]
    if scheme == "sqlite":
        if path.strip("/") == ":memory:":
            return "sqlite:///:memory:"
        return f"sqlite://{path.removesuffix('.db')}-tasks.db"
    return "sqlite:///inturn-tasks.db"


class Database:
    """`timeout_s`: how long a transaction may take, all of its repeats included."""

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self.is_sqlite = url.startswith("sqlite")
        self._engine = _sqlite(url, timeout_s) if self.is_sqlite else _postgres(url, timeout_s)

    async def open(self) -> None:
        """Brings an SQLite file up to date. PostgreSQL must be: several processes share it, so a person decides when.

        Raises `DatabaseOutdated`, `DatabaseUnavailable`.
        """
        found = await self.version()
        if found == HEAD:
            return
        if not self.is_sqlite:
            raise DatabaseOutdated(found, HEAD)
        await self.migrate()

    async def version(self) -> str | None:
        """The migration that the schema is at."""

        async def look(at: Connection) -> str | None:
            is_there = await at.run_sync(lambda sync: sync.dialect.has_table(sync, "alembic_version"))
            if not is_there:
                return None
            found: str | None = await at.scalar(text("SELECT version_num FROM alembic_version"))
            return found

        return await self.transaction(look)

    async def migrate(self) -> None:
        """Brings the schema to its newest version. Of several processes that do so at once, one does."""
        from inturn.database.migrations.run import upgrade

        async def bring_up(at: Connection) -> None:
            if not self.is_sqlite:  # SQLite has one writer
                await at.execute(text("SELECT pg_advisory_xact_lock(4865331)"))
            await at.run_sync(upgrade)

        await self.transaction(bring_up)
        log.info("database %s is at version %s", mask(self.url), HEAD)

    async def transaction(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Runs `work` in one transaction, and commits it. It may run several times: see above."""
        ends_at, tries = clock.now() + self.timeout_s, 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(max(0.001, ends_at - clock.now())), self._engine.begin() as at:
                    return await work(at)
            except DBAPIError as error:
                if not _is_passing(error):
                    raise
                why: Exception = error
            except (OSError, TimeoutError) as error:  # PostgreSQL cannot be reached
                why = error
            pause_s = random.uniform(0.5, 1.0) * min(1.0, 0.02 * 2**tries)
            if clock.now() + pause_s >= ends_at:
                raise DatabaseUnavailable(mask(self.url), _said(why)) from why
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        await self._engine.dispose()


def _is_passing(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    if state is not None:
        return state in _PASSING or state.startswith("08")
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)


def _said(error: Exception) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    return f"{type(original).__name__}: {original}" if str(original) else type(original).__name__


def _sqlite(url: str, timeout_s: float) -> Any:
    place = url.partition("://")[2].partition("?")[0]
    path = Path(place.removeprefix("/"))
    is_memory = place.strip("/") == ":memory:"
    if not is_memory and not path.parent.is_dir():
        raise SettingsError(f"DATABASE_URL={url}: there is no folder {path.parent}")
    # one connection: SQLite has one writer anyway, and whoever waits for it here waits in line
    engine = create_async_engine(
        f"sqlite+aiosqlite://{place}",
        pool_size=1,
        max_overflow=0,
        pool_timeout=timeout_s,
        connect_args={"timeout": timeout_s},
        **({} if not is_memory else {"poolclass": _queue_pool()}),
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # else the driver begins transactions by itself, and too late
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        # a transaction that reads first and writes later could not be repeated by SQLite
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _queue_pool() -> Any:
    from sqlalchemy.pool import AsyncAdaptedQueuePool

    return AsyncAdaptedQueuePool


def _postgres(url: str, timeout_s: float) -> Any:
    if find_spec("asyncpg") is None:
        raise MissingExtra("PostgreSQL", "postgres")
    parts = urlsplit(url)
    plain = urlunsplit(parts._replace(scheme="postgresql+asyncpg"))
    return create_async_engine(
        make_url(plain),
        pool_size=POOL,
        max_overflow=OVER,
        pool_timeout=timeout_s,
        pool_use_lifo=True,
        connect_args={"timeout": timeout_s, "command_timeout": timeout_s},
    )
