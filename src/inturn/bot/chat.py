"""Where parts of answers go: a chat. What can become of a part there is one of four errors, whatever carries it.

`send_part` returns the id of the message once the other side has it. Telegram has no idempotency key: if an answer is
lost, nobody can know whether the part was taken. So "certainly not" and "perhaps" are two different errors.
"""

from __future__ import annotations

from typing import Protocol

from inturn.bot.text import Part


class NotSent(Exception):
    """It was certainly not sent: refused, or never on its way. `after`: seconds to wait before another try."""

    def __init__(self, why: str = "not sent", after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class PerhapsSent(Exception):
    """It was on its way when the answer was lost. `has_failed`: there was an answer, and it says that something broke
    over there, so most likely it was not taken.
    """

    def __init__(self, why: str = "no answer", *, has_failed: bool = False) -> None:
        super().__init__(why)
        self.has_failed = has_failed


class Unreachable(Exception):
    """This user cannot be written to: they blocked the bot, or are gone."""


class Unsendable(Exception):
    """This part will never be taken as it is."""


class Chat(Protocol):
    async def send_part(self, chat_id: int | str, part: Part) -> int | None:
        """Returns the id of the message. Raises one of the errors above."""
        ...

    async def show_typing(self, chat_id: int | str) -> None:
        """Shows the typing sign for a few seconds. Raises `NotSent` if it must be left alone for a while."""
        ...

    async def ping(self) -> None:
        """Asks the other side for something that costs nothing. Raises `NotSent` if it does not answer: the last try of
        a part in doubt waits until it does.
        """
        ...
