"""The verbs of a worker, as functions of a transaction: each follows lua/workers/<verb>.lua step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence

from inturn.store.lane import Claimed, Given
from inturn.store.limits import BEHIND_MS, CLAIM_NOTE_MS, MAX_DUE
from inturn.store.sqlite.advance import advance, end_lease, stand_ready, stop_yielding
from inturn.store.sqlite.arrive import arrive_due
from inturn.store.sqlite.due import advance_due, bury_late, lanes_due
from inturn.store.sqlite.give import give_next
from inturn.store.sqlite.lane import LANE, Lane, given, is_leased, put, read_lane, read_state, running_message
from inturn.store.sqlite.transaction import Transaction

WORKER_EXPECTS_S = 3.0
"""A worker that found no work asks again sooner than this."""


def claim(tx: Transaction, process: str, call: str, can: Sequence[str], count: int) -> Claimed:
    """Leases up to `count` ready lanes to a worker, each with its next message and its state."""
    turns: list[Given] = []
    empties: list[str] = []
    tx.seen_now(process)
    note = tx.one("SELECT turns FROM claims WHERE call = ? AND until > ?", (call, tx.now))
    if note:  # a repeat gets what was given the first time, as far as it is still leased to it
        for key, token in json.loads(note[0]):
            lane = read_lane(tx, key)
            if lane and lane.holder == token:
                turns.append(given(tx, lane, running_message(tx, lane), read_state(tx, key)))
        return Claimed(turns, 0)

    _works(tx, process, can)
    _not_idle(tx, process, can)
    tx.execute("DELETE FROM inbox WHERE process = ? AND kind = 'ready'", (process,))
    arrive_due(tx)
    bury_late(tx)
    advance_due(tx)
    has_more = True
    while has_more and len(turns) < count:
        has_more = False
        for handler in can:  # one lane of each handler, then the next round
            lane = _next_ready(tx, handler, empties) if len(turns) < count else None
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
    soonest = lanes_due(tx) if len(empties) < MAX_DUE else tx.now
    return Claimed(turns, -1 if soonest is None else max(0, soonest - tx.now))


def _not_idle(tx: Transaction, process: str, can: Sequence[str]) -> None:
    marks = ", ".join("?" for _ in can)
    tx.execute(f"DELETE FROM idle WHERE process = ? AND handler IN ({marks})", (process, *can))


def _works(tx: Transaction, process: str, can: Sequence[str]) -> None:
    """A process may have several workers, each for some handlers: it runs all of them."""
    found = tx.one("SELECT can FROM workers WHERE process = ?", (process,))
    runs = found[0] if found else "\0"
    more = "".join(f"{name}\0" for name in can if f"\0{name}\0" not in runs)
    tx.execute("INSERT OR REPLACE INTO workers VALUES (?, ?)", (process, runs + more))


def _next_ready(tx: Transaction, handler: str, empties: list[str]) -> Lane | None:
    """The next lane of this handler. Groups take turns: one that has had a turn stands behind all that come within
    `BEHIND_MS`, and keeps that place although it may have no more lanes: it would come back to a better one.
    """
    while len(empties) < MAX_DUE:
        lane = _first_ready(tx, handler)
        group = tx.one("SELECT name, place FROM groups WHERE handler = ? ORDER BY place LIMIT 1", (handler,))
        if group is None or (lane is not None and lane.place is not None and lane.place < group[1]):
            return lane
        name = group[0]
        lane = _first_ready(tx, f"{handler}\0{name}")
        if lane is not None:
            place = tx.tick() + BEHIND_MS * 1000
            tx.execute("UPDATE groups SET place = ? WHERE handler = ? AND name = ?", (place, handler, name))
            return lane
        tx.execute("DELETE FROM groups WHERE handler = ? AND name = ?", (handler, name))
        empties.append(name)
    return None


def _first_ready(tx: Transaction, ready: str) -> Lane | None:
    row = tx.one(f"SELECT {LANE} FROM lanes WHERE ready = ? AND place > 0 ORDER BY place LIMIT 1", (ready,))
    return Lane(*row) if row else None


def claim_lane(tx: Transaction, process: str, call: str, can: Sequence[str], key: str) -> Given | None:
    """Leases this lane, if it is ready, to a process that waits for something in it: as a claim of that lane alone."""
    token = f"{call}.1"
    tx.seen_now(process)
    lane, what = read_lane(tx, key), None
    if tx.one("SELECT 1 FROM claims WHERE call = ? AND until > ?", (call, tx.now)):
        # a repeat gets what was given the first time, if it is still leased to it
        if lane and lane.holder == token:
            what = given(tx, lane, running_message(tx, lane))
    else:
        if lane and not is_leased(tx, lane):
            advance(tx, lane)  # its last holder may be gone, or its time may have come
            lane = read_lane(tx, key)
        if lane and not lane.holder and lane.ready.partition("\0")[0] in can:
            stand_ready(tx, lane, "")
            what = give_next(tx, lane, token, can)
        pairs = json.dumps([(key, token)] if what else [])
        tx.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (call, pairs, tx.now + CLAIM_NOTE_MS))
    return None if what is None else what._replace(state=read_state(tx, key))


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
