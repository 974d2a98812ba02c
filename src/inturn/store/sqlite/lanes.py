"""The verbs of a lane, as functions of a transaction: each follows lua/lanes/<verb>.lua step by step.

A verb that fails half-way leaves nothing behind: the writer rolls the transaction back.
"""

from __future__ import annotations

import json
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
    Steered,
    Submission,
    Submitted,
)
from inturn.store.limits import MAX_ERRORS
from inturn.store.sqlite.accept import NEVER_MS, accept, must_not_share, new_message, stir
from inturn.store.sqlite.advance import advance, bury, end_lease, lease_to, stop_yielding, tell_awaiting
from inturn.store.sqlite.arrive import arrive, deliver, postpone, write_off
from inturn.store.sqlite.give import give_next, take_newer
from inturn.store.sqlite.lane import (
    Lane,
    Message,
    delete_state,
    given,
    has_message,
    is_leased,
    lane_ends,
    others_of,
    point_mark,
    prolong_state,
    put,
    read_lane,
    read_mark,
    read_message,
    read_state,
    release_unseen,
    renew_state,
    running_message,
    save_lane,
    save_message,
    take_out,
    why_lost,
    word_of,
    write_mark,
    write_state,
)
from inturn.store.sqlite.letters import read_letter
from inturn.store.sqlite.transaction import Transaction, process_of
from inturn.store.sqlite.watch import announce

RESULT_EXPECTS_S = 6.0
"""A process that awaits a result asks for it again sooner than this."""


def submit(tx: Transaction, message: Submission) -> Submitted:
    """Puts a message into a lane, unless it is there already or was committed before.

    Its rule says what it does to the turn that runs and to the messages that wait.
    """
    key, ident, delay_ms = message.key, message.ident, message.delay_ms
    must_not_share(message)
    mark = read_mark(tx, key, ident)
    if mark is not None:
        return Submitted(word_of(mark) or "duplicate", result=mark)
    if has_message(tx, key, ident):
        return Submitted("pending")
    lane = read_lane(tx, key)
    if lane and lane.holder and not is_leased(tx, lane):
        advance(tx, lane)
        lane = read_lane(tx, key)
    waiting = lane.waiting if lane else 0
    if lane and message.busy == "reject":
        since_ms = tx.now - lane.began
        return Submitted("busy", waiting, holder=lane.holder, since_ms=since_ms, stopped=lane.stopped)
    if delay_ms > 0 and message.cap > 0:  # delayed messages are in no mailbox, so all are counted
        (waiting,) = tx.one("SELECT count(*) FROM messages WHERE key = ?", (key,))
    if 0 < message.cap <= waiting:
        return Submitted("full", waiting)
    ahead = waiting + (1 if lane and lane.holder else 0)
    lane = lane or Lane(key)
    new = new_message(
        tx,
        key,
        ident,
        message.body,
        ttl=message.ttl_ms,
        limit=message.limit_ms,
        priority=message.priority,
        rule=message.rule,
        group=message.group,
    )
    new.late = tx.now + delay_ms + message.late_ms if message.late_ms > 0 else 0
    if delay_ms > 0:
        if postpone(tx, lane, new, message.keep_ms, delay_ms):
            stir(tx, lane)
        return Submitted("delayed")
    arrive(tx, lane, new, message.keep_ms)
    stir(tx, lane)
    return Submitted("accepted", ahead)


