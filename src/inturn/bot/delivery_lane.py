"""The lane `user:{id}>deliver`: it alone speaks to a user, one delivery after another, under the user's send lock.

A delivery that is cut off goes on with the part that its journal names, and with its lock, if that has not expired. So
nobody gets a word in between, and nothing is repeated but a part whose answer was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel

from inturn import metrics
from inturn.app import InTurn
from inturn.bot.chat import Chat, NotSent, Unreachable
from inturn.bot.courier import Courier, Pace
from inturn.bot.safe_send import LOCK_TIMEOUT_S, SendLock, SentTexts
from inturn.bot.text import Part
from inturn.bot.typing_indicator import TypingIndicatorManager
from inturn.bot.user import User
from inturn.errors import CommitUnknown, LeaseLost, Retry, Stop, StoreUnavailable
from inturn.lanes.turn import Turn

log = logging.getLogger("inturn.bot")

DELIVER, OUTCOME = "deliver", "bot:outcome"
WINDOW_S = 2 * 86400.0
GIVE_UP_S = 86400.0
"""What could not be delivered for so long comes too late."""
KEEP_JOURNAL_S = 2 * 86400.0
JOURNAL_PAUSE_S = 0.2
ATTEMPTS, MAX_PAUSE_S = 1000, 120.0
"""The pauses between attempts grow by a second each, so that all of them together last longer than `GIVE_UP_S`."""

Result = Literal["sent", "duplicate", "quiet", "unreachable", "failed"]


class Delivery(BaseModel):
    """An answer, or a proactive message, on its way."""

    id: str
    user_id: int
    chat_id: int
    parts: list[Part]
    text_id: str
    """By which the text is remembered as sent."""
    text: str = ""
    """Of a proactive message: it may have to come again."""
    is_proactive: bool = False
    is_cadence: bool = False
    epoch: int = 0
    """The user's, when it was written."""
    again: str = ""
    """The id under which a text of `say` comes again if quiet hours have moved it."""


class Outcome(BaseModel):
    """What became of a delivery: a message back to the user's lane."""

    user_id: int
    result: Result
    is_cadence: bool
    epoch: int
    text: str = ""
    """What the user was not told after all."""
    again: str = ""


class Entry(BaseModel):
    """The state of the lane `delivery:{chat_id}`. One for each chat is enough: deliveries run one after another."""

    delivery: str = ""
    fence: int = 0
    part: int = 0
    tries: int = 0
    is_in_doubt: bool = False
    refused: int = 0
    lock_id: str = ""


