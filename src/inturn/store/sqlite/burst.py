"""Messages come together: the lead of a burst stays in the mailbox, or runs, and lists the others.

Follows lua/include/burst.lua.
"""

from __future__ import annotations

from inturn.store.sqlite.lane import Lane, Message, others_of, pull, put
from inturn.store.sqlite.transaction import Transaction

MOST_TOGETHER = 1000


def joins(tx: Transaction, message: Message, handler: str) -> bool:
    """Whether a message that waits can become a part of a burst of this handler."""
    return message.is_open and not message.caller and message.after <= tx.now and message.handler == handler


def version_of(message: Message) -> int:
    return int(message.needs[1:] or 1)


def join(tx: Transaction, lane: Lane, lead: Message, other: Message) -> None:
    """Out of the mailbox and into the burst of this lead, which its caller saves.

    What led a burst itself brings the others along, and has begun in time.
    """
    lead.together += (other.ident, *other.together)
    if version_of(other) > version_of(lead):
        lead.needs = other.needs  # who runs the burst must be able to read all of it
    other.late, other.together = 0, []
    pull(tx, lane, other)


def release_unseen(tx: Transaction, lane: Lane, lead: Message, have: int) -> None:
    """What came into a turn without its handler having seen it goes back to its place: all behind the first `have`."""
    for other in others_of(tx, lead)[have - 1 :]:
        put(tx, lane, other)
    lead.together = lead.together[: have - 1]
