"""A process says that it lives, or that it closes: each verb follows lua/processes/<verb>.lua step by step.

A beat also looks after what is due and after a few locks and lanes that nobody asks for, and deletes what has expired.
"""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.limits import INBOX_LIVES_MS, MAX_DUE, MAX_NOTICES, MAX_SWEPT, PLACE_LIVES_MS, PROCESS_LIVES_MS
from inturn.store.protocol import Beat, Notice, Wait
from inturn.store.sqlite.advance import advance
from inturn.store.sqlite.arrive import arrive_due
from inturn.store.sqlite.due import advance_due, bury_late, lanes_due
from inturn.store.sqlite.lane import LANE, Lane, is_leased
from inturn.store.sqlite.letters import expire_letters
from inturn.store.sqlite.settle import lock_named, settle
from inturn.store.sqlite.transaction import Row, Transaction
from inturn.store.sqlite.watch import forget_process, forget_silent

MAX_EXPIRED = 5000
"""Expired states, and as many marks, that one beat deletes."""


def beat(tx: Transaction, process: str, letter_ms: int, noted: Sequence[Notice]) -> Beat:
    """Renews every lease and place of the process. Returns its inbox."""
    last_seen = tx.seen_at(process)
    tx.seen_now(process)
    for notice in noted:
        tx.execute(
            "DELETE FROM inbox INDEXED BY inbox_by_name "
            "WHERE process = ? AND kind = ? AND name = ? AND token = ? AND why = ?",
            (process, notice.kind, notice.name, notice.token, notice.why),
        )
    due = tx.execute("SELECT name FROM grants WHERE due <= ? ORDER BY due LIMIT ?", (tx.now, MAX_DUE)).fetchall()
    for (name,) in due + _next_to_sweep(tx):
        if lock := lock_named(tx, name):
            settle(tx, lock, None)
    arrive_due(tx)
    bury_late(tx)
    advance_due(tx)
    expire_letters(tx, letter_ms)
    _sweep_lanes(tx)
    _clear_away(tx)
    (locks_due,) = tx.one("SELECT min(due) FROM grants WHERE due IS NOT NULL", ())
    soonest = min((due for due in (locks_due, lanes_due(tx)) if due is not None), default=None)
    due_in = -1 if soonest is None else max(0, soonest - tx.now)
    inbox = tx.execute(
        "SELECT kind, name, token, why, fence FROM inbox WHERE process = ? ORDER BY number LIMIT ?",
        (process, MAX_NOTICES),
    )
    away = tx.now - last_seen if last_seen else 0
    tx.era = tx.era or tx.now_us
    return Beat(
        now_us=tx.now_us,
        era=tx.era,
        away_ms=away,
        is_known=bool(last_seen),
        due_in_ms=due_in,
        notices=[Notice(*row) for row in inbox],
        sent_at=tx.sent_at,
    )


def report(tx: Transaction, waits: Sequence[Wait]) -> int:
    """A process says what its turns, and its owners of locks, wait for. It says so again while that lasts."""
    for node in {wait.node for wait in waits}:
        tx.execute("DELETE FROM awaits WHERE node = ?", (node,))
    for wait in waits:
        if wait.token:
            arrival = wait.arrival or tx.now_us - wait.age_ms * 1000
            row = (wait.node, wait.token, wait.name, wait.ident, arrival, tx.now)
            tx.execute("INSERT INTO awaits VALUES (?, ?, ?, ?, ?, ?)", row)
    return tx.now_us


def depart(tx: Transaction, process: str) -> None:
    """A process closes in good order. It holds nothing any more."""
    tx.remove_process(process)
    tx.forget_worker(process)
    forget_process(tx, process)


def _next_to_sweep(tx: Transaction) -> list[Row]:
    """A few locks with every beat. In the end this finds all that dead processes left in locks that nobody asks for."""
    names: list[Row] = tx.execute(
        "SELECT DISTINCT name FROM grants WHERE name > (SELECT swept FROM store) ORDER BY name LIMIT ?", (MAX_SWEPT,)
    ).fetchall()
    tx.execute("UPDATE store SET swept = ?", (names[-1][0] if names else "",))
    return names


def _sweep_lanes(tx: Transaction) -> None:
    """The same for lanes, because inline turns have no alarm."""
    rows = tx.execute(
        f"SELECT {LANE} FROM lanes WHERE key > (SELECT swept_lane FROM store) ORDER BY key LIMIT ?", (MAX_SWEPT,)
    ).fetchall()
    tx.execute("UPDATE store SET swept_lane = ?", (rows[-1][0] if rows else "",))
    for row in rows:
        lane = Lane(*row)
        if lane.holder and not is_leased(tx, lane):
            advance(tx, lane)


def _clear_away(tx: Transaction) -> None:
    """Deletes what has expired, a part at a time, so that no call waits long for this."""
    tx.execute("DELETE FROM processes WHERE seen < ?", (tx.now - PROCESS_LIVES_MS,))
    forget_silent(tx)
    tx.execute("DELETE FROM workers WHERE process NOT IN (SELECT process FROM processes)")
    tx.execute("DELETE FROM inbox WHERE told < ?", (tx.now - INBOX_LIVES_MS,))
    tx.execute("DELETE FROM lost WHERE until <= ?", (tx.now,))
    tx.execute("DELETE FROM claims WHERE until <= ?", (tx.now,))
    tx.execute("DELETE FROM awaits WHERE reported <= ?", (tx.now - PLACE_LIVES_MS,))
    tx.execute(
        "DELETE FROM states WHERE key IN (SELECT key FROM states WHERE until <= ? ORDER BY until LIMIT ?)",
        (tx.now, MAX_EXPIRED),
    )
    tx.execute(
        "DELETE FROM marks WHERE (key, ident) IN "
        "(SELECT key, ident FROM marks WHERE until <= ? ORDER BY until LIMIT ?)",
        (tx.now, MAX_EXPIRED),
    )
