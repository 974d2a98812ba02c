"""Messages go out of lanes to workers, alone or as a burst. Follows lua/include/give.lua and lua/include/steer.lua."""

from __future__ import annotations

from collections.abc import Sequence

from inturn.store.lane import Given, GivenMessage
from inturn.store.sqlite.accept import MAX_MS
from inturn.store.sqlite.advance import advance, lease_to, quiet_until
from inturn.store.sqlite.burst import MOST_TOGETHER, join, joins, version_of
from inturn.store.sqlite.lane import (
    Lane,
    Message,
    given,
    head_of,
    mailbox,
    others_of,
    pull,
    running_message,
    save_lane,
    save_message,
    seen,
)
from inturn.store.sqlite.transaction import Transaction, process_of

MOST_LOOKED_AT, MOST_STEERED = 1000, 100


def gather(tx: Transaction, lane: Lane, lead: Message, can: Sequence[str]) -> None:
    """The open messages of its handler that stand directly behind the head join it, up to its cap."""
    cap, handler, others = lead.rule.cap, lead.handler, lead.together
    if not lead.is_open or cap <= 1 + len(others):
        return
    for other in mailbox(tx, lane.key, cap - 1 - len(others)):
        is_too_many = len(others) + 2 + len(other.together) > cap
        if not joins(tx, other, handler) or other.late > 0 or is_too_many or handler + other.needs not in can:
            break
        join(tx, lane, lead, other)


def give_next(tx: Transaction, lane: Lane, token: str, can: Sequence[str]) -> Given | None:
    """The next message of a lane, or burst of them, goes to a worker; or the lane is advanced.

    The attempt is counted here, so that one which kills its worker counts.
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
        # who asks is alive: its worker counts the new lease from this call on, and so must we
        tx.touch(process_of(token))
        lane.alarm = min(lane.alarm or MAX_MS, tx.now + lane.lease)
        save_lane(tx, lane)
        return given(tx, lane, message)
    advance(tx, lane)
    return None


def take_newer(tx: Transaction, lane: Lane, have: int, version: int, *, would_commit: bool) -> tuple[GivenMessage, ...]:
    """What waits for the handler of the running turn comes into the turn.

    Answers the messages that its holder does not have yet: it has the first `have` of them. So a repeat is answered
    alike. A lane that is stopped takes nothing more in, and a turn that is tried again only when it would commit: else
    a poisonous message could go on for ever with new ones.
    """
    lead, taken = running_message(tx, lane), 0
    may_join = not lane.stopped and (lead.is_open or would_commit) and len(lead.together) < MOST_TOGETHER
    for other in mailbox(tx, lane.key, MOST_LOOKED_AT) if lane.waiting and may_join else ():
        if other.handler != lead.handler or 0 < other.late < tx.now:
            continue
        if not joins(tx, other, lead.handler) or version_of(other) > version or taken == MOST_STEERED:
            break  # nothing comes in past a message of the same handler that cannot
        join(tx, lane, lead, other)
        taken += 1
    if taken:
        save_message(tx, lead)
        save_lane(tx, lane)
    return tuple(seen(tx, other) for other in others_of(tx, lead)[have - 1 :])
