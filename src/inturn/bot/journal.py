"""The journal of a delivery: which part is under way. It is a small lane of its own, written before each part.

If the process dies after a note, the next one finds a part in doubt; if it dies before, nothing was sent. A store that
is away for a moment is waited for: what is known must not be in doubt. A process that was stopped and taken over cannot
write any more: the newer turn has a higher fence.
"""

from __future__ import annotations

import asyncio
import logging

from pydantic import BaseModel

from inturn.app import InTurn
from inturn.errors import CommitUnknown, LeaseLost, StoreUnavailable

log = logging.getLogger("inturn.bot")

KEEP_S = 2 * 86400.0
PAUSE_S = 0.2


class Entry(BaseModel):
    delivery: str = ""
    fence: int = 0
    part: int = 0
    tries: int = 0
    lock_id: str = ""


class LaneJournal:
    """For one turn of the delivery lane. One entry for each chat is enough: its deliveries run one after another."""

    def __init__(self, app: InTurn, chat_id: int | str, delivery: str, fence: int) -> None:
        self._app = app
        self._key = f"delivery:{chat_id}"
        self._delivery = delivery
        self._fence = fence
        self.part = 0
        self.tries = 0
        self.lock_id = ""
        """The send lock that this delivery holds, perhaps since before a crash."""

    async def read(self) -> None:
        entry = await self._app.lanes.state(self._key, Entry)
        if entry is not None and entry.delivery == self._delivery:
            self.part, self.tries, self.lock_id = entry.part, entry.tries, entry.lock_id

    @property
    def is_begun(self) -> bool:
        """Whether a part of it may have gone out."""
        return self.part > 0 or self.tries > 0

    async def note(self, part: int, tries: int) -> None:
        """Raises `LeaseLost` if another process has taken over this delivery, or a later one.

        While the store is away it tries again, for as long as the delivery has its turn.
        """
        # until a part may have gone out, whoever has the lock releases it when it stops: nobody else may go on under it
        lock_id = self.lock_id if part or tries else ""
        entry = Entry(delivery=self._delivery, fence=self._fence, part=part, tries=tries, lock_id=lock_id)
        while True:
            try:
                is_ours = await self._write(entry)
                break
            except (StoreUnavailable, CommitUnknown, LeaseLost) as error:
                log.warning("the journal %s is not written, trying again: %s", self._key, error)
                await asyncio.sleep(PAUSE_S)
        if not is_ours:
            raise LeaseLost(self._key, self._fence, "another process goes on with this delivery")
        self.part, self.tries = part, tries

    async def _write(self, entry: Entry) -> bool:
        """Returns `False` if there is a newer entry."""
        async with self._app.turn(self._key, state=Entry, state_ttl=KEEP_S) as turn:
            if turn.state.fence > entry.fence:
                return False
            turn.state = entry
        return True
