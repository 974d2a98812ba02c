"""`chat_of`: whatever somebody calls their bot, as a chat."""

from __future__ import annotations

import inspect
from typing import Any

from inturn.bot.chat import Chat
from inturn.bot.text import Part
from inturn.errors import ArgumentTypeError


class PlainBot:
    """A chat over an object that has `send_message(chat_id=…, text=…)`, such as the bot of another library. It sends
    plain text, and tells errors apart no further: whatever is raised may have happened after the message was taken. The
    bot may be synchronous, and then it blocks the loop.
    """

    def __init__(self, bot: Any) -> None:
        self._bot = bot

    async def send_part(self, chat_id: int | str, part: Part) -> int | None:
        sent = self._bot.send_message(chat_id=chat_id, text=part.in_plain_text())
        if inspect.isawaitable(sent):
            sent = await sent
        found = getattr(sent, "message_id", None)
        return found if isinstance(found, int) else None

    async def show_typing(self, chat_id: int | str) -> None:
        show = getattr(self._bot, "send_chat_action", None)
        if show is not None:
            shown = show(chat_id=chat_id, action="typing")
            if inspect.isawaitable(shown):
                await shown

    async def ping(self) -> None:
        """What its errors mean, nobody knows: an outage is not waited for."""


def chat_of(bot: Any) -> Chat:
    """The chat that this object carries: it is one, it is an aiogram `Bot`, or it has `send_message`."""
    if callable(getattr(type(bot), "send_part", None)):  # its class: a mock itself seems to have every method
        for method in ("show_typing", "ping"):
            if not callable(getattr(bot, method, None)):
                raise ArgumentTypeError("bot", f"has send_part, and must have {method} too (inturn.bot.chat.Chat)", bot)
        chat: Chat = bot
        return chat
    if any(base.__module__.partition(".")[0] == "aiogram" for base in type(bot).__mro__):
        from inturn.bot.telegram import TelegramChat  # aiogram is installed: the object is its own

        return TelegramChat(bot)
    return PlainBot(bot)
