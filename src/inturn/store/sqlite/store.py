"""The store on SQLite."""

from __future__ import annotations

from inturn.errors import SettingsError
from inturn.store.sqlite.lanes import LaneVerbs
from inturn.store.sqlite.locks import LockVerbs
from inturn.store.sqlite.watches import WatchVerbs


class SqliteStore(LockVerbs, LaneVerbs, WatchVerbs):
    """One database file, one process."""

    def must_share(self) -> None:
        raise SettingsError("shares= needs Redis: nobody else can lock a plain key in a SQLite file")
