"""Lanes give messages to workers: the next one or burst for a new turn, and newer ones for a running turn.

Follows lua/include/give.lua and steer.lua, function by function.
"""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.lane import Given, GivenMessage
from inturn.store.limits import MAX_LOOKED_AT, MAX_STEERED, MAX_TOGETHER
from inturn.store.sqlite.accept import NEVER_MS
from inturn.store.sqlite.advance import advance, lease_to, quiet_until
from inturn.store.sqlite.lane import (
    Lane,
    Message,
    given,
    head_of,
    join,
    joins,
    mailbox,
    others_of,
    pull,
    running_message,
    save_lane,
    save_message,
    seen,
    version_of,
)
from inturn.store.sqlite.transaction import Transaction, process_of


def gather(tx: Transaction, lane: Lane, lead: Message, can: Sequence[str]) -> None:
    """The open messages of its handler that wait directly behind the head join it, up to its cap."""
    cap, handler, others = lead.rule.cap, lead.handler, lead.together
    if not lead.is_open or cap <= 1 + len(others):
        return
    for other in mailbox(tx, lane.key, cap - 1 - len(others)):
        is_too_many = len(others) + 2 + len(other.together) > cap
        if not joins(tx, other, handler) or other.late > 0 or is_too_many or handler + other.needs not in can:
            break
        join(tx, lane, lead, other)


def give_next(tx: Transaction, lane: Lane, token: str, can: Sequence[str]) -> Given | None:
    """Gives the next message of a lane, or burst of them, to a worker; or advances the lane.

    The attempt is counted here, so that an attempt that kills its worker counts.
    """
    message = head_of(tx, lane) if token and not lane.stopped and not lane.yields else None
    if (
        message is not None
        and not message.caller
        and message.after <= tx.now
        and (message.late == 0 or tx.now <= message.late)
        and message.handler + message.needs in can
        and quiet_until(tx, message) <= tx.now
    ):
        message.attempts += 1
        message.late = 0
        pull(tx, lane, message)
        if lane.waiting:
            gather(tx, lane, message, can)
            if message.together:
                save_message(tx, message)
        lease_to(tx, lane, token, message)
        lane.ready, lane.place = "", None
        # the caller is alive: the worker counts the new lease from this call on, and so must we
        tx.seen_now(process_of(token))
        lane.alarm = min(lane.alarm or NEVER_MS, tx.now + lane.lease)
        save_lane(tx, lane)
        return given(tx, lane, message)
    advance(tx, lane)
    return None


def take_newer(tx: Transaction, lane: Lane, have: int, version: int, *, would_commit: bool) -> tuple[GivenMessage, ...]:
    """Messages that wait for the handler of the running turn come into the turn.

    Returns the messages that its holder does not have yet: it has the first `have`. So a repeat gets the same answer.
    A turn of a stopped lane takes nothing in. A turn that is a retry does so only when it would commit: otherwise a
    poison message could go on for ever with new ones.
    """
    lead, taken = running_message(tx, lane), 0
    may_join = not lane.stopped and (lead.is_open or would_commit) and len(lead.together) < MAX_TOGETHER
    for other in mailbox(tx, lane.key, MAX_LOOKED_AT) if lane.waiting and may_join else ():
        if other.handler != lead.handler or 0 < other.late < tx.now:
            continue
        if not joins(tx, other, lead.handler) or version_of(other) > version or taken == MAX_STEERED:
            break  # nothing overtakes a message of the same handler that cannot come in
        join(tx, lane, lead, other)
        taken += 1
    if taken:
        save_message(tx, lead)
        save_lane(tx, lane)
    return tuple(seen(tx, other) for other in others_of(tx, lead)[have - 1 :])
