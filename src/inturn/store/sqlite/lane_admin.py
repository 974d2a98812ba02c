"""What is done to lanes by hand: each follows lua/<verb>.lua step by step."""

from __future__ import annotations

import json
from typing import Literal

from inturn.store.sqlite.accept import stir
from inturn.store.sqlite.advance import (
    advance,
    go_idle,
    stand_ready,
    stop_yielding,
    take_lane_away,
    tell_awaiting,
)
from inturn.store.sqlite.kept import delete_state, persist_state
from inturn.store.sqlite.lane import Lane, Message, head_of, put, read_lane
from inturn.store.sqlite.transaction import Transaction

LETTER = "keep, number, key, ident, rank, body, attempts, ttl, time_limit, accepted, errors, rule, needs"


def stop(tx: Transaction, key: str, how: Literal["paused", "parked"], why: str) -> None:
    """Stop a lane: what runs may commit, and nothing else begins until it is resumed."""
    lane = read_lane(tx, key) or Lane(key)
    lane.stopped, lane.why = how, why
    advance(tx, lane)


def resume(tx: Transaction, key: str) -> bool:
    """A lane that was stopped goes on. The message it was parked for has all its attempts again."""
    lane = read_lane(tx, key)
    if lane is None or not lane.stopped:
        return False
    head = head_of(tx, lane) if lane.stopped == "parked" else None
    if head:
        head.attempts, head.after = 0, 0
        put(tx, lane, head)
    lane.stopped, lane.why = "", ""
    advance(tx, lane)
    return True


def clear(tx: Transaction, key: str) -> int:
    """Empty a lane: its messages, its state and its stop are gone, and the turn that runs loses its lease."""
    lane = read_lane(tx, key)
    rows = tx.execute("DELETE FROM messages WHERE key = ? RETURNING ident, watchers, caller", (key,)).fetchall()
    for ident, watchers, caller in rows:
        tell_awaiting(tx, watchers, key, ident)
        if caller:  # an inline caller that waits asks again
            tx.tell_loss(key, caller, 0, "the lane was cleared")
    delete_state(tx, key)
    if lane:
        lane.waiting = 0
        if lane.yields:
            stop_yielding(lane)
        if lane.holder:
            take_lane_away(tx, lane, "the lane was cleared")
        stand_ready(tx, lane, "")
        go_idle(tx, lane)
    return len(rows)


def replay(tx: Transaction, key: str, ident: str) -> bool:
    """A dead letter goes back to its old place in its lane, past the duplicate check, with all its attempts."""
    row = tx.one(f"DELETE FROM dead_letters WHERE key = ? AND ident = ? RETURNING {LETTER}", (key, ident))
    if row is None:
        return False
    keep, *values, errors, rule, needs = row
    lane = read_lane(tx, key) or Lane(key)
    left = persist_state(tx, key)
    lane.keep = max(lane.keep, left) or keep  # a state that was written since knows its own time
    message = Message(*values)
    message.attempts, message.errors, message.is_open = 0, json.loads(errors), False
    message.rule_text, message.needs = rule, needs
    tx.execute("DELETE FROM marks WHERE key = ? AND ident = ?", (key, ident))
    put(tx, lane, message)
    stir(tx, lane)
    return True


def drop(tx: Transaction, key: str, ident: str) -> bool:
    """A dead letter is gone for good."""
    return tx.execute("DELETE FROM dead_letters WHERE key = ? AND ident = ?", (key, ident)).rowcount > 0
