"""Our bot, in a process of its own: with the store, the namespace and Telegram's address as its arguments.

Its first line is the memory that it has, in MB. A line on its input lets it poll; the next one ends that, and is
answered with the most memory that it has had.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiogram import Bot

from benchmarks.bot.answers import QUIET_S, SlowAgent
from inturn.app import InTurn
from inturn.bot import BotOptions, CompanionBot
from inturn.bot.polling import Polling
from inturn.bot.telegram import make_bot
from inturn.settings import Settings
from tests.servers.telegram import TOKEN


@asynccontextmanager
async def working(url: str, namespace: str, telegram_url: str) -> AsyncIterator[tuple[CompanionBot, Bot]]:
    settings = Settings.model_validate({"bot_token": TOKEN, "bot_api_url": telegram_url})
    # no pauses between parts, and nothing that it writes first by itself: neither is asked here
    options = BotOptions(quiet=QUIET_S, pace=None, cadence=None)
    bot = make_bot(settings)
    async with InTurn(url, namespace=namespace, settings=settings) as app:
        companion = CompanionBot(app, SlowAgent(), bot, options)
        companion.start()
        yield companion, bot
        await companion.close()
    await bot.session.close()


async def main(url: str, namespace: str, telegram_url: str) -> None:
    async with working(url, namespace, telegram_url) as (companion, bot):
        print(peak_mb(), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        polling = Polling(companion, bot)
        async with asyncio.TaskGroup() as group:
            group.create_task(polling.run())
            await asyncio.to_thread(sys.stdin.readline)
            polling.stop()
        print(peak_mb(), flush=True)


def peak_mb() -> float:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except OSError:  # this may be the peak of the process that started this one, too
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    asyncio.run(main(*sys.argv[1:]))