class LaneJournal:
    """Which part is under way, for one turn of the delivery lane: written when it begins and around each part.

    If the process dies after a note, the next one finds a part in doubt; if it dies before, nothing was sent. A process
    that was stopped and taken over cannot write any more: the newer turn has a higher fence.
    """

    def __init__(self, app: InTurn, chat_id: int | str, delivery: str, fence: int) -> None:
        self._app = app
        self._key = f"delivery:{chat_id}"
        self._delivery = delivery
        self._fence = fence
        self.part = self.tries = self.refused = 0
        self.is_in_doubt = False
        self.lock_id = ""
        """The send lock that this delivery holds, perhaps since before a crash."""
        self._named = ""
        """The lock that the store names, as far as we know."""

    async def take_over(self) -> None:
        """Reads where this delivery stands. From now on nobody who had it before can write, whether they have noticed
        that their turn is over or not: what we know of the parts stays true.
        """
        entry = await self._change(lambda found: found if found.delivery == self._delivery else Entry())
        self.part, self.tries, self.is_in_doubt = entry.part, entry.tries, entry.is_in_doubt
        self.refused, self.lock_id = entry.refused, entry.lock_id
        self._named = entry.lock_id

    @property
    def names_our_lock(self) -> bool:
        """Whoever goes on has the lock that the journal names: then it is not ours to release."""
        return self._named != "" and self._named == self.lock_id

    @property
    def is_begun(self) -> bool:
        """Whether a part of it may have gone out."""
        return self.part > 0 or self.tries > 0

    async def note(self, part: int, tries: int, is_in_doubt: bool = False) -> None:
        """Raises `LeaseLost` if another process has taken over this delivery, or a later one.

        While the store is away it tries again, for as long as the delivery has its turn.
        """
        # until a part may have gone out, whoever has the lock releases it when it stops: nobody else may go on under it
        lock_id = self.lock_id if part or tries else ""
        entry = Entry(part=part, tries=tries, is_in_doubt=is_in_doubt, refused=self.refused, lock_id=lock_id)
        self._named = lock_id or self._named  # also if the answer is lost: the store may have it all the same
        await self._change(lambda found: entry)
        self._named = lock_id
        self.part, self.tries, self.is_in_doubt = part, tries, is_in_doubt

    async def _change(self, change: Callable[[Entry], Entry]) -> Entry:
        while True:
            try:
                entry = await self._write(change)
                break
            except (StoreUnavailable, CommitUnknown, LeaseLost) as error:
                log.warning("the journal %s is not written, trying again: %s", self._key, error)
                await asyncio.sleep(JOURNAL_PAUSE_S)
        if entry is None:
            raise LeaseLost(self._key, self._fence, "another process goes on with this delivery")
        return entry

    async def _write(self, change: Callable[[Entry], Entry]) -> Entry | None:
        """Returns what was written; `None` if there is a newer entry."""
        async with self._app.turn(self._key, state=Entry, state_ttl=KEEP_JOURNAL_S) as turn:
            if turn.state.fence > self._fence:
                self._named = turn.state.lock_id
                return None
            ours = {"delivery": self._delivery, "fence": self._fence}
            entry: Entry = change(turn.state).model_copy(update=ours)
            turn.state = entry
        return entry


class _TooLate(Stop):
    def __init__(self, is_begun: bool) -> None:
        super().__init__(f"it could not be delivered for {GIVE_UP_S / 3600:g} hours")
        self.is_begun = is_begun


