"""`Database`: an engine, its transactions and its schema, on an SQLite file or on PostgreSQL.

A transaction is a function that may run more than once: it is repeated if its connection broke or the database asked
for it. After a commit whose answer was lost it has happened already, so whatever it writes has a key of its own, and
a repeat finds it. What does not come to an end within the timeout is raised as `DatabaseUnavailable`, and so is a
database that lets nobody in.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sqlite3
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from inturn.errors import DatabaseOutdated, DatabaseUnavailable, MissingExtra, SettingsError
from inturn.settings import Settings, mask
from inturn.store import clock

try:
    from sqlalchemy import event, text
    from sqlalchemy.exc import DatabaseError as BrokenFile
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
    from sqlalchemy.pool import AsyncAdaptedQueuePool
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
BUSY_S = 0.25
"""How long SQLite itself waits for another process. Nothing stops it meanwhile, so we wait, and ask again."""
_PASSING = {
    "40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "57P05", "25006", "25P02", "25P03", "25P04",
}  # fmt: skip
_PASSING_CLASSES = ("08", "53", "58")
"""SQLSTATEs that are about the moment: conflicts, deadlocks, time limits, a server that stops, starts, is full or has
just become a replica.
"""
_CLOSED_CLASSES = ("28", "3D")
"""A wrong password, or no such database: asking again helps nobody, and an operator can mend it while we run."""
_NOT_FOR_SERVERS = {"channel_binding", "connect_timeout", "gssencmode", "pgbouncer", "sslcompression", "sslsni"}
"""What people have in their URLs for other clients. asyncpg would hand it to the server, which refuses it."""


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
        scheme = url.partition("://")[0].partition("+")[0].lower()
        self.is_sqlite = scheme == "sqlite"
        if not self.is_sqlite and scheme not in ("postgresql", "postgres"):
            raise SettingsError(f"DATABASE_URL={mask(url)}: must start with sqlite://, postgresql:// or postgres://")
        self._memory: sqlite3.Connection | None = None
        self._engine = self._new_engine()
        self._place: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._giving_back: set[asyncio.Task[None]] = set()
        """Connections on their way back to the pool. Whoever used one may have been cancelled meanwhile."""

    def _new_engine(self) -> AsyncEngine:
        if not self.is_sqlite:
            return _postgres(self.url, self.timeout_s)
        path = _path(self.url)
        if path is not None:
            return _sqlite(f"/{path}", self.timeout_s)
        # a database in memory lives as long as a connection: a cancelled transaction costs its own
        name = f"file:inturn-{uuid.uuid4().hex}?mode=memory&cache=shared"
        self._memory = sqlite3.connect(name, uri=True, check_same_thread=False)
        return _sqlite(f"/{name}&uri=true", self.timeout_s)

    def _engine_here(self) -> AsyncEngine:
        """Connections belong to a process and to an event loop."""
        here = os.getpid(), asyncio.get_running_loop()
        if self._place not in (None, here):
            raise RuntimeError("this Database is in use in another event loop or process: close it there, or make two")
        self._place = here
        return self._engine

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

        return await self.transaction(_version)

    async def migrate(self) -> None:
        """Brings the schema to its newest version. Of several processes that do so at once, one does.

        Raises `DatabaseOutdated` if a newer inturn has changed it, `DatabaseUnavailable`.
        """
        from inturn.database.migrations.run import upgrade

        async def bring_up(at: Connection) -> None:
            if not self.is_sqlite:  # SQLite has one writer
                await at.execute(text("SELECT pg_advisory_xact_lock(4865331)"))
            found = await _version(at)
            if found is not None and found > HEAD:
                raise DatabaseOutdated(found, HEAD)
            await at.run_sync(upgrade)

        await self.transaction(bring_up)
        log.info("database %s is at version %s", mask(self.url), HEAD)

    async def transaction(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Runs `work` in one transaction, and commits it. It may run several times: see above."""
        ends_at, tries = clock.now() + self.timeout_s, 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(max(0.001, ends_at - clock.now())):
                    return await self._try(work, ends_at)
            except DBAPIError as error:
                if _is_closed(error):
                    raise DatabaseUnavailable(mask(self.url), _said(error)) from error
                if not _is_passing(error):
                    raise
                why: Exception = error
            except (OSError, TimeoutError) as error:  # PostgreSQL cannot be reached
                why = error
            pause_s = random.uniform(0.5, 1.0) * min(1.0, 0.02 * 2**tries)
            if clock.now() + pause_s >= ends_at:
                raise DatabaseUnavailable(mask(self.url), _said(why)) from why
            await asyncio.sleep(pause_s)

    async def _try(self, work: Callable[[Connection], Awaitable[T]], ends_at: float) -> T:
        at = await self._connected()
        try:
            # PostgreSQL may be silent, and then a rollback waits for it as long as a query does
            hangs_up = None if self.is_sqlite else _hang_up_later(at, ends_at - clock.now())
            try:
                async with at.begin():
                    return await work(at)
            finally:
                if hangs_up is not None:
                    hangs_up.cancel()
        finally:
            await asyncio.shield(self._gives_back(at.close()))

    async def _connected(self) -> Connection:
        """Whoever is cancelled meanwhile leaves the connection to us: half made, it would not be closed by anybody."""
        connecting = asyncio.create_task(self._engine_here().connect().start())
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            self._gives_back(_close_once_made(connecting))
            raise

    def _gives_back(self, giving_back: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(giving_back)
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)
        return task

    async def close(self) -> None:
        """It may be used again, also in another event loop. What was in memory is gone."""
        here = asyncio.get_running_loop()
        # those of a loop that was closed never end
        if on_their_way := [each for each in self._giving_back if each.get_loop() is here]:
            await asyncio.wait(on_their_way)
        self._giving_back.clear()
        await self._engine.dispose()
        memory, self._memory, self._place = self._memory, None, None
        if memory is not None:
            memory.close()
            self._engine = self._new_engine()


