"""The verbs of a lane, as functions of a transaction: each follows lua/<verb>.lua step by step.

A verb that fails half-way is undone by the writer, which rolls the transaction back.
"""

from __future__ import annotations

import json
import math
from typing import Literal

from inturn.store.lane import (
    ANY_FENCE,
    Begun,
    Commit,
    Ended,
    Failure,
    Left,
    Opening,
    Outcome,
    Submission,
    Submitted,
)
from inturn.store.sqlite.accept import MAX_MS, accept, deliver, give_next, new_message, stir
from inturn.store.sqlite.advance import advance, bury, end_lease, lease_to, tell_awaiting
from inturn.store.sqlite.lane import (
    Lane,
    Message,
    delete_state,
    given,
    has_message,
    is_leased,
    lane_ends,
    prolong_state,
    put,
    read_lane,
    read_mark,
    read_message,
    read_state,
    renew_state,
    running_message,
    save_lane,
    save_message,
    take_out,
    write_mark,
    write_state,
)
from inturn.store.sqlite.transaction import Transaction, process_of

EXPECTS_S = 6.0
"""Who awaits a result asks for it again sooner than this."""
MOST_ERRORS = 20


def submit(tx: Transaction, message: Submission) -> Submitted:
    """Put a message into a lane, unless it is there already or was committed before."""
    key, ident = message.key, message.ident
    mark = read_mark(tx, key, ident)
    if mark is not None:
        return Submitted("duplicate", result=mark)
    if has_message(tx, key, ident):
        return Submitted("pending")
    lane = read_lane(tx, key)
    if lane and lane.holder and not is_leased(tx, lane):
        advance(tx, lane)
        lane = read_lane(tx, key)
    waiting = lane.waiting if lane else 0
    if lane and message.busy == "reject":
        return Submitted("busy", waiting, b"", lane.holder, tx.now - lane.began, lane.stopped)
    if 0 < message.cap <= waiting:
        return Submitted("full", waiting)
    ahead = waiting + (1 if lane and lane.holder else 0)
    lane = lane or Lane(key)
    new = new_message(tx, lane, ident, message.body, message.ttl_ms, message.limit_ms, rank=-message.priority)
    new.late = tx.now + message.late_ms if message.late_ms > 0 else 0
    accept(tx, lane, new, message.keep_ms)
    stir(tx, lane)
    return Submitted("accepted", ahead)


def begin(tx: Transaction, opening: Opening) -> Begun:
    """Begin an inline turn, ask again after a lost reply, or confirm an offered turn: always the same call."""
    key, token, _, ident, has_id, ttl, limit, keep, busy, cap = opening
    if has_id:
        mark = read_mark(tx, key, ident)
        if mark is not None:
            return Begun("duplicate", result=mark, sent_at=tx.sent_at)
    lane = read_lane(tx, key)
    process = process_of(token)
    tx.touch(process)

    def begin_now() -> Begun:
        free = Lane(key, keep=keep)
        lease_to(tx, free, token, ident, ttl, limit)
        save_lane(tx, free)
        return Begun("granted", free.granted, read_state(tx, key), sent_at=tx.sent_at)

    if lane is None:
        return begin_now()
    if lane.holder == token:
        if lane.lapse > 0:
            lane.lapse = 0
            tx.untell("turn", token, key)
            save_lane(tx, lane)
        return Begun("granted", lane.granted, read_state(tx, key), sent_at=tx.sent_at)
    message = read_message(tx, key, ident)
    if message and message.caller == token:
        return Begun("waiting", ahead=_ahead_of(tx, message), sent_at=tx.sent_at)

    if not is_leased(tx, lane):
        advance(tx, lane)
        # a place of a dead caller, with this very id, is gone now
        lane, message = read_lane(tx, key), read_message(tx, key, ident)
    if message or (lane and lane.running == ident):
        return Begun("pending", sent_at=tx.sent_at)
    if lane is None:
        return begin_now()
    waiting = lane.waiting
    if busy == "reject":
        since_ms = tx.now - lane.began
        return Begun("busy", 0, None, waiting, b"", lane.holder, since_ms, lane.stopped, tx.sent_at)
    if 0 < cap <= waiting:
        return Begun("full", ahead=waiting, sent_at=tx.sent_at)
    tx.forget_loss(token)  # an offer that lapsed left a note, and the token begins anew
    accept(tx, lane, new_message(tx, lane, ident, b"", ttl, limit, caller=token), keep)
    stir(tx, lane)
    tx.has_places = tx.has_places or process == tx.process
    return Begun("waiting", ahead=waiting, sent_at=tx.sent_at)


def _ahead_of(tx: Transaction, message: Message) -> int:
    (ahead,) = tx.one(
        "SELECT count(*) FROM messages WHERE key = ? AND waits = 1 AND (rank, number) < (?, ?)",
        (message.key, message.rank, message.number),
    )
    return int(ahead)


