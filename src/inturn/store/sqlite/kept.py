"""What a lane keeps beside its row and its messages: its state, and the marks of messages that ended.

What has expired is not read, whether it has been deleted yet or not. A mark is the result of a message that was
committed; or byte 1 and an ident: see that one's mark; or byte 0 and a word: it will never run.
"""

from __future__ import annotations

from typing import Literal

from inturn.store.sqlite.lane import Lane
from inturn.store.sqlite.transaction import Transaction


def read_state(tx: Transaction, key: str) -> bytes | None:
    row = tx.one("SELECT state FROM states WHERE key = ? AND (until IS NULL OR until > ?)", (key, tx.now))
    return row[0] if row else None


def write_state(tx: Transaction, key: str, state: bytes, until: int | None) -> None:
    tx.execute(
        "INSERT INTO states VALUES (?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET state = excluded.state, until = excluded.until",
        (key, state, until),
    )


def delete_state(tx: Transaction, key: str) -> None:
    tx.execute("DELETE FROM states WHERE key = ?", (key,))


def persist_state(tx: Transaction, key: str) -> int:
    """It does not expire any more. Answers how long it had left (ms; 0: it is not there, or had no end)."""
    row = tx.one("SELECT until FROM states WHERE key = ? AND until > ?", (key, tx.now))
    if row is None:
        return 0
    tx.execute("UPDATE states SET until = NULL WHERE key = ?", (key,))
    return int(row[0] - tx.now)


def expire_state(tx: Transaction, key: str, keep_ms: int) -> None:
    """Its time begins now, if it was held by messages, or written by a turn just now. Else it has its time already."""
    tx.execute("UPDATE states SET until = ? WHERE key = ? AND until IS NULL", (tx.now + keep_ms, key))


def renew_state(tx: Transaction, key: str, keep_ms: int) -> None:
    """A commit that does not touch the state renews it. What has expired does not come back."""
    tx.execute("UPDATE states SET until = max(until, ?1 + ?2) WHERE key = ?3 AND until > ?1", (tx.now, keep_ms, key))


def prolong_state(tx: Transaction, lane: Lane, keep_ms: int) -> None:
    """The same when the lane is idle now: messages that came and went during the turn have taken its time away."""
    renew_state(tx, lane.key, keep_ms)
    expire_state(tx, lane.key, max(lane.keep, keep_ms))


def read_mark(tx: Transaction, key: str, ident: str) -> bytes | None:
    """All of a burst have one result: theirs point to the one of its lead."""
    mark = _read_one_mark(tx, key, ident)
    return _read_one_mark(tx, key, mark[1:].decode()) if mark is not None and mark[:1] == b"\1" else mark


def _read_one_mark(tx: Transaction, key: str, ident: str) -> bytes | None:
    row = tx.one("SELECT result FROM marks WHERE key = ? AND ident = ? AND until > ?", (key, ident, tx.now))
    return row[0] if row else None


def word_of(mark: bytes) -> Literal["superseded", "cancelled"] | None:
    """Why a message will never run; `None` if it has."""
    if mark[:1] != b"\0":
        return None
    return "superseded" if mark == b"\0superseded" else "cancelled"


def write_mark(tx: Transaction, key: str, ident: str, mark: bytes, window_ms: int) -> None:
    tx.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)", (key, ident, mark, tx.now + window_ms))


def point_mark(tx: Transaction, key: str, ident: str, lead: str, window_ms: int) -> None:
    write_mark(tx, key, ident, b"\1" + lead.encode(), window_ms)
