"""What becomes of turns and messages, asked or changed while they are under way: each follows lua/<verb>.lua."""

from __future__ import annotations

import json
from typing import Literal

from inturn.store.lane import Outcome, Steered
from inturn.store.sqlite.accept import MAX_MS
from inturn.store.sqlite.advance import advance
from inturn.store.sqlite.arrive import write_off
from inturn.store.sqlite.give import take_newer
from inturn.store.sqlite.kept import read_mark, word_of
from inturn.store.sqlite.lane import (
    Lane,
    is_leased,
    lane_ends,
    read_lane,
    read_message,
    save_lane,
    save_message,
    was_lost,
)
from inturn.store.sqlite.transaction import Transaction

EXPECTS_S = 6.0
"""Who awaits a result asks for it again sooner than this."""


def steer(tx: Transaction, key: str, token: str, fence: int, have: int, version: int) -> Steered:
    """A running turn takes what arrived for its handler meanwhile: it commits, or fails, with them."""
    lane = read_lane(tx, key)
    if lane is None or lane.holder != token or lane.granted != fence:
        return Steered("lost" if was_lost(tx, token, fence) else "gone")
    return Steered("steered", take_newer(tx, lane, have, version, would_commit=False))


def cancel(tx: Transaction, key: str, ident: str, window_ms: int) -> Literal["cancelled", "begun", "ended"]:
    """A message that has not begun will not: one that waits, or is delayed.

    What runs, or has run in a burst, is left alone.
    """
    mark = read_mark(tx, key, ident)
    if mark is not None and word_of(mark) == "cancelled":
        return "cancelled"
    message = read_message(tx, key, ident)
    if message is None:
        return "ended"
    if not (message.waits or message.delayed) or message.together:
        return "begun"
    is_delayed, lane = message.delayed, read_lane(tx, key) or Lane(key)
    write_off(tx, lane, message, "cancelled", window_ms)
    if not is_delayed:
        if is_leased(tx, lane):
            save_lane(tx, lane)
        else:
            advance(tx, lane)
    return "cancelled"


def confirm(tx: Transaction, key: str, token: str) -> bool:
    """Whether a turn's lease is still known here."""
    lane = read_lane(tx, key)
    return lane is not None and lane.holder == token and is_leased(tx, lane)


def attend(tx: Transaction, process: str, key: str, ident: str) -> Outcome:
    """What became of a message; if that is still open, this process will be told."""
    tx.untell("settled", f"{process}#0", f"{key}\0{ident}")
    mark = read_mark(tx, key, ident)
    if mark is not None:
        return Outcome(word_of(mark) or "done", mark)
    message = read_message(tx, key, ident)
    if message:
        message.watchers = _with(process, message.watchers)
        save_message(tx, message)
        return _pending(tx)
    lane = read_lane(tx, key)
    if lane and lane.running == ident:
        lane.awaited = _with(process, lane.awaited)
        # if its caller dies, nobody else may ever ask for this lane
        lane.alarm = min(lane.alarm or MAX_MS, lane_ends(tx, lane))
        save_lane(tx, lane)
        return _pending(tx)
    letter = tx.one("SELECT attempts, errors FROM dead_letters WHERE key = ? AND ident = ?", (key, ident))
    if letter:
        return Outcome("dead", b"", letter[0], tuple(json.loads(letter[1])))
    return Outcome("unknown")


def _with(process: str, processes: str) -> str:
    return processes if process in processes.split() else f"{processes} {process}"


def _pending(tx: Transaction) -> Outcome:
    tx.expects_until = max(tx.expects_until, tx.sent_at + EXPECTS_S)
    return Outcome("pending")
