"""`TypingIndicatorManager`: shows the typing sign in a chat for as long as somebody writes there.

The sign is only a hint: one that cannot be shown is logged, and costs nothing. A chat in which Telegram asked for
silence gets none until the time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from inturn import arguments
from inturn.bot.any_bot import chat_of
from inturn.bot.chat import NotSent
from inturn.store import clock

log = logging.getLogger("inturn.bot")

EVERY_S = 3.0
"""Telegram takes the sign away after five seconds, and with every message of the bot."""


class TypingIndicatorManager:
    """`async with typing_manager.typing(chat_id, bot):`, or `start_typing` and as many `stop_typing`."""

    def __init__(self, every: arguments.Seconds = EVERY_S) -> None:
        self._every_s = arguments.seconds(every, "every")
        self._writers: dict[int | str, int] = {}
        self._tasks: dict[int | str, asyncio.Task[None]] = {}
        self._silent_until: dict[int | str, float] = {}

    def start_typing(self, chat_id: int | str, bot: Any) -> None:
        task = self._tasks.get(chat_id)
        if task is None or task.done():
            loop = asyncio.get_running_loop()  # raises where there is none: then nobody has begun to write
            self._tasks[chat_id] = loop.create_task(self._show(chat_id, bot))
        self._writers[chat_id] = self._writers.get(chat_id, 0) + 1

    def stop_typing(self, chat_id: int | str) -> None:
        left = self._writers.get(chat_id, 0) - 1
        if left > 0:
            self._writers[chat_id] = left
            return
        self._writers.pop(chat_id, None)
        task = self._tasks.pop(chat_id, None)
        if task is not None:
            task.cancel()  # a sign that is under way is not waited for

    @asynccontextmanager
    async def typing(self, chat_id: int | str, bot: Any) -> AsyncIterator[None]:
        self.start_typing(chat_id, bot)
        try:
            yield
        finally:
            self.stop_typing(chat_id)

    def silence(self, chat_id: int | str, seconds: float) -> None:
        """Telegram asked for silence in this chat: calls meanwhile would make it longer."""
        now = clock.now()
        for other, until in list(self._silent_until.items()):
            if until <= now:
                del self._silent_until[other]
        self._silent_until[chat_id] = max(now + seconds, self._silent_until.get(chat_id, 0.0))

    async def _show(self, chat_id: int | str, bot: Any) -> None:
        chat = chat_of(bot)
        while True:
            if clock.now() >= self._silent_until.get(chat_id, 0.0):
                try:
                    await chat.show_typing(chat_id)
                except NotSent as error:
                    self.silence(chat_id, error.after or self._every_s)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is only the sign
                    log.debug("user %s: no typing sign: %s", chat_id, error)
            await asyncio.sleep(self._every_s)