async def _close_once_made(connecting: asyncio.Task[Connection]) -> None:
    with suppress(SQLAlchemyError, OSError, TimeoutError):  # nobody is there any more who could be told
        at = await connecting
        await at.close()


async def _version(at: Connection) -> str | None:
    if not await at.run_sync(lambda sync: sync.dialect.has_table(sync, "alembic_version")):
        return None
    found: str | None = await at.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _hang_up_later(at: Connection, after_s: float) -> asyncio.TimerHandle:
    """Whoever waits for the server then is told that the connection is gone."""
    assert at.sync_connection is not None
    driver: Any = at.sync_connection.connection.driver_connection
    return asyncio.get_running_loop().call_later(max(0.0, after_s), driver.terminate)


def _state(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)


def _is_passing(error: DBAPIError) -> bool:
    state = _state(error)
    if state is not None:
        return state in _PASSING or state.startswith(_PASSING_CLASSES)
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)


def _is_closed(error: DBAPIError) -> bool:
    """Nobody is let in, or the file is no database."""
    state = _state(error)
    return state.startswith(_CLOSED_CLASSES) if state is not None else type(error) is BrokenFile


def _said(error: Exception) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    return f"{type(original).__name__}: {original}" if str(original) else type(original).__name__


def _path(url: str) -> Path | None:
    """Where the file is. `None`: in memory. Raises a `SettingsError` that says how such a URL is written."""
    place = url.partition("://")[2].partition("?")[0]
    if place.strip("/") in (":memory:", ""):
        return None
    if not place.startswith("/"):
        raise SettingsError(f"DATABASE_URL={url}: write sqlite:///relative.db, or sqlite:////absolute.db")
    path = Path(place.removeprefix("/"))
    if not path.parent.is_dir():
        raise SettingsError(f"DATABASE_URL={url}: there is no folder {path.parent}")
    if path.is_dir():
        raise SettingsError(f"DATABASE_URL={url}: this is a folder, and must be a file")
    return path


def _sqlite(place: str, timeout_s: float) -> AsyncEngine:
    # one connection: SQLite has one writer anyway, and whoever waits for it here waits in line
    engine = create_async_engine(
        f"sqlite+aiosqlite://{place}",
        pool_size=1,
        max_overflow=0,
        pool_timeout=timeout_s,
        connect_args={"timeout": min(BUSY_S, timeout_s)},
        poolclass=AsyncAdaptedQueuePool,
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

    @event.listens_for(engine.sync_engine, "invalidate")
    def roll_back(connection: Any, *_: Any) -> None:
        # of a statement that was cancelled, a cursor may be left: then SQLite closes the connection only when Python
        # has collected that, and until then nobody else could write
        with suppress(sqlite3.Error):  # it is closed in any case
            connection.rollback()

    return engine


def _postgres(url: str, timeout_s: float) -> AsyncEngine:
    if find_spec("asyncpg") is None:
        raise MissingExtra("PostgreSQL", "postgres")
    import asyncpg  # type: ignore[import-untyped]

    parts = urlsplit(url)
    asked = [(name, value) for name, value in parse_qsl(parts.query) if name not in _NOT_FOR_SERVERS]
    # asyncpg reads the URL itself: it knows sslmode and its kin, sockets, and several hosts
    dsn = f"postgresql://{parts.netloc}{parts.path}" + (f"?{urlencode(asked)}" if asked else "")

    async def connect() -> Any:
        return await asyncpg.connect(dsn, timeout=timeout_s, command_timeout=timeout_s)

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        pool_size=POOL,
        max_overflow=OVER,
        pool_timeout=timeout_s,
        pool_use_lifo=True,
    )
