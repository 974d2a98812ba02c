"""A Telegram bot that counts a user's tea: its own agent, its own memory, bursts answered together, one first message.

    INTURN_BOT_TOKEN=123456:ABC-DEF python examples/telegram_bot.py        (needs: pip install 'inturn[bot]')

Write three messages in a row: they get one answer. Kill it in the middle of an answer, and start it again: the rest
follows. Start it twice: no message is answered twice. An hour after your last message it writes first.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

from inturn import InTurn
from inturn.agents import Activity, Ask
from inturn.bot import BotOptions, CompanionBot
from inturn.bot.polling import Polling
from inturn.bot.telegram import make_bot
from inturn.errors import SettingsError
from inturn.settings import load_settings


class TeaCounter:
    """In the place of a language model. `ask.memory` is stored with the answer, or not at all."""

    name = "tea"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        if not ask.text:  # the bot is to write first
            yield Activity.said("Is it time for another cup?")
            return
        ask.memory["cups"] = ask.memory.get("cups", 0) + ask.text.lower().count("tea")
        yield Activity.said(f"**{ask.memory['cups']}** so far.\n\nYou wrote: {' / '.join(ask.text.splitlines())}")

    async def aclose(self) -> None:
        """Has nothing to close."""


async def main() -> None:
    settings = load_settings()
    try:
        bot = make_bot(settings)  # an aiogram Bot; your own will do
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    app = InTurn(settings=settings)  # INTURN_URL, or an SQLite file in this folder
    companion = CompanionBot(app, TeaCounter(), bot, BotOptions(quiet=settings.bot_quiet))
    polling = Polling(companion, bot)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, polling.stop)
    async with app:
        companion.start(concurrency=100)
        print("polling; Ctrl-C ends it", flush=True)
        await polling.run()
        await companion.stop(within=30)
        await companion.close()
    await bot.session.close()


if __name__ == "__main__":
    asyncio.run(main())
