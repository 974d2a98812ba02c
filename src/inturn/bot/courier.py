"""How an answer goes out: part by part, in order, each awaited before the next.

The journal knows a part before it is sent, and when it is answered, so after a crash it says which one is in doubt. A
part that was certainly not sent is tried again in place, and holds back those behind it. One in doubt is sent again in
a reply, once Telegram answers again, and not in a proactive message; then the next part follows.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

from inturn import metrics
from inturn.bot.any_bot import chat_of
from inturn.bot.chat import Chat, NotSent, PerhapsSent, Unsendable
from inturn.bot.text import Part, reading_pause_s, split
from inturn.bot.typing_indicator import TypingIndicatorManager

log = logging.getLogger("inturn.bot")

READING_PACE = (10.0, 30.0)
"""Characters per second at which later parts follow."""
FIRST_PAUSE_S, MAX_WAIT_S = 0.5, 10.0
"""Longer waits are not slept through: the delivery is put back, and goes on later."""
MAX_REFUSALS = 5
DOUBT_PAUSE_S = 1.0

Pace = tuple[float, float] | None


class Journal(Protocol):
    """Where a delivery stands: `part` is the first that is not known to have gone out, `tries` how often it was tried,
    `is_in_doubt` whether one of these tries may have succeeded, `refused` how many parts before it were refused for
    good.
    """

    part: int
    tries: int
    is_in_doubt: bool
    refused: int

    async def note(self, part: int, tries: int, is_in_doubt: bool = False) -> None:
        """Remembers it, before anything else happens."""
        ...


class Memo:
    """A journal for a sender that nobody continues."""

    part = tries = refused = 0
    is_in_doubt = False

    async def note(self, part: int, tries: int, is_in_doubt: bool = False) -> None:
        self.part, self.tries, self.is_in_doubt = part, tries, is_in_doubt


class Delivered(NamedTuple):
    """How many parts were sent, are in doubt, and were refused for good, since the delivery was taken up."""

    sent: int = 0
    in_doubt: int = 0
    refused: int = 0


class Courier(NamedTuple):
    """Takes the parts of an answer to a chat. `max_tries`: how often a part may be sent without an answer."""

    chat: Chat
    chat_id: int | str
    typing: TypingIndicatorManager | None = None
    pace: Pace = READING_PACE
    max_tries: int = 2

    async def deliver(self, parts: Sequence[Part], journal: Journal) -> Delivered:
        """Raises `Unreachable`; and `NotSent` if the next part has to wait for long: then call it again later."""
        counts = {"sent": 0, "in_doubt": 0, "refused": 0}
        for number in range(journal.part, len(parts)):
            if journal.tries == 0:
                await self._pause(parts, number)
            outcome = await self._send(number, parts[number], journal)
            journal.refused += outcome == "refused"
            await journal.note(number + 1, 0)
            metrics.bot_parts.labels(outcome).inc()
            counts[outcome] += 1
        return Delivered(**counts)

    async def _pause(self, parts: Sequence[Part], number: int) -> None:
        if number == 0 or self.pace is None:
            return
        pause_s = reading_pause_s(parts[number - 1].text, random.uniform(*self.pace))
        writing: AbstractAsyncContextManager[None] = nullcontext()
        if self.typing is not None:
            writing = self.typing.typing(self.chat_id, self.chat)
        async with writing:
            await asyncio.sleep(pause_s)

    async def _send(self, number: int, part: Part, journal: Journal) -> str:
        tries, is_in_doubt, refusals = journal.tries, journal.is_in_doubt, 0
        while tries < self.max_tries:
            if tries:
                await self._until_reached()
            await journal.note(number, tries + 1, is_in_doubt=True)
            try:
                await self.chat.send_part(self.chat_id, part)
                return "sent"
            except NotSent as refusal:
                await journal.note(number, tries, is_in_doubt)  # this try is in no doubt
                refusals += 1
                await self._wait(refusal, refusals)
            except PerhapsSent as doubt:
                log.warning("user %s: part %d may or may not have been sent: %s", self.chat_id, number + 1, doubt)
                tries, is_in_doubt = tries + 1, is_in_doubt or not doubt.has_failed
                if not is_in_doubt:
                    await journal.note(number, tries)
            except Unsendable as error:
                log.error("user %s: part %d cannot be sent: %s", self.chat_id, number + 1, error)
                break
        return "in_doubt" if is_in_doubt else "refused"

    async def _until_reached(self) -> None:
        """A part in doubt has few tries, and none of them is for an outage."""
        await asyncio.sleep(DOUBT_PAUSE_S)
        for refusals in itertools.count(1):
            try:
                await self.chat.ping()
                return
            except NotSent as refusal:
                await self._wait(refusal, refusals)

    async def _wait(self, refusal: NotSent, refusals: int) -> None:
        pause_s = FIRST_PAUSE_S * 2.0 ** (refusals - 1) if refusal.after is None else refusal.after
        if self.typing is not None and refusal.after is not None:
            self.typing.silence(self.chat_id, refusal.after)
        if pause_s > MAX_WAIT_S or refusals >= MAX_REFUSALS:
            raise NotSent(str(refusal), max(pause_s, MAX_WAIT_S)) from refusal
        log.info("user %s: waiting for %g s: %s", self.chat_id, pause_s, refusal)
        await asyncio.sleep(pause_s)


async def send_ai_response(chat_id: int | str, text: str, bot: Any, typing_manager: Any = None) -> None:
    """Send a text to a chat: split at blank lines, the first part at once, the others at reading pace.

    `bot`: an aiogram `Bot`, or any object with `send_message(chat_id=…, text=…)`. Raises `Unreachable` if the user
    cannot be written to, `NotSent` if a part would have to wait for long, `Unsendable` if no part can be sent, and
    `PerhapsSent` if nobody knows of any part whether it was. A typing manager of another kind is left alone: only a
    `send=` of your own knows it.
    """
    await _send_text(chat_id, text, bot, typing_manager, max_tries=2)


async def send_each_part_once(chat_id: int | str, text: str, bot: Any, typing_manager: Any = None) -> None:
    """As `send_ai_response`; but a part that may have gone out is not sent again."""
    await _send_text(chat_id, text, bot, typing_manager, max_tries=1)


async def _send_text(chat_id: int | str, text: str, bot: Any, typing_manager: Any, max_tries: int) -> None:
    if typing_manager is not None and not isinstance(typing_manager, TypingIndicatorManager):
        kind = type(typing_manager).__name__
        log.warning("user %s: no typing sign: inturn's TypingIndicatorManager shows it, and this is %s", chat_id, kind)
        typing_manager = None
    courier = Courier(chat_of(bot), chat_id, typing_manager, max_tries=max_tries)
    memo = Memo()
    try:
        delivered = await courier.deliver(split(text), memo)
    except NotSent as refusal:
        if memo.part == 0 and memo.is_in_doubt:
            raise PerhapsSent(f"no answer to the first part, and then {refusal}") from refusal
        raise
    if not delivered.sent and not delivered.in_doubt:
        raise Unsendable(f"nothing of this text can be sent: parts refused: {delivered.refused}")
    if not delivered.sent:
        raise PerhapsSent(f"no answer to any part: {delivered.in_doubt}")
