"""What other processes tell this one: its rows of the inbox, read once each, soon after they were committed.

SQLite does not push. It says cheaply whether anyone else has committed (`PRAGMA data_version`), and that is
asked often while a place of ours waits, a worker of ours is idle, we await a result or watch a lane. Whatever is
missed here comes with the next beat; but what is said of lanes that we watch is only heard here.
"""

from __future__ import annotations

import sqlite3

from inturn.store.protocol import Notice
from inturn.store.sqlite.ears import Ears
from inturn.store.sqlite.transaction import Transaction

LOOK_WAITING_S = 0.002
LOOK_IDLE_S = 0.05
RECOUNT_S = 1.0


class Inbox:
    def __init__(self, process: str, ears: Ears) -> None:
        self._process = process
        self._ears = ears
        self._read_to = 0
        self._version = -1
        self._is_new = False
        self._looked_at = 0.0
        self._has_places = False
        self._counted_at = 0.0
        self._expects_until = 0.0
        self.heard_to = 0
        """The number of what we heard last."""
        self.heard = 0
        """How much we have heard, ever."""

    @property
    def pause_s(self) -> float:
        is_waiting = self._has_places or self._looked_at < self._expects_until or self._ears
        return LOOK_WAITING_S if is_waiting else LOOK_IDLE_S

    def is_due(self, at: float) -> bool:
        return self._is_new or at - self._looked_at >= self.pause_s

    def committed(self, tx: Transaction) -> None:
        """Our own commits do not change `data_version`."""
        self._is_new = self._is_new or tx.is_told
        self._expects_until = max(self._expects_until, tx.expects_until)
        if tx.has_places and not self._has_places:
            self._has_places, self._counted_at = True, tx.sent_at

    def reopened(self) -> None:
        """The versions of one connection say nothing about those of another."""
        self._version = -1

    def look(self, connection: sqlite3.Connection, at: float) -> list[Notice]:
        self._looked_at = at
        if self._has_places and at - self._counted_at >= RECOUNT_S:
            self._counted_at = at
            self._has_places = self._count_places(connection)
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version == self._version and not self._is_new:
            return []
        rows = connection.execute(
            "SELECT kind, name, token, why, fence, number FROM inbox WHERE process = ? AND number > ? ORDER BY number",
            (self._process, self._read_to),
        ).fetchall()
        self._version, self._is_new = version, False
        if rows:
            self._read_to = rows[-1][5]
        if self._ears:
            self._listen(connection)
        return [Notice(*row[:5]) for row in rows]

    def _listen(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(
            "SELECT number, key, text FROM heard WHERE process = ? AND number > ? ORDER BY number",
            (self._process, self.heard_to),
        ).fetchall()
        for self.heard_to, key, text in rows:
            self._ears.hear(key, text)
        self.heard += len(rows)

    def _count_places(self, connection: sqlite3.Connection) -> bool:
        """Whether any place of ours waits: tokens are `<process>#<number>`, and `$` comes after `#`."""
        row = connection.execute(
            "SELECT EXISTS (SELECT 1 FROM places WHERE token >= ?1 AND token < ?2) "
            "OR EXISTS (SELECT 1 FROM messages WHERE caller >= ?1 AND caller < ?2)",
            (f"{self._process}#", f"{self._process}$"),
        ).fetchone()
        return bool(row[0])