def leave(tx: Transaction, key: str, token: str, ident: str, fence: int) -> Left:
    """An inline caller gives its turn back with nothing done, or stops waiting for it. Its message is gone."""
    lane = read_lane(tx, key)
    if lane and lane.holder == token:
        if lane.lapse > 0:
            tx.untell("turn", token, key)
        tell_awaiting(tx, lane.awaited, key, lane.running)
        end_lease(lane)
        advance(tx, lane)
        return Left("released")
    message = read_message(tx, key, ident) if lane else None
    if lane and message and message.caller == token:
        take_out(tx, lane, message)
        tell_awaiting(tx, message.watchers, key, ident)
        advance(tx, lane)
        return Left("left")
    return Left("lost" if _was_lost(tx, token, fence) else "gone")


def _was_lost(tx: Transaction, token: str, fence: int) -> bool:
    """A lease that was taken away left a note; one that is older than this file went with another."""
    return tx.is_lost(token) or 0 < fence < (tx.era or math.inf)


def commit(tx: Transaction, commit: Commit) -> Ended:
    """The one transition in which a turn's effects become real: state, result, sends, and the lane goes on."""
    key, token, fence, ident, is_submitted, state_op, state, keep_ms, window_ms, result, sends, next_token, can = commit
    lane = read_lane(tx, key)
    if lane is None or lane.holder != token or lane.granted != fence:
        return _ended_before(tx, "committed", lane, token, fence, next_token)
    if window_ms > 0:
        write_mark(tx, key, ident, result, window_ms)
    # The common case, in fewer steps than below: an inline turn, nobody behind it, no sends.
    if not (sends or is_submitted or lane.stopped or lane.awaited or lane.waiting):
        if state_op == "set":
            write_state(tx, key, state, tx.now + keep_ms)
        elif state_op == "del":
            delete_state(tx, key)
        else:
            prolong_state(tx, lane, keep_ms)
        tx.execute("DELETE FROM lanes WHERE key = ?", (key,))
        return Ended("committed", None, 1)

    awaited = lane.awaited
    if is_submitted:
        message = running_message(tx, lane)
        awaited = message.watchers
        take_out(tx, lane, message)
    deliver(tx, lane, sends)
    tell_awaiting(tx, awaited, key, ident)
    if state_op == "set":
        write_state(tx, key, state, None)  # its time begins when the lane is idle
    elif state_op == "del":
        delete_state(tx, key)
    else:
        renew_state(tx, key, keep_ms)
    lane.keep = keep_ms if state_op == "set" else max(lane.keep, keep_ms)
    end_lease(lane)
    return Ended("committed", give_next(tx, lane, next_token, can), 1)


def fail(tx: Transaction, failure: Failure) -> Ended:
    """A turn of a submitted message ends with nothing done."""
    key, token, fence, how, delay_ms, error, why, next_token, can = failure
    lane = read_lane(tx, key)
    if lane is None or lane.holder != token or fence not in (lane.granted, ANY_FENCE):
        return _ended_before(tx, "failed", lane, token, fence, next_token)
    message = running_message(tx, lane)
    if error:
        message.errors.append(error)
        if len(message.errors) > MOST_ERRORS:
            del message.errors[1]  # the first one and the last ones say most
    end_lease(lane)
    if how == "dead":
        bury(tx, lane, message)
    else:
        if how == "retry":
            message.after = tx.now + delay_ms
        elif not error:
            message.attempts -= 1
        if how == "park":
            lane.stopped, lane.why = "parked", why
        put(tx, lane, message)
    return Ended("failed", give_next(tx, lane, next_token, can), 1)


def _ended_before(
    tx: Transaction,
    status: Literal["committed", "failed"],
    lane: Lane | None,
    token: str,
    fence: int,
    next_token: str,
) -> Ended:
    """The lease is not the caller's: because it was lost, or because this call has been here before."""
    if lane and next_token and lane.holder == next_token:
        return Ended(status, given(tx, lane, running_message(tx, lane)), 1)
    return Ended("lost" if _was_lost(tx, token, fence) else "gone", None, 1)


def confirm(tx: Transaction, key: str, token: str) -> bool:
    """Whether a turn's lease is still known here."""
    lane = read_lane(tx, key)
    return lane is not None and lane.holder == token and is_leased(tx, lane)


def attend(tx: Transaction, process: str, key: str, ident: str) -> Outcome:
    """What became of a message; if that is still open, this process will be told."""
    tx.untell("settled", f"{process}#0", f"{key}\0{ident}")
    mark = read_mark(tx, key, ident)
    if mark is not None:
        return Outcome("done", mark)
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