class DeliveryLane:
    def __init__(
        self,
        app: InTurn,
        chat: Chat,
        typing: TypingIndicatorManager,
        pace: Pace,
        lock_manager: Any,
        dedup_manager: Any,
    ) -> None:
        self._app = app
        self._chat = chat
        self._typing = typing
        self._pace = pace
        self._locks = lock_manager
        self._sent = SentTexts(dedup_manager)
        self._life_s: float = getattr(lock_manager, "default_timeout", LOCK_TIMEOUT_S)
        app.handler(
            DELIVER, body=Delivery, dedup_window=WINDOW_S, time_limit=1800, attempts=ATTEMPTS, on_dead=self._on_dead
        )(self._run)  # fmt: skip

    async def _run(self, turn: Turn[None]) -> Result:
        delivery = turn.body
        journal = LaneJournal(self._app, delivery.chat_id, delivery.id, turn.fence)
        await journal.take_over()
        if turn.messages[0].waited_s > GIVE_UP_S:
            raise _TooLate(journal.is_begun)
        lock = SendLock.of(self._locks, delivery.chat_id, self._life_s)
        pause_s = min(turn.attempt - 1.0, MAX_PAUSE_S)
        journal.lock_id = await self._take(lock, journal.lock_id, pause_s)
        is_over = False
        try:
            async with lock.extended(journal.lock_id):
                result = await self._deliver(delivery, journal)
            is_over = True
        except NotSent as refusal:
            after_s = max(pause_s, min(refusal.after or 0.0, GIVE_UP_S))
            if journal.names_our_lock:
                await self._keep(lock, journal.lock_id, after_s)
            raise Retry(str(refusal), after=after_s) from refusal
        finally:
            # others wait while the rest of an answer is still to come: their words must not stand in its middle
            if is_over or not journal.names_our_lock:
                await lock.release(journal.lock_id)
        self._tell(turn, delivery, result, is_untold=journal.part == journal.refused)
        return result

    async def _take(self, lock: SendLock, lock_id: str, pause_s: float) -> str:
        """The lock that this delivery had before it was cut off, if that is still its own; else a new one."""
        try:
            if lock_id and lock.lock.can_be_extended and await lock.lock.extend(lock_id, lock.life_s):
                return lock_id
            taken = await lock.take(lock.life_s)
        except StoreUnavailable as error:
            raise Retry(f"the send lock cannot be had: {error}", after=max(pause_s, 1.0)) from error
        if taken is None:
            raise Retry("someone else is sending to this user", after=max(pause_s, 0.1))
        return taken

    async def _keep(self, lock: SendLock, lock_id: str, wait_s: float) -> None:
        try:
            await lock.lock.extend(lock_id, wait_s + lock.life_s)
        except Exception as error:  # noqa: BLE001 - whatever a manager raises, the wait must be kept
            log.warning("the send lock of %s may expire before the rest of an answer: %s", lock.lock.whose, error)

    async def _deliver(self, delivery: Delivery, journal: LaneJournal) -> Result:
        chat_id = delivery.chat_id
        if delivery.is_proactive and not journal.is_begun and await self._is_quiet(delivery.user_id):
            return "quiet"
        if delivery.is_proactive and not journal.is_begun and await self._sent.has(delivery.text_id):
            log.info("Skipping duplicate message for user %s", chat_id)
            metrics.safe_send_duplicates.inc()
            metrics.safe_sends.labels("duplicate").inc()
            return "duplicate"
        # nobody misses a greeting that did not come, but everybody misses an answer
        max_tries = 1 if delivery.is_proactive else 2
        courier = Courier(self._chat, chat_id, self._typing, self._pace, max_tries)
        try:
            delivered = await courier.deliver(delivery.parts, journal)
        except Unreachable as error:
            log.error("Error sending message to user %s: %s", chat_id, error)
            metrics.safe_sends.labels("unreachable").inc()
            return "unreachable"
        if journal.refused == len(delivery.parts):
            return self._failed(delivery)
        await self._sent.mark(delivery.text_id)
        if delivered.in_doubt == len(delivery.parts):
            log.warning("user %s: the message may or may not have been sent", chat_id)
        else:
            log.info("Successfully sent message to user %s", chat_id)
        metrics.safe_sends.labels("sent").inc()
        return "sent"

    async def _is_quiet(self, user_id: int) -> bool:
        """Now: since it was written, hours may have passed, and the user may have set others."""
        user = await self._app.lanes.state(f"user:{user_id}", User)
        now = datetime.fromtimestamp(self._app.runtime.now_s(), UTC)
        return user is not None and user.quiet is not None and user.quiet.is_quiet(now)

    def _failed(self, delivery: Delivery) -> Result:
        what = "proactive message" if delivery.is_proactive else "AI response"
        log.warning("Failed to send %s to user %s", what, delivery.chat_id)
        metrics.safe_sends.labels("failed").inc()
        return "failed"

    def _tell(self, turn: Turn[None], delivery: Delivery, result: Result, *, is_untold: bool) -> None:
        if delivery.is_proactive or result == "unreachable":
            outcome = Outcome(
                user_id=delivery.user_id, result=result, is_cadence=delivery.is_cadence, epoch=delivery.epoch,
                text=delivery.text if is_untold else "", again=delivery.again,
            )  # fmt: skip
            turn.send(OUTCOME, outcome, key=f"user:{delivery.user_id}")

    def _on_dead(self, turn: Turn[None], error: Exception) -> None:
        is_untold = isinstance(error, _TooLate) and not error.is_begun  # otherwise parts of it may have gone out
        self._tell(turn, turn.body, self._failed(turn.body), is_untold=is_untold)
