"""Messages come together: the lead of a burst stays in the mailbox, or runs, and lists the others.

Follows lua/include/burst.lua.
"""

from __future__ import annotations

from inturn.store.sqlite.lane import Lane, Message, pull
from inturn.store.sqlite.transaction import Transaction


def joins(tx: Transaction, message: Message, handler: str) -> bool:
    """Whether a message that waits can become a part of a burst of this handler."""
    return message.is_open and not message.caller and message.after <= tx.now and message.handler == handler


def join(tx: Transaction, lane: Lane, lead: Message, other: Message) -> None:
    """Out of the mailbox and into the burst of this lead, which its caller saves.

    What led a burst itself brings the others along, and has begun in time.
    """
    lead.together += (other.ident, *other.together)
    other.late, other.together = 0, []
    pull(tx, lane, other)
