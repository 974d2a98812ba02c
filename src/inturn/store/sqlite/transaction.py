"""One transaction of the writer: the store's clock, its counter, processes, and what processes are told.

The clock and the counter are read once when the transaction begins, and written once when it ends. A transaction that
is rolled back takes its numbers with it; nobody has seen them. Follows lua/include/clock.lua, partition.lua, tell.lua
and worker.lua.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from inturn.store import clock
from inturn.store.limits import LOST_NOTE_MS
from inturn.store.protocol import Grant, Kind, Notice

Row = tuple[Any, ...]
Audience = Mapping[str, Sequence[str]]
"""Who watches: key -> processes."""
NOBODY: Audience = {}
WallClock = Callable[[], int]


def wall_us() -> int:
    return time.time_ns() // 1000


def process_of(token: str) -> str:
    return token.rpartition("#")[0]


class Transaction:
    """`now` and `now_us` stand still within it. `notices` and `heard` go out in this process once it is committed."""

    __slots__ = (
        "_changes", "_fence", "_seen", "audience", "connection", "era", "execute", "expects_until", "has_places",
        "heard", "is_told", "notices", "now", "now_us", "process", "sent_at", "unheard", "watching",
    )  # fmt: skip

    def __init__(self, connection: sqlite3.Connection, process: str, wall: WallClock = wall_us) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.process = process
        self.sent_at = clock.now()
        stored_us, fence, self.era, self.watching = self.execute(
            "SELECT now_us, fence, era, watching FROM store"
        ).fetchone()
        self._fence: int = fence
        self.now_us: int = max(stored_us, wall())
        self.now = self.now_us // 1000
        self.notices: list[Notice] = []
        self.is_told = False
        """Something was put into our own inbox."""
        self.has_places = False
        """A place of ours was added, for a lock or for an inline turn."""
        self.expects_until = 0.0
        """Until then (our clock) we expect a notice: for an idle worker of ours, or about a result."""
        self.audience: Audience = NOBODY
        """Who watches. The writer knows, so that no transaction has to look."""
        self.heard: tuple[tuple[str, bytes], ...] = ()
        self.unheard: dict[str, int] | None = None
        """How many texts each process that this transaction told something has not read yet: see `watch.py`."""
        self._seen: dict[str, int] = {}
        self._changes = connection.total_changes

    def end(self) -> None:
        """Commits. A transaction that only read writes nothing, and so costs no sync of the disk."""
        if self.connection.total_changes != self._changes:
            self.execute(
                "UPDATE store SET now_us = ?, fence = ?, era = ?, watching = ?",
                (self.now_us, self._fence, self.era, self.watching),
            )
        self.execute("COMMIT")

    def one(self, sql: str, values: Row) -> Any:
        return self.execute(sql, values).fetchone()

    # -- numbers ---------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Arrivals and fences come from one counter. It follows the clock, so it goes on growing in a new file."""
        is_first = self._fence == 0
        self._fence = max(self._fence + 1, self.now_us)
        if is_first:
            self.era = self._fence
        return self._fence

    # -- processes -------------------------------------------------------------------------------------------

    def seen_at(self, process: str) -> int:
        seen = self._seen.get(process)
        if seen is None:
            row = self.one("SELECT seen FROM processes WHERE process = ?", (process,))
            seen = self._seen[process] = row[0] if row else 0
        return seen

    def seen_now(self, process: str) -> None:
        if self._seen.get(process) != self.now:
            self.execute(
                "INSERT INTO processes VALUES (?, ?, ?) "
                "ON CONFLICT (process) DO UPDATE SET seen = excluded.seen, home = excluded.home",
                (process, self.now, home()),
            )
            self._seen[process] = self.now

    def remove_process(self, process: str) -> None:
        self.execute("DELETE FROM processes WHERE process = ?", (process,))
        self.execute("DELETE FROM inbox WHERE process = ?", (process,))
        self._seen[process] = 0

    def forget_worker(self, process: str) -> None:
        self.execute("DELETE FROM idle WHERE process = ?", (process,))
        self.execute("DELETE FROM workers WHERE process = ?", (process,))
        self.execute("DELETE FROM inbox WHERE process = ? AND kind = 'ready'", (process,))

    def is_dead(self, process: str) -> bool:
        """Whether its pid is gone. We can tell that only for a process with our own host name and `home()`."""
        host, _, rest = process.rpartition(":")[0].rpartition(":")
        if not rest.isdigit() or host != self.process.rpartition(":")[0].rpartition(":")[0]:
            return False
        row = self.one("SELECT home FROM processes WHERE process = ?", (process,))
        if row is None or row[0] != home():
            return False
        try:
            os.kill(int(rest), 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            pass
        return False

    # -- telling ---------------------------------------------------------------------------------------------

    def tell(self, process: str, kind: Kind, token: str, name: str, why: str = "", fence: int = 0) -> None:
        """Puts a notice into the inbox of a process. Our own inbox is read as soon as this is committed."""
        row = (process, self.tick(), kind, token, name, why, fence, self.now)
        self.execute("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        if process == self.process:
            self.is_told = True

    def untell(self, kind: Kind, token: str, name: str) -> None:
        """Takes a notice back: the process knows of it, or no longer needs to."""
        self.execute(
            "DELETE FROM inbox INDEXED BY inbox_by_name WHERE process = ? AND kind = ? AND name = ? AND token = ?",
            (process_of(token), kind, name, token),
        )

    def tell_loss(self, name: str, token: str, fence: int, why: str) -> None:
        """Tells a holder that its lease ended against its will.

        A note makes sure that what the holder does later is refused. The fence tells which grant was lost, as the token
        may have got another since.
        """
        if fence > 0:
            self.execute("INSERT OR REPLACE INTO lost VALUES (?, ?, ?)", (token, why, self.now + LOST_NOTE_MS))
        self.tell(process_of(token), "lost", token, name, why, fence)

    def is_lost(self, token: str) -> bool:
        return self.one("SELECT 1 FROM lost WHERE token = ? AND until > ?", (token, self.now)) is not None

    def forget_loss(self, token: str) -> None:
        self.execute("DELETE FROM lost WHERE token = ?", (token,))

    def hand_over(self, name: str, grants: list[Grant]) -> None:
        """Hands complete grants to other waiting places of the calling process."""
        for grant in grants:
            self.notices.append(Notice("granted", name, grant.token, grant=grant, sent_at=self.sent_at))


@cache
def home() -> str:
    """Where our pid means something: this boot of this machine, and this pid namespace (a container has its own)."""
    parts = []
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(Path(path).readlink().name if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            parts.append("")
    return "/".join(parts)
