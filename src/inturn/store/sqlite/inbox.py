"""What other processes tell this one: its rows of the inbox, each read once, soon after it was committed.

SQLite does not push. It says cheaply whether another connection has committed (`PRAGMA data_version`). We ask often
while a place of ours waits, a worker of ours is idle, or we await a result or watch a lane. A notice that is missed
here comes with the next beat; what is said about lanes that we watch is only read here.
"""

from __future__ import annotations

import sqlite3

from inturn.store.protocol import Notice
from inturn.store.sqlite.transaction import Transaction
from inturn.store.sqlite.watch import Relay

LOOK_WAITING_S = 0.002
LOOK_IDLE_S = 0.05
"""How often we look: while a notice may come at any time, and otherwise."""
RECOUNT_S = 1.0
"""How often we count whether any place of ours still waits."""


class Inbox:
    def __init__(self, process: str, relay: Relay) -> None:
        self._process = process
        self._relay = relay
        self._read_to = 0
        self._version = -1
        self._is_new = False
        self._looked_at = 0.0
        self._has_places = False
        self._counted_at = 0.0
        self._expects_until = 0.0

    @property
    def pause_s(self) -> float:
        is_waiting = self._has_places or self._looked_at < self._expects_until or self._relay.is_watching
        return LOOK_WAITING_S if is_waiting else LOOK_IDLE_S

    def is_due(self, at: float) -> bool:
        return self._is_new or at - self._looked_at >= self.pause_s

    def committed(self, tx: Transaction) -> None:
        """Takes in what a transaction of our own has done: `data_version` changes only for those of others."""
        self._is_new = self._is_new or tx.is_told
        self._expects_until = max(self._expects_until, tx.expects_until)
        if tx.has_places and not self._has_places:
            self._has_places, self._counted_at = True, tx.sent_at

    def reopened(self) -> None:
        """There is a new connection: its data versions cannot be compared with those of the old one."""
        self._version = -1

    def look(self, connection: sqlite3.Connection, at: float) -> list[Notice]:
        """Reads what is new, if anyone has committed since the last look."""
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
        if self._relay.is_watching:
            self._relay.read(connection)
        return [Notice(*row[:5]) for row in rows]

    def _count_places(self, connection: sqlite3.Connection) -> bool:
        """Whether any place of ours waits: tokens are `<process>#<number>`, and `$` comes after `#`."""
        row = connection.execute(
            "SELECT EXISTS (SELECT 1 FROM places WHERE token >= ?1 AND token < ?2) "
            "OR EXISTS (SELECT 1 FROM messages WHERE caller >= ?1 AND caller < ?2)",
            (f"{self._process}#", f"{self._process}$"),
        ).fetchone()
        return bool(row[0])
