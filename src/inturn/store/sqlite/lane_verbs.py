"""The verbs of a lane, as functions of a transaction: each follows lua/<verb>.lua step by step.

A verb that fails half-way is undone by the writer, which rolls the transaction back.
"""

from __future__ import annotations

from typing import Literal

from inturn.store.lane import ANY_FENCE, Begun, Commit, Ended, Failure, Left, Opening, Submission, Submitted
from inturn.store.sqlite.accept import accept, must_not_share, new_message, stir
from inturn.store.sqlite.advance import advance, bury, end_lease, lease_to, stop_yielding, tell_awaiting
from inturn.store.sqlite.arrive import arrive, deliver, postpone
from inturn.store.sqlite.burst import release_unseen
from inturn.store.sqlite.give import give_next, take_newer
from inturn.store.sqlite.kept import (
    delete_state,
    point_mark,
    prolong_state,
    read_mark,
    read_state,
    renew_state,
    word_of,
    write_mark,
    write_state,
)
from inturn.store.sqlite.lane import (
    Lane,
    Message,
    given,
    has_message,
    is_leased,
    others_of,
    put,
    read_lane,
    read_message,
    running_message,
    save_lane,
    take_out,
    was_lost,
)
from inturn.store.sqlite.transaction import Transaction, process_of
from inturn.store.sqlite.watching import announce

MOST_ERRORS = 20


def submit(tx: Transaction, message: Submission) -> Submitted:
    """Put a message into a lane, unless it is there already or was committed before.

    What it does there is up to its rule.
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
        return Submitted("busy", waiting, b"", lane.holder, tx.now - lane.began, lane.stopped)
    if delay_ms > 0 and message.cap > 0:  # the delayed ones are in no mailbox
        (waiting,) = tx.one("SELECT count(*) FROM messages WHERE key = ?", (key,))
    if 0 < message.cap <= waiting:
        return Submitted("full", waiting)
    ahead = waiting + (1 if lane and lane.holder else 0)
    lane = lane or Lane(key)
    ttl, limit = message.ttl_ms, message.limit_ms
    new = new_message(tx, key, ident, message.body, ttl, limit, priority=message.priority, rule=message.rule)
    new.late = tx.now + delay_ms + message.late_ms if message.late_ms > 0 else 0
    if delay_ms > 0:
        if postpone(tx, lane, new, message.keep_ms, delay_ms):
            stir(tx, lane)
        return Submitted("delayed")
    arrive(tx, lane, new, message.keep_ms)
    stir(tx, lane)
    return Submitted("accepted", ahead)


def begin(tx: Transaction, opening: Opening) -> Begun:
    """Begin an inline turn, ask again after a lost reply, or confirm an offered turn: always the same call."""
    key, token, _, ident, has_id, ttl, limit, keep, busy, cap, rule, _ = opening
    must_not_share(opening)
    if has_id:
        mark = read_mark(tx, key, ident)
        if mark is not None:
            return Begun("duplicate", result=mark, sent_at=tx.sent_at)
    lane = read_lane(tx, key)
    process = process_of(token)
    tx.touch(process)
    mine = new_message(tx, key, ident, b"", ttl, limit, caller=token, rule=rule)

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
    # an offer that lapsed left a note, and the token begins anew; what it interrupted when it came, it did then
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
    if lane and lane.yields == token:  # it was interrupted, and has ended now
        stop_yielding(lane)
        advance(tx, lane)
    return Left("lost" if was_lost(tx, token, fence) else "gone")


def commit(tx: Transaction, commit: Commit) -> Ended:
    """The one transition in which a turn's effects become real: state, result, sends, and the lane goes on."""
    key, token, fence, ident, is_submitted, state_op, state, keep_ms, window_ms, result, sends = commit[:11]
    next_token, can, have, unless_newer, version = commit[11:]
    lane = read_lane(tx, key)
    if lane is None or lane.holder != token or lane.granted != fence:
        return _ended_before(tx, "committed", lane, token, fence, next_token)
    if unless_newer and is_submitted:
        newer = take_newer(tx, lane, have, version, would_commit=True)
        if newer:
            return Ended("newer", None, 1, newer)
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
        announce(tx, key, "commit", fence, ident)
        return Ended("committed", None, 1)

    awaited = lane.awaited
    if is_submitted:
        lead = running_message(tx, lane)
        awaited = lead.watchers
        release_unseen(tx, lane, lead, have)
        take_out(tx, lane, lead)
        for other in others_of(tx, lead):  # all of a burst have one result
            if window_ms > 0:
                point_mark(tx, key, other.ident, ident, window_ms)
            take_out(tx, lane, other)
            tell_awaiting(tx, other.watchers, key, other.ident)
    deliver(tx, lane, sends)
    announce(tx, key, "commit", fence, ident)
    lane.cuts = 0
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
    key, token, fence, how, delay_ms, error, why, next_token, can, attempts, version, have = failure
    lane = read_lane(tx, key)
    if lane is None or lane.holder != token or fence not in (lane.granted, ANY_FENCE):
        ended = _ended_before(tx, "failed", lane, token, fence, next_token)
        if lane and ended.next is None and lane.yields == token:  # it was interrupted, and has ended now
            stop_yielding(lane)
            advance(tx, lane)
        return ended
    message = running_message(tx, lane)
    if error:
        message.errors.append(error)
        if len(message.errors) > MOST_ERRORS:
            del message.errors[1]  # the first one and the last ones say most
    announce(tx, key, "back" if how == "back" else "fail", lane.granted, f"{how} {why}")
    end_lease(lane)
    if how != "back":
        lane.cuts = message.cuts = 0
    if how == "dead":
        have = 1  # a burst is split before: of it, only the lead is at fault
    if have:
        release_unseen(tx, lane, message, have)
    if how == "dead":
        bury(tx, lane, message)
    elif how == "split":
        for each in (message, *others_of(tx, message)):
            each.after, each.attempts, each.is_open = tx.now + delay_ms, attempts, False
            each.errors, each.together = message.errors, []
            put(tx, lane, each)
    else:
        if version:
            message.needs = f"@{version}"
        if how == "retry":
            message.after, message.is_open = tx.now + delay_ms, False
        elif error:
            message.is_open = False
        else:
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
    return Ended("lost" if was_lost(tx, token, fence) else "gone", None, 1)
