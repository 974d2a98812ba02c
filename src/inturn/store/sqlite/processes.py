"""A process says that it lives, or that it closes. Follows lua/beat.lua and lua/depart.lua.

A beat also looks after what is due, after a few locks and lanes that nobody asks for, and deletes what has expired.
"""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.protocol import Beat, Notice
from inturn.store.sqlite.advance import advance
from inturn.store.sqlite.due import advance_due, arrive_due, bury_late, lanes_due
from inturn.store.sqlite.lane import LANE, Lane, is_leased
from inturn.store.sqlite.settle import lock_named, settle
from inturn.store.sqlite.transaction import Row, Transaction
from inturn.store.sqlite.watching import forget_process, forget_silent

INBOX_LIVES_MS = 3_600_000
PROCESS_LIVES_MS = 8 * 86_400_000
"""Longer than any lease can live."""
EXPIRED_AT_ONCE = 5000


def beat(tx: Transaction, process: str, noted: Sequence[Notice]) -> Beat:
    """Every lease and place that the process has is renewed. It gets its inbox."""
    last_seen = tx.seen_at(process)
    tx.touch(process)
    for notice in noted:
        tx.execute(
            "DELETE FROM inbox INDEXED BY inbox_by_name "
            "WHERE process = ? AND kind = ? AND name = ? AND token = ? AND why = ?",
            (process, notice.kind, notice.name, notice.token, notice.why),
        )
    due = tx.execute("SELECT name FROM grants WHERE due <= ? ORDER BY due LIMIT 64", (tx.now,)).fetchall()
    for (name,) in due + next_to_sweep(tx):
        if lock := lock_named(tx, name):
            settle(tx, lock, None)
    arrive_due(tx)
    bury_late(tx)
    advance_due(tx)
    sweep_lanes(tx)
    clear_away(tx)
    (locks_due,) = tx.one("SELECT min(due) FROM grants WHERE due IS NOT NULL", ())
    soonest = min((due for due in (locks_due, lanes_due(tx)) if due is not None), default=None)
    due_in = -1 if soonest is None else max(0, soonest - tx.now)
    inbox = tx.execute(
        "SELECT kind, name, token, why, fence FROM inbox WHERE process = ? ORDER BY number LIMIT 1000", (process,)
    )
    away = tx.now - last_seen if last_seen else 0
    tx.era = tx.era or tx.now_us
    return Beat(tx.now_us, tx.era, away, bool(last_seen), due_in, [Notice(*row) for row in inbox], tx.sent_at)


def next_to_sweep(tx: Transaction) -> list[Row]:
    """A few names more with every beat: in the end all that the dead left in locks nobody asks for."""
    names: list[Row] = tx.execute(
        "SELECT DISTINCT name FROM grants WHERE name > (SELECT swept FROM store) ORDER BY name LIMIT 4"
    ).fetchall()
    tx.execute("UPDATE store SET swept = ?", (names[-1][0] if names else "",))
    return names


def sweep_lanes(tx: Transaction) -> None:
    """The same for the lanes: their inline turns have no alarm."""
    rows = tx.execute(
        f"SELECT {LANE} FROM lanes WHERE key > (SELECT swept_lane FROM store) ORDER BY key LIMIT 4"
    ).fetchall()
    tx.execute("UPDATE store SET swept_lane = ?", (rows[-1][0] if rows else "",))
    for row in rows:
        lane = Lane(*row)
        if lane.holder and not is_leased(tx, lane):
            advance(tx, lane)


def clear_away(tx: Transaction) -> None:
    """What has expired, a part of it at a time, so that no call waits long for this."""
    tx.execute("DELETE FROM processes WHERE seen < ?", (tx.now - PROCESS_LIVES_MS,))
    forget_silent(tx)
    tx.execute("DELETE FROM workers WHERE process NOT IN (SELECT process FROM processes)")
    tx.execute("DELETE FROM inbox WHERE told < ?", (tx.now - INBOX_LIVES_MS,))
    tx.execute("DELETE FROM lost WHERE until <= ?", (tx.now,))
    tx.execute("DELETE FROM claims WHERE until <= ?", (tx.now,))
    tx.execute(
        "DELETE FROM states WHERE key IN (SELECT key FROM states WHERE until <= ? ORDER BY until LIMIT ?)",
        (tx.now, EXPIRED_AT_ONCE),
    )
    tx.execute(
        "DELETE FROM marks WHERE (key, ident) IN "
        "(SELECT key, ident FROM marks WHERE until <= ? ORDER BY until LIMIT ?)",
        (tx.now, EXPIRED_AT_ONCE),
    )


def depart(tx: Transaction, process: str) -> None:
    """A process closes in good order, holding nothing any more."""
    tx.remove_process(process)
    tx.remove_worker(process)
    forget_process(tx, process)
