"""A process with a companion bot, told what to do by JSON lines.

`companion.py URL NAMESPACE TELEGRAM_URL [PAUSE [LEASE]]`: its agent takes a moment, and answers in three parts, with so
many seconds between them. LEASE is that of its lanes, in seconds. It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from datetime import timedelta

from aiogram import Bot

from inturn import InTurn
from inturn.agents import Activity, Ask
from inturn.bot import BotOptions, Cadence, CompanionBot, courier, send_ai_response, send_ai_response_safe
from inturn.bot.polling import Polling
from inturn.bot.telegram import make_bot
from inturn.settings import Settings
from tests.acceptance.actor import say
from tests.bot.patience import LONG_LEASE_S, give_calls_time, give_leases
from tests.servers.telegram import TOKEN

WAIT_S = 150.0
"""As long as the test waits for the last of all parts."""
SOON = Cadence(steps=(timedelta(seconds=1), timedelta(days=1)), jitter=0.0)


def in_parts(text: str) -> str:
    return "\n\n".join(f"{text} {number}" for number in (1, 2, 3))


class InParts:
    name = "in parts"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        await asyncio.sleep(random.uniform(0.0, 0.05))
        yield Activity.said(in_parts(ask.text or f"news after {len(ask.history)}"))

    async def aclose(self) -> None:
        """It holds nothing."""


class Actor:
    def __init__(self, companion: CompanionBot, bot: Bot) -> None:
        self._companion = companion
        self._bot = bot
        self._polling = Polling(companion, bot, long_s=5)
        self._tasks: set[asyncio.Task[None]] = set()

    async def do_poll(self) -> None:
        await self._polling.run()
        say("polled")

    async def do_stop_polling(self) -> None:
        self._polling.stop()

    async def do_work(self) -> None:
        self._companion.start(200, 5)
        say("working")

    async def do_stop(self) -> None:
        say("stopped", is_finished=await self._companion.stop(20))

    async def do_say(self, user: int, text: str) -> None:
        """A proactive message, by the lanes."""
        await self._companion.say(user, in_parts(text))

    async def do_safe(self, user: int, text: str) -> None:
        """A message of code that sends by itself."""
        locks, dedup = self._companion.lock_manager, self._companion.dedup_manager
        is_sent = await send_ai_response_safe(user, in_parts(text), self._bot, None, locks, dedup, 30, wait=WAIT_S)
        say("safe", str(user), is_sent=is_sent)

    async def do_unguarded(self, user: int, text: str) -> None:
        await send_ai_response(user, in_parts(text), self._bot)
        say("unguarded", str(user))

    def run(self, command: dict[str, object]) -> None:
        task = asyncio.create_task(getattr(self, f"do_{command.pop('do')}")(**command))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            say("failed", why=repr(error))


async def main() -> None:
    url, namespace, telegram_url, pause_s, lease_s, *_ = [*sys.argv[1:], "", ""]
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    settings = Settings.model_validate({"bot_token": TOKEN, "bot_api_url": telegram_url, "store_timeout": 20.0})
    bot = make_bot(settings)
    if pause_s:
        vars(courier)["reading_pause_s"] = lambda *_: float(pause_s)
    pace = courier.READING_PACE if pause_s else None
    async with InTurn(url, namespace=namespace, settings=settings) as app:
        companion = CompanionBot(app, InParts(), bot, BotOptions(quiet=0.0, pace=pace))
        give_calls_time()
        give_leases(companion, float(lease_s or LONG_LEASE_S))
        actor = Actor(companion, bot)
        say("ready")
        while line := await commands.readline():
            actor.run(json.loads(line))
        await companion.close()
    await bot.session.close()


if __name__ == "__main__":
    asyncio.run(main())
