"""`inturn bot`: the companion on Telegram by long polling, or in the terminal with `--console`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys

from inturn import arguments as checked
from inturn.app import InTurn
from inturn.bot.console import ConsoleChat, run_console, to_stdout
from inturn.bot.factory import make_companion, make_companion_agent
from inturn.errors import ArgumentError, MissingExtra, SettingsError, StoreUnavailable
from inturn.http.request_id import log_to_stderr
from inturn.settings import Settings, load_settings

log = logging.getLogger("inturn.bot")

CONSOLE_PACE_S = 0.02
CONSOLE = ".console"
"""Added to the namespace. In one with a bot on Telegram, each would answer in the other's place."""
MAX_NAMESPACE = 64


def run_bot(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    grace = checked.seconds(arguments.grace, "grace", allow_zero=True)
    if arguments.console:
        if arguments.delete_webhook:
            raise ArgumentError("--delete-webhook", "has nothing to do with --console, which is not on Telegram")
        log_to_stderr("ERROR" if settings.log_level == "INFO" else settings.log_level)
        if settings.offline_pace is None:
            settings = settings.model_copy(update={"offline_pace": CONSOLE_PACE_S})
        asyncio.run(_chat(settings, arguments))
        return 0
    log_to_stderr(settings.log_level)
    if settings.bot_token is None:
        raise SettingsError(
            "INTURN_BOT_TOKEN is not set: it is the token that BotFather on Telegram gives you. To try the bot without "
            "one: inturn bot --console"
        )
    try:
        return asyncio.run(_poll(settings, arguments, grace))
    except MissingExtra as error:
        raise MissingExtra("inturn bot", error.extra) from error


async def _chat(settings: Settings, arguments: argparse.Namespace) -> None:
    namespace = (arguments.namespace or settings.namespace)[: MAX_NAMESPACE - len(CONSOLE)] + CONSOLE
    app = InTurn(arguments.url, namespace=namespace, settings=settings)
    agent = make_companion_agent(settings)
    companion = make_companion(app, agent, ConsoleChat(to_stdout), settings)
    try:
        await app.open()
        await run_console(companion, sys.stdin, to_stdout)
    finally:
        await companion.close()
        await agent.aclose()
        await app.close()


async def _poll(settings: Settings, arguments: argparse.Namespace, grace: float) -> int:
    from inturn.bot.polling import Polling
    from inturn.bot.telegram import make_bot

    bot = make_bot(settings)
    app = InTurn(arguments.url, namespace=arguments.namespace, settings=settings)
    agent = make_companion_agent(settings)
    companion = make_companion(app, agent, bot, settings)
    polling = Polling(companion, bot, deletes_webhook=arguments.delete_webhook)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        polling.stop()
        companion.begin_to_stop()  # a second signal ends the grace of the running turns

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        try:
            await app.open()
        except StoreUnavailable as error:
            log.warning("the store is away; updates are taken when it is back: %s", error)
        companion.start(settings.bot_concurrency, grace, works_cadence=settings.bot_works_cadence)
        print(f"inturn bot polls Telegram (agent {agent.name})", flush=True)
        await polling.run()
        return 0 if await companion.stop(grace) else 1
    finally:
        await companion.close()
        await agent.aclose()
        await app.close()
        await bot.session.close()
