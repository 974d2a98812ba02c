"""Two bots in a process of its own: ours, and the one that people write first, which has no guard.

Arguments: the store, the namespace, and Telegram's address. A line on its input is JSON: which of the two, the updates
that it gets, and what it is to write first, as chats and texts. It is answered when all of it was done, or is in lanes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiogram import Bot, Dispatcher
from aiogram.types import Message

from benchmarks.bot.answers import answer
from benchmarks.bot.companion import working
from benchmarks.bot.race import OURS, UNGUARDED
from inturn.bot import CompanionBot, send_ai_response_safe

MAX_LINE = 2**24

Updates = Sequence[dict[str, Any]]
Work = Callable[[Updates, Sequence[tuple[int, str]]], Awaitable[None]]


async def send_parts(chat_id: Any, text: str, bot: Bot, typing_manager: Any = None) -> None:
    """What people call `send_ai_response`, and what both sides send with."""
    for part in text.split("\n\n"):
        await bot.send_message(chat_id, part)


def guarded(companion: CompanionBot, bot: Bot) -> Work:
    """Of what it writes first, the lanes carry every second text; the others go by `send_ai_response_safe`."""

    async def take(updates: Updates) -> None:
        for update in updates:  # those of a user come one after the other
            await companion.take(update)

    async def send_safely(user_id: int, text: str) -> None:
        managers = companion.lock_manager, companion.dedup_manager
        await send_ai_response_safe(user_id, text, bot, None, *managers, send=send_parts)

    async def work(updates: Updates, proactive: Sequence[tuple[int, str]]) -> None:
        by_user = defaultdict(list)
        for update in updates:
            by_user[update["message"]["from"]["id"]].append(update)
        await asyncio.gather(
            *map(take, by_user.values()),
            *(companion.say(user_id, text) for user_id, text in proactive[::2]),
            *(send_safely(user_id, text) for user_id, text in proactive[1::2]),
        )

    return work


def unguarded(bot: Bot) -> Work:
    """No lane, no lock, and no memory of what was there before. As aiogram does it, every update has its own task."""
    dispatcher = Dispatcher()

    @dispatcher.message()
    async def on_message(message: Message) -> None:
        await send_parts(message.chat.id, await answer(message.text or ""), bot)

    async def work(updates: Updates, proactive: Sequence[tuple[int, str]]) -> None:
        await asyncio.gather(
            *(dispatcher.feed_raw_update(bot, update) for update in updates),
            *(send_parts(user_id, text, bot) for user_id, text in proactive),
        )

    return work


async def main(url: str, namespace: str, telegram_url: str) -> None:
    orders = asyncio.StreamReader(limit=MAX_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with working(url, namespace, telegram_url) as (companion, bot):
        sides = {OURS: guarded(companion, bot), UNGUARDED: unguarded(bot)}
        print("ready", flush=True)
        while line := await orders.readline():
            side, updates, proactive = json.loads(line)
            await sides[side](updates, proactive)
            print("done", flush=True)


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    asyncio.run(main(*sys.argv[1:]))
