"""What is due: messages that are late, that were delayed until now, and lanes whose alarm rings.

Follows lua/include/due.lua, function by function.
"""

from __future__ import annotations

from inturn.store.sqlite.accept import stir
from inturn.store.sqlite.advance import add_error, advance, bury
from inturn.store.sqlite.arrive import arrive
from inturn.store.sqlite.lane import LANE, Lane, is_leased, read_lane, read_message, save_lane
from inturn.store.sqlite.transaction import Transaction

AT_ONCE = 64


def bury_late(tx: Transaction) -> None:
    """Messages that should have begun by a time that has passed, and never did; also behind a turn that runs."""
    rows = tx.execute(
        "SELECT key, ident FROM messages WHERE late > 0 AND late < ? ORDER BY late LIMIT ?", (tx.now, AT_ONCE)
    ).fetchall()
    for key, ident in rows:
        lane, message = read_lane(tx, key), read_message(tx, key, ident)
        if lane and message:  # `advance` has buried it, if it came behind another late one
            add_error(tx, message, "LaneTimeout", "not begun in time")
            bury(tx, lane, message)
            if is_leased(tx, lane):
                save_lane(tx, lane)
            else:
                advance(tx, lane)


def arrive_due(tx: Transaction) -> None:
    """Delayed messages whose time has come."""
    rows = tx.execute(
        "SELECT key, ident FROM messages WHERE delayed = 1 AND after <= ? ORDER BY after LIMIT ?", (tx.now, AT_ONCE)
    ).fetchall()
    for key, ident in rows:
        message = read_message(tx, key, ident)
        if message:  # one that came before it may have superseded it
            lane, keep_ms = read_lane(tx, key) or Lane(key), message.keep
            message.accepted, message.after, message.keep, message.delayed = message.after, 0, 0, False
            arrive(tx, lane, message, keep_ms)
            stir(tx, lane)


def advance_due(tx: Transaction) -> None:
    """Lanes whose alarm rings."""
    rows = tx.execute(f"SELECT {LANE} FROM lanes WHERE alarm <= ? ORDER BY alarm LIMIT ?", (tx.now, AT_ONCE)).fetchall()
    for row in rows:
        advance(tx, Lane(*row))


def lanes_due(tx: Transaction) -> int | None:
    """When something is due in any lane."""
    (soonest,) = tx.one(
        "SELECT min(due) FROM (SELECT min(alarm) AS due FROM lanes WHERE alarm IS NOT NULL "
        "UNION ALL SELECT min(late) FROM messages WHERE late > 0 "
        "UNION ALL SELECT min(after) FROM messages WHERE delayed = 1)",
        (),
    )
    return None if soonest is None else int(soonest)
