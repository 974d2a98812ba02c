"""The database file: where it is, how it is opened, and what SQLite's errors mean, in words that say what to do next.

A file is used only if it is ours: made by this program, with tables that this version knows. SQLite would go on writing
into a file that was moved, replaced or deleted, and what it acknowledged would be gone with the process: `SameFile`
finds that out before every transaction.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from inturn.errors import SettingsError
from inturn.store.sqlite.write_ahead_log import DEFAULT_LIMIT_MIB, MIB

DEFAULT_NAMESPACE = "inturn"
_MEMORY = ":memory:"
_SYNCHRONOUS = ("full", "normal", "off")

SCHEMA_VERSION = 6
APPLICATION_ID = 0x696E_7475  # "intu"
_UPGRADES = ("lanes.sql", "policies.sql", "waits.sql", "groups.sql", "letters.sql")
"""What turns version 1 into version 2, and so on."""

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
# After these the connection itself is fine.
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_LOCKED})


@dataclass(frozen=True, slots=True)
class Address:
    """Where one database is: sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory: (`path` is None).

    A namespace other than the default has a file of its own beside it (`app.db` and `app.<namespace>.db`), so that
    namespaces share nothing, not even the write lock.
    """

    path: Path | None
    namespace: str
    synchronous: str
    log_limit: int
    """How many bytes the write-ahead log may have."""

    @classmethod
    def from_url(cls, url: str, namespace: str) -> Address:
        """No message shows the URL itself: if it is wrong, anything may be in it, even a password."""
        location, _, query = url.removeprefix("sqlite://").partition("?")
        synchronous, log_limit = _read_query(query)
        if location.removeprefix("/") == _MEMORY:
            return cls(None, namespace, synchronous, log_limit)
        if not location.startswith("/") or location == "/":
            raise SettingsError(
                "the SQLite URL names no file: use sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:"
            )
        path = Path(unquote(location[1:])).absolute()
        if path.is_dir():
            raise SettingsError(f"{path} is a folder: name a file in it, such as {path / 'inturn.db'}")
        if not path.parent.is_dir():
            raise SettingsError(f"the folder {path.parent} does not exist: create it, or choose another")
        if namespace != DEFAULT_NAMESPACE:
            path = path.with_name(f"{path.stem}.{namespace}{path.suffix}")
        return cls(path, namespace, synchronous, log_limit)

    def __str__(self) -> str:
        return _MEMORY if self.path is None else str(self.path)


def _read_query(query: str) -> tuple[str, int]:
    """How safely is written, and the limit of the log in bytes."""
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = parameters.pop("synchronous", "full").lower()
    log_mib = parameters.pop("log_mib", str(DEFAULT_LIMIT_MIB))
    if parameters:
        unknown = ", ".join(sorted(parameters))
        raise SettingsError(
            f"unknown parameter in the SQLite URL: {unknown} (there are synchronous=full|normal|off and log_mib=1...)"
        )
    if synchronous not in _SYNCHRONOUS:
        raise SettingsError(f"synchronous={synchronous!r}: use one of {', '.join(_SYNCHRONOUS)}")
    if not re.fullmatch(r"[1-9][0-9]{0,6}", log_mib):
        raise SettingsError(f"log_mib={log_mib!r}: use a whole number of MiB from 1 to 9999999")
    return synchronous, int(log_mib) * MIB


# -- opening ---------------------------------------------------------------------------------------------------


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code (0 where Python raised on its own)."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    return code_of(error) == sqlite3.SQLITE_BUSY


def is_full(error: sqlite3.Error) -> bool:
    return code_of(error) == sqlite3.SQLITE_FULL


def is_passing(error: BaseException) -> bool:
    return not isinstance(error, sqlite3.Error) or code_of(error) in _PASSING


def explain(error: sqlite3.Error) -> str:
    # SQLite reports a full disk as a failing one where it makes the log's index longer
    is_index = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE
    meaning = _MEANING.get(sqlite3.SQLITE_FULL if is_index else code_of(error))
    return f"{error}" + (f" ({meaning})" if meaning else "")


def open_connection(address: Address) -> sqlite3.Connection:
    """Raises `SettingsError` for a file that is not ours, otherwise what SQLite raises."""
    if sqlite3.sqlite_version_info < (3, 35):
        raise SettingsError(f"inturn needs SQLite >= 3.35; this Python has {sqlite3.sqlite_version}")
    connection = None
    _make_private(address)
    try:
        # Only one thread at a time uses it: the writer's, or the one that forks and has stopped the writer.
        # The writer waits for a busy file itself, because SQLite's own pauses grow to 100 ms.
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


def _make_private(address: Address) -> None:
    """A new file is for its owner only, whatever the umask: messages and states are in it. SQLite gives the log and its
    index the rights of the file.
    """
    if address.path is not None and not address.path.exists():
        # where this fails SQLite says why; another process may have just made the file
        with suppress(OSError):
            os.close(os.open(address.path, os.O_CREAT | os.O_EXCL, 0o600))


def _prepare(connection: sqlite3.Connection, address: Address) -> None:
    # where a write-ahead log is not possible (memory, some file systems) this does nothing: see `warnings`
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
    """Under the write lock: makes the tables in an empty file, or checks that they are ours and upgrades them."""
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
    for statement in (files("inturn.store.sqlite") / "schema" / name).read_text("utf-8").split(";\n"):
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
    # not changed by us: whoever lets a group use the file has done so on purpose, and others may be meant as well
    if address.path is not None and (open_files := [str(file) for file in _files(address.path) if _is_open(file)]):
        found.append(
            f"every user of this machine can read or write what is in {address}; "
            f"if that is not meant: chmod o= {' '.join(open_files)}"
        )
    if address.path is None:
        found.append("sqlite:///:memory: is seen by this process only and is gone with it")
    elif address.synchronous == "off":
        found.append(f"{address} is used with synchronous=off: a power cut can damage the file and lose every lock")
    return found


def _files(path: Path) -> list[Path]:
    """The database, its log, and the index of the log."""
    return [path, Path(f"{path}-wal"), Path(f"{path}-shm")]


def _is_open(file: Path) -> bool:
    """Whether everybody may use it."""
    return file.exists() and bool(file.stat().st_mode & 0o007)


class SameFile:
    """Whether the file is still the one that was opened."""

    def __init__(self, path: Path | None) -> None:
        """`None`: a database in memory, which cannot be moved or deleted."""
        self._path = path
        self._opened: tuple[int, int] | None = None

    def was_opened(self) -> None:
        self._opened = None if self._path is None else _identity(self._path)

    def check(self) -> None:
        if self._opened is not None and self._path is not None and _identity(self._path) != self._opened:
            raise sqlite3.OperationalError(
                "the file was moved, replaced or deleted while it is in use: put it back, or restart what uses it"
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:  # it is gone, or we may not look at it any more, which is the same to us
        return None
    return found.st_dev, found.st_ino
