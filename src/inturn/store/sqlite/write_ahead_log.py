"""The write-ahead log of a database file: kept short, and bounded while a reader keeps us from shortening it.

SQLite begins the log anew only when nobody reads from it. A reader that stays (a stopped process, a shell with an open
transaction, a backup) makes it grow with every commit, until the disk is full. See docs/decisions/017.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from inturn.store import clock

MIB = 1024 * 1024
DEFAULT_LIMIT_MIB = 256
SHORTEN_FROM = 8 * MIB
"""SQLite itself shortens a log of 4 MiB, if it finds a moment in which nobody reads."""
READERS_HAVE_MS = 20
"""How long we wait for readers to end: ours read for less than a millisecond."""
AGAIN_S = 0.5
"""When we try again after a reader did not end."""
SPARE = 4 * MIB
"""Room on the disk that is left for a check-point, beside what it makes the database file grow by."""

_READ_LOCKS = range(123, 128)
"""The bytes of the file `-shm` that readers lock."""


class LogTooLong(sqlite3.OperationalError):
    """Nothing was written: the log must not grow."""


class WriteAheadLog:
    """For the thread of the writer. A database in memory (`path` is `None`) has no log."""

    def __init__(self, path: Path | None, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._file = f"{path}-wal"
        self._shorten_from = min(SHORTEN_FROM, limit)
        self._again_at = 0.0
        self._why = ""

    def was_opened(self, connection: sqlite3.Connection) -> None:
        if self._path is not None:
            disk = os.statvfs(self._path)
            self._shorten_from = min(self._shorten_from, disk.f_blocks * disk.f_frsize // 8)
            # SQLite reuses the file of a log that begins anew: what is longer than this is in use
            connection.execute(f"PRAGMA journal_size_limit = {self._shorten_from}").fetchone()

    def check(self, connection: sqlite3.Connection, *, is_begin: bool) -> None:
        """Before a transaction: shortens the log if it is long. Raises `LogTooLong` where that fails and there is no
        room for more. What only ends something (`is_begin` is false) has a quarter more.
        """
        if self._length() < self._shorten_from or (clock.now() >= self._again_at and self.shorten(connection)):
            return
        length = self._length()  # another process may have shortened it meanwhile
        limit, spare = (self._limit, 2 * SPARE) if is_begin else (self._limit * 5 // 4, SPARE)
        if length >= limit:
            raise LogTooLong(f"the log {self._file} is over its limit of {self._limit // MIB} MiB: {self._why}")
        if self._free_after_checkpoint(connection) < min(spare, self._shorten_from):
            raise LogTooLong(f"the log {self._file} leaves no room on the disk: {self._why}")

    def shorten(self, connection: sqlite3.Connection) -> bool:
        """Writes the log into the database file and empties it, unless somebody reads from it."""
        if self._path is None:
            return False
        try:
            connection.execute(f"PRAGMA busy_timeout = {READERS_HAVE_MS}").fetchone()
            (is_prevented, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._why = (
                f"{_readers(self._path)} an old state of the file; end that, or the process" if is_prevented else ""
            )
        except sqlite3.OperationalError as error:  # no room for what the database file would grow by, for example
            is_prevented, self._why = True, f"it cannot be written into the database file ({error})"
        finally:
            connection.execute("PRAGMA busy_timeout = 0").fetchone()
        if is_prevented:
            self._again_at = clock.now() + AGAIN_S
        return not is_prevented

    def _length(self) -> int:
        if self._path is None:
            return 0
        try:
            return os.stat(self._file).st_size  # noqa: PTH116 - before every transaction: a Path costs more than the call
        except FileNotFoundError:
            return 0

    def _free_after_checkpoint(self, connection: sqlite3.Connection) -> int:
        assert self._path is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        grows_by: int = max(0, pages * page_size - self._path.stat().st_size)
        disk = os.statvfs(self._path)
        return disk.f_bavail * disk.f_frsize - grows_by


def _readers(path: Path) -> str:
    """Who reads, as the subject of a sentence. Opening the file to ask would drop our own locks; /proc shows them."""
    found = set()
    try:
        inode = Path(f"{path}-shm").stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            # 1: POSIX ADVISORY READ <pid> <major>:<minor>:<inode> <first> <last>
            words = line.split()
            if words[1:2] == ["POSIX"] and words[5].endswith(f":{inode}") and int(words[6]) in _READ_LOCKS:
                found.add(int(words[4]))
        names = [f"{pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})" for pid in sorted(found)]
    except (OSError, ValueError, IndexError):  # another system, or the process has just ended
        names = [str(pid) for pid in sorted(found)]
    if not names:
        return "somebody reads"
    return f"process {names[0]} reads" if len(names) == 1 else f"processes {', '.join(names)} read"
