"""The store on SQLite."""

from __future__ import annotations

from inturn.store.sqlite.lanes import LaneVerbs
from inturn.store.sqlite.locks import LockVerbs


class SqliteStore(LockVerbs, LaneVerbs):
    """One database file, one process."""
