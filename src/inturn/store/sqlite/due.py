"""What is due: messages that should have begun by now, and lanes whose alarm rings.

Follows lua/include/due.lua, function by function.
"""

from __future__ import annotations

from inturn.store.limits import MAX_DUE
from inturn.store.sqlite.advance import add_error, advance, bury
from inturn.store.sqlite.lane import LANE, Lane, is_leased, read_lane, read_message, save_lane
from inturn.store.sqlite.transaction import Transaction


def bury_late(tx: Transaction) -> None:
    """Buries messages that have not begun in time, also those behind a running turn."""
    rows = tx.execute(
        "SELECT key, ident FROM messages WHERE late > 0 AND late < ? ORDER BY late LIMIT ?", (tx.now, MAX_DUE)
    ).fetchall()
    for key, ident in rows:
        lane, message = read_lane(tx, key), read_message(tx, key, ident)
        if lane and message:  # `advance` may have buried it already, behind another late one
            add_error(tx, message, "LaneTimeout", "not begun in time")
            bury(tx, lane, message)
            if is_leased(tx, lane):
                save_lane(tx, lane)
            else:
                advance(tx, lane)


def advance_due(tx: Transaction) -> None:
    """Advances lanes whose alarm rings."""
    rows = tx.execute(f"SELECT {LANE} FROM lanes WHERE alarm <= ? ORDER BY alarm LIMIT ?", (tx.now, MAX_DUE)).fetchall()
    for row in rows:
        advance(tx, Lane(*row))


def lanes_due(tx: Transaction) -> int | None:
    """When the next thing is due in any lane."""
    (soonest,) = tx.one(
        "SELECT min(due) FROM (SELECT min(alarm) AS due FROM lanes WHERE alarm IS NOT NULL "
        "UNION ALL SELECT min(late) FROM messages WHERE late > 0 "
        "UNION ALL SELECT min(after) FROM messages WHERE delayed = 1)",
        (),
    )
    return None if soonest is None else int(soonest)
