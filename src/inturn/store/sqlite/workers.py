"""The verbs of a worker, as functions of a transaction: each follows lua/workers/<verb>.lua step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence

from inturn.store.lane import Claimed, Given
from inturn.store.limits import CLAIM_NOTE_MS
from inturn.store.sqlite.advance import advance, end_lease, stop_yielding
from inturn.store.sqlite.arrive import arrive_due
from inturn.store.sqlite.due import advance_due, bury_late, lanes_due
from inturn.store.sqlite.give import give_next
from inturn.store.sqlite.lane import LANE, Lane, given, put, read_lane, read_state, running_message
from inturn.store.sqlite.transaction import Transaction

WORKER_EXPECTS_S = 3.0
"""A worker that found no work asks again sooner than this."""


def claim(tx: Transaction, process: str, call: str, can: Sequence[str], count: int) -> Claimed:
    """Leases up to `count` ready lanes to a worker, each with its next message and its state."""
    turns: list[Given] = []
    tx.seen_now(process)
    note = tx.one("SELECT turns FROM claims WHERE call = ? AND until > ?", (call, tx.now))
    if note:  # a repeat gets what was given the first time, as far as it is still leased to it
        for key, token in json.loads(note[0]):
            lane = read_lane(tx, key)
            if lane and lane.holder == token:
                turns.append(given(tx, lane, running_message(tx, lane), read_state(tx, key)))
        return Claimed(turns, 0)

    tx.execute("INSERT OR REPLACE INTO workers VALUES (?, ?)", (process, "\0" + "".join(f"{name}\0" for name in can)))
    tx.execute("DELETE FROM idle WHERE process = ?", (process,))
    tx.execute("DELETE FROM inbox WHERE process = ? AND kind = 'ready'", (process,))
    arrive_due(tx)
    bury_late(tx)
    advance_due(tx)
    has_more = True
    while has_more and len(turns) < count:
        has_more = False
        for handler in can:  # one lane of each handler, then the next round
            lane = _first_ready(tx, handler) if len(turns) < count else None
            if lane:
                has_more = True
                lane.ready, lane.place = "", None
                what = give_next(tx, lane, f"{call}.{len(turns) + 1}", can)
                if what:
                    turns.append(what._replace(state=read_state(tx, lane.key)))
    pairs = json.dumps([(turn.key, turn.token) for turn in turns])
    tx.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (call, pairs, tx.now + CLAIM_NOTE_MS))
    if len(turns) < count:
        for handler in can:
            tx.execute("INSERT INTO idle VALUES (?, ?, ?)", (handler, tx.tick(), process))
        tx.expects_until = max(tx.expects_until, tx.sent_at + WORKER_EXPECTS_S)
    soonest = lanes_due(tx)
    return Claimed(turns, -1 if soonest is None else max(0, soonest - tx.now))


def _first_ready(tx: Transaction, handler: str) -> Lane | None:
    row = tx.one(f"SELECT {LANE} FROM lanes WHERE ready = ? AND place > 0 ORDER BY place LIMIT 1", (handler,))
    return Lane(*row) if row else None


def unclaim(tx: Transaction, call: str) -> int:
    """Gives back what this claim was given and nobody took, as if it had not been given."""
    count = 0
    note = tx.one("SELECT turns FROM claims WHERE call = ? AND until > ?", (call, tx.now))
    # the note stays: if the claim itself comes after this, it finds the note and gives nothing
    tx.execute("INSERT OR REPLACE INTO claims VALUES (?, '[]', ?)", (call, tx.now + CLAIM_NOTE_MS))
    given_to = (
        json.loads(note[0])
        if note
        else tx.execute(
            # the caller was away for longer than notes live: look for the lanes that its tokens hold
            "SELECT key, holder FROM lanes WHERE holder >= ? AND holder < ?",
            (f"{call}.", f"{call}/"),
        ).fetchall()
    )
    for key, token in given_to:
        lane = read_lane(tx, key)
        if lane and lane.holder == token:
            message = running_message(tx, lane)
            message.attempts -= 1
            put(tx, lane, message)
            end_lease(lane)
            advance(tx, lane)
            count += 1
        elif lane and lane.yields == token:
            stop_yielding(lane)
            advance(tx, lane)
    return count


def unwork(tx: Transaction, process: str) -> None:
    """A worker stops: it is not woken any more, and no longer counts as running its handlers."""
    tx.forget_worker(process)
