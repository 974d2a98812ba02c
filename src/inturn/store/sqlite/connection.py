"""Opening the database, and what SQLite's refusals mean in words that say what to do next.

A file is only ever used if it is ours: made by this program, with a schema that this version knows.
"""

from __future__ import annotations

import sqlite3
from importlib.resources import files

from inturn.errors import SettingsError
from inturn.store.sqlite.address import Address

SCHEMA_VERSION = 3
APPLICATION_ID = 0x696E_7475  # "intu"
_UPGRADES = ("lanes.sql", "policies.sql")
"""What makes version 2 out of version 1, and so on."""

_MEANING = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked; if that one was stopped or hangs, end it",
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_READONLY: "this user may not write the file or its folder; change their owner or rights",
    sqlite3.SQLITE_PERM: "this user may not read the file; change its owner or rights",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened or made; look at its folder and its rights",
    sqlite3.SQLITE_IOERR: "the disk failed; look at the system's log",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; stop all users of it and restore it, or move it away",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; name another one",
}
# The connection itself is fine after these.
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_LOCKED})


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code (0 where Python raised on its own)."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    return code_of(error) == sqlite3.SQLITE_BUSY


def is_passing(error: BaseException) -> bool:
    return not isinstance(error, sqlite3.Error) or code_of(error) in _PASSING


def explain(error: sqlite3.Error) -> str:
    meaning = _MEANING.get(code_of(error))
    return f"{error}" + (f" ({meaning})" if meaning else "")


def open_connection(address: Address) -> sqlite3.Connection:
    """Raises `SettingsError` for a file that is not ours, and else what SQLite raises."""
    if sqlite3.sqlite_version_info < (3, 35):
        raise SettingsError(f"inturn needs SQLite >= 3.35; this Python has {sqlite3.sqlite_version}")
    connection = None
    try:
        # Only one thread at a time uses it: the writer's, or the one that forks and has stopped the writer.
        # A busy file is waited for by the writer, because SQLite's own pauses grow to 100 ms.
        connection = sqlite3.connect(
            str(address),
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        _prepare(connection, address)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error) and code_of(error) == sqlite3.SQLITE_NOTADB:
            raise SettingsError(f"{address}: {explain(error)}") from error
        raise
    return connection


def _prepare(connection: sqlite3.Connection, address: Address) -> None:
    # where a write-ahead log is not possible (memory, some file systems) this changes nothing: see `warnings`
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {address.synchronous}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        _adopt(connection, address)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _adopt(connection: sqlite3.Connection, address: Address) -> None:
    """Under the write lock: make the tables in an empty file, or see that they are ours, and bring them up to date."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and application == 0 and tables == 0:
        _execute_file(connection, "schema.sql")
        connection.execute("INSERT INTO store VALUES (1, ?, 0, 0, 0, '')", (address.namespace,))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        version, application = 1, APPLICATION_ID
    if application != APPLICATION_ID:
        raise SettingsError(f"{address} is another program's database; give inturn a file of its own")
    for file in _UPGRADES[version - 1 :] if 0 < version < SCHEMA_VERSION else ():
        _execute_file(connection, file)
        version += 1
        connection.execute(f"PRAGMA user_version = {version}")
    if version != SCHEMA_VERSION:
        raise SettingsError(
            f"{address} has version {version} of the tables and this inturn knows {SCHEMA_VERSION}: "
            "upgrade inturn on this machine, or use another file"
        )
    (namespace,) = connection.execute("SELECT namespace FROM store").fetchone()
    if namespace != address.namespace:
        raise SettingsError(f"{address} belongs to the namespace {namespace!r}; use another file")


def _execute_file(connection: sqlite3.Connection, name: str) -> None:
    for statement in (files("inturn.store.sqlite") / name).read_text("utf-8").split(";\n"):
        connection.execute(statement)


def warnings(connection: sqlite3.Connection, address: Address) -> list[str]:
    """What the owner of this database should know."""
    found = []
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if address.path is not None and mode != "wal":
        found.append(
            f"{address} cannot use a write-ahead log (journal mode {mode!r}): is it on a network file "
            "system? Locks on such a file may not exclude anyone; use a local disk, or Redis"
        )
    if address.path is None:
        found.append("sqlite:///:memory: is seen by this process only and is gone with it")
    elif address.synchronous == "off":
        found.append(f"{address} is used with synchronous=off: a power cut can damage the file and lose every lock")
    return found
