"""Whether the file is still the one that was opened.

SQLite writes on into a file that was moved, replaced or deleted: what it acknowledges then is gone with the process.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path


class SameFile:
    def __init__(self, path: Path | None) -> None:
        """`None`: a database in memory, which cannot be lost in this way."""
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
    except OSError:  # it is gone, or may not be looked at any more, which is the same to us
        return None
    return found.st_dev, found.st_ino
