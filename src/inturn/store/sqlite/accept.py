"""Messages come into lanes, and go out of them to workers. Follows lua/include/{accept,give,send}.lua."""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.lane import Given, Send
from inturn.store.sqlite.advance import advance, lease_to
from inturn.store.sqlite.lane import (
    Lane,
    Message,
    given,
    has_message,
    head_of,
    is_leased,
    lane_ends,
    persist_state,
    put,
    read_lane,
    read_mark,
    save_lane,
    save_message,
)
from inturn.store.sqlite.transaction import Transaction, process_of

MAX_MS = 2**62
"""Later than any time."""


def accept(tx: Transaction, lane: Lane, message: Message, keep_ms: int) -> None:
    """A message comes into a lane, behind all of its rank. Whoever calls this saves the lane."""
    message.number = tx.tick()
    put(tx, lane, message)
    # while messages wait the state does not expire; then it has at least the time that it had before
    lane.keep = max(lane.keep, keep_ms, persist_state(tx, lane.key))
    tx.execute("DELETE FROM dead_letters WHERE key = ? AND ident = ?", (lane.key, message.ident))


def stir(tx: Transaction, lane: Lane) -> None:
    """Now the lane has something to do. A living lease is left alone: whoever ends it finds the message."""
    if is_leased(tx, lane):
        lane.alarm = min(lane.alarm or MAX_MS, lane_ends(tx, lane))
        save_lane(tx, lane)
    else:
        advance(tx, lane)


def new_message(
    tx: Transaction, lane: Lane, ident: str, body: bytes, ttl: int, limit: int, *, rank: int = 0, caller: str = ""
) -> Message:
    return Message(0, lane.key, ident, rank, body, 0, ttl, limit, tx.now, caller=caller)


def give_next(tx: Transaction, lane: Lane, token: str, can: Sequence[str]) -> Given | None:
    """The next message of a lane goes to a worker, or the lane is advanced.

    The attempt is counted here, so that one which kills its worker counts.
    """
    message = head_of(tx, lane) if token and not lane.stopped else None
    if (
        message is not None
        and not message.caller
        and message.after <= tx.now
        and (message.late == 0 or tx.now <= message.late)
        and message.handler in can
    ):
        message.waits = False
        lane.waiting -= 1
        message.attempts += 1
        message.late = 0
        save_message(tx, message)
        lease_to(tx, lane, token, message.ident, message.ttl, message.limit)
        lane.ready, lane.place = "", None
        # who asks is alive: its worker counts the new lease from this call on, and so must we
        tx.touch(process_of(token))
        lane.alarm = min(lane.alarm or MAX_MS, tx.now + lane.lease)
        save_lane(tx, lane)
        return given(tx, lane, message)
    advance(tx, lane)
    return None


def deliver(tx: Transaction, lane: Lane, sends: Sequence[Send]) -> None:
    """The sends of a commit, in their order. `lane` is the sender's own."""
    for send in sends:
        is_new = send.is_fresh or (
            read_mark(tx, send.key, send.ident) is None and not has_message(tx, send.key, send.ident)
        )
        if is_new:
            target = lane if send.key == lane.key else read_lane(tx, send.key) or Lane(send.key)
            message = new_message(tx, target, send.ident, send.body, send.ttl_ms, send.limit_ms)
            accept(tx, target, message, send.keep_ms)
            if target is not lane:
                stir(tx, target)