def begin(tx: Transaction, opening: Opening) -> Begun:
    """Begins an inline turn, asks again after a lost reply, or confirms an offered turn: always the same call."""
    key, token, ident, keep, rule = opening.name, opening.token, opening.ident, opening.keep_ms, opening.rule
    must_not_share(opening)
    if opening.has_id:
        mark = read_mark(tx, key, ident)
        if mark is not None:
            return Begun("duplicate", result=mark, sent_at=tx.sent_at)
    lane = read_lane(tx, key)
    process = process_of(token)
    tx.seen_now(process)
    mine = new_message(tx, key, ident, b"", ttl=opening.ttl_ms, limit=opening.limit_ms, caller=token, rule=rule)

    def begin_now() -> Begun:
        free = Lane(key, keep=keep)
        mine.attempts = 1
        lease_to(tx, free, token, mine)
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
        # if a dead caller had a place under this very id, it is gone now
        lane, message = read_lane(tx, key), read_message(tx, key, ident)
    if message or (lane and lane.running == ident):
        return Begun("pending", sent_at=tx.sent_at)
    if lane is None:
        return begin_now()
    waiting = lane.waiting
    if opening.busy == "reject":
        return Begun(
            "busy",
            ahead=waiting,
            holder=lane.holder,
            since_ms=tx.now - lane.began,
            stopped=lane.stopped,
            sent_at=tx.sent_at,
        )
    if 0 < opening.cap <= waiting:
        return Begun("full", ahead=waiting, sent_at=tx.sent_at)
    # an offer that lapsed left a note. The token starts again, but does not interrupt a second time
    is_back = tx.is_lost(token)
    tx.forget_loss(token)
    if is_back or rule.policy != "interrupt":
        accept(tx, lane, mine, keep)
    else:
        arrive(tx, lane, mine, keep)
        waiting = _ahead_of(tx, mine)
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
        if key in tx.audience:
            announce(tx, key, "back", lane.granted, "left")
        end_lease(lane)
        advance(tx, lane)
        return Left("released")
    message = read_message(tx, key, ident) if lane else None
    if lane and message and message.caller == token:
        take_out(tx, lane, message)
        tell_awaiting(tx, message.watchers, key, ident)
        advance(tx, lane)
        return Left("left")
    if lane and lane.yields == token:  # it was interrupted, and has now ended
        stop_yielding(lane)
        advance(tx, lane)
    return Left("gone" if why_lost(tx, token, fence) is None else "lost")


def commit(tx: Transaction, commit: Commit) -> Ended:
    """The one transition in which a turn's effects become real: state, result, sends, and the lane goes on."""
    key, token, fence, ident = commit.key, commit.token, commit.fence, commit.ident
    is_submitted, state_op, keep_ms, window_ms = commit.is_submitted, commit.state_op, commit.keep_ms, commit.window_ms
    lane = read_lane(tx, key)
    if lane is None or lane.holder != token or lane.granted != fence:
        return _ended_before(tx, "committed", lane, token=token, fence=fence, next_token=commit.next_token)
    if commit.unless_newer and is_submitted:
        newer = take_newer(tx, lane, commit.have, commit.version, would_commit=True)
        if newer:
            return Ended("newer", None, 1, newer)
    if window_ms > 0:
        write_mark(tx, key, ident, commit.result, window_ms)
    # The common case, in fewer steps than below: an inline turn, nobody behind it, no sends.
    if not (commit.sends or is_submitted or lane.stopped or lane.awaited or lane.waiting):
        if state_op == "set":
            write_state(tx, key, commit.state, tx.now + keep_ms)
        elif state_op == "del":
            delete_state(tx, key)
        else:
            prolong_state(tx, lane, keep_ms)
        tx.execute("DELETE FROM lanes WHERE key = ?", (key,))
        if key in tx.audience:
            announce(tx, key, "commit", fence, ident)
        return Ended("committed", None, 1)

    awaited = lane.awaited
    if is_submitted:
        lead = running_message(tx, lane)
        awaited = lead.watchers
        release_unseen(tx, lane, lead, commit.have)
        take_out(tx, lane, lead)
        for other in others_of(tx, lead):  # all messages of a burst have one result
            if window_ms > 0:
                point_mark(tx, key, other.ident, ident, window_ms)
            take_out(tx, lane, other)
            tell_awaiting(tx, other.watchers, key, other.ident)
    deliver(tx, lane, commit.sends)
    if key in tx.audience:
        announce(tx, key, "commit", fence, ident)
    lane.cuts = 0
    tell_awaiting(tx, awaited, key, ident)
    if state_op == "set":
        write_state(tx, key, commit.state, None)  # its time to live starts when the lane is idle
    elif state_op == "del":
        delete_state(tx, key)
    else:
        renew_state(tx, key, keep_ms)
    lane.keep = keep_ms if state_op == "set" else max(lane.keep, keep_ms)
    end_lease(lane)
    return Ended("committed", give_next(tx, lane, commit.next_token, commit.can), 1)


def fail(tx: Transaction, letter_ms: int, failure: Failure) -> Ended:
    """A turn of a submitted message ends with nothing done, but for the state and the sends that a dead letter leaves.

    The letter is kept for `letter_ms`.
    """
    key, token, fence, how, have = failure.key, failure.token, failure.fence, failure.how, failure.have
    next_token, error, why = failure.next_token, failure.error, failure.why
    lane = read_lane(tx, key)
    if lane is None or lane.holder != token or fence not in (lane.granted, ANY_FENCE):
        ended = _ended_before(tx, "failed", lane, token=token, fence=fence, next_token=next_token)
        if lane and ended.next is None and lane.yields == token:  # it was interrupted, and has now ended
            stop_yielding(lane)
            advance(tx, lane)
        return ended
    message = running_message(tx, lane)
    if error:
        message.errors.append(error)
        if len(message.errors) > MAX_ERRORS:
            del message.errors[1]  # the first error and the last ones say most
    if key in tx.audience:
        announce(tx, key, "back" if how == "back" else "fail", lane.granted, f"{how} {why}")
    end_lease(lane)
    if how != "back":
        lane.cuts = message.cuts = 0
    if failure.attempts:
        message.attempts = failure.attempts
    if how == "dead":
        have = 1  # a burst is split before it dies, so only the lead is at fault here
    if have:
        release_unseen(tx, lane, message, have)
    if failure.state_op == "set":
        write_state(tx, key, failure.state, None)
        lane.keep = failure.keep_ms
    elif failure.state_op == "del":
        delete_state(tx, key)
    if how == "dead":
        bury(tx, lane, message, letter_ms)
        deliver(tx, lane, failure.sends)
    elif how == "split":
        for each in (message, *others_of(tx, message)):
            each.after, each.attempts, each.is_open = tx.now + failure.delay_ms, failure.attempts, False
            each.errors, each.together = message.errors, []
            put(tx, lane, each)
    else:
        if failure.version:
            message.needs = f"@{failure.version}"
        if how == "retry":
            message.after, message.is_open = tx.now + failure.delay_ms, False
        elif error:
            message.is_open = False
        else:
            message.attempts -= 1
        if how == "park":
            lane.stopped, lane.why = "parked", why
        put(tx, lane, message)
    return Ended("failed", give_next(tx, lane, next_token, failure.can), 1)


def _ended_before(
    tx: Transaction,
    status: Literal["committed", "failed"],
    lane: Lane | None,
    *,
    token: str,
    fence: int,
    next_token: str,
) -> Ended:
    """The answer when the lease is not the caller's: it was lost, or this call is a repeat."""
    if lane and next_token and lane.holder == next_token:
        return Ended(status, given(tx, lane, running_message(tx, lane)), 1)
    why = why_lost(tx, token, fence)
    return Ended("gone", None, 1) if why is None else Ended("lost", None, 1, why=why)


def steer(tx: Transaction, key: str, token: str, fence: int, have: int, version: int) -> Steered:
    """A running turn takes in the messages that arrived for its handler since, and commits or fails with them."""
    lane = read_lane(tx, key)
    if lane is None or lane.holder != token or lane.granted != fence:
        why = why_lost(tx, token, fence)
        return Steered("gone") if why is None else Steered("lost", why=why)
    return Steered("steered", take_newer(tx, lane, have, version, would_commit=False))


def cancel(tx: Transaction, key: str, ident: str, window_ms: int) -> Literal["cancelled", "begun", "ended"]:
    """A message that waits or is delayed will never begin. One that runs, or was tried in a burst, is left alone."""
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


def attend(tx: Transaction, process: str, letter_ms: int, key: str, ident: str) -> Outcome:
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
        # if its caller dies, perhaps nobody else ever asks for this lane: an alarm makes sure that someone looks
        lane.alarm = min(lane.alarm or NEVER_MS, lane_ends(tx, lane))
        save_lane(tx, lane)
        return _pending(tx)
    letter = read_letter(tx, "attempts, errors", key, ident, letter_ms)
    if letter:
        return Outcome("dead", b"", letter[0], tuple(json.loads(letter[1])))
    return Outcome("unknown")


def _with(process: str, processes: str) -> str:
    return processes if process in processes.split() else f"{processes} {process}"


def _pending(tx: Transaction) -> Outcome:
    tx.expects_until = max(tx.expects_until, tx.sent_at + RESULT_EXPECTS_S)
    return Outcome("pending")
