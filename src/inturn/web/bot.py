"""The companion bot in `inturn serve`: Telegram brings updates to a webhook, which is set when the server starts."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Set as AbstractSet
from urllib.parse import unquote, urlsplit

from fastapi import APIRouter

from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.bot.bot import SPEAKING, THINKING
from inturn.bot.factory import make_companion, make_companion_agent
from inturn.bot.telegram import ALLOWED_UPDATES, make_bot
from inturn.bot.webhook import WEBHOOK_PATH, bot_routes, checked_secret
from inturn.errors import SettingsError
from inturn.settings import Settings

log = logging.getLogger("inturn.bot")

LOOK_S = 30.0


class ServedBot:
    handlers: AbstractSet[str] = THINKING | SPEAKING
    """Its workers are its own: a delivery that waits must not take a place from a conversation."""

    def __init__(self, app: InTurn, settings: Settings, agent: Agent | None) -> None:
        if settings.bot_token is None or settings.bot_webhook_url is None:
            missing = "INTURN_BOT_TOKEN" if settings.bot_token is None else "INTURN_BOT_WEBHOOK_URL"
            raise SettingsError(f"{missing}: must be set if INTURN_SERVICES names bot (inturn bot needs no webhook)")
        url = urlsplit(settings.bot_webhook_url)
        path = url.path.rstrip("/") or WEBHOOK_PATH
        self._url = url._replace(path=path).geturl()
        self.path = unquote(path)  # as a request has it
        given = settings.bot_webhook_secret
        token = settings.bot_token.get_secret_value()
        # every process with this token knows the same secret, and nobody else can
        derived = hmac.new(token.encode(), b"inturn webhook", hashlib.sha256).hexdigest()
        self._secret = derived if given is None else checked_secret(given.get_secret_value())
        self._bot = make_bot(settings)
        self._concurrency = settings.bot_concurrency
        self._works_cadence = settings.bot_works_cadence
        answers = agent or make_companion_agent(settings)
        self._own_agent = answers if agent is None else None
        self.companion = make_companion(app, answers, self._bot, settings)
        self._setting: asyncio.Task[None] | None = None

    def routes(self) -> APIRouter:
        return bot_routes(self.companion, self._secret, self.path)

    def start(self, grace_s: float) -> None:
        self.companion.start(self._concurrency, grace_s, works_cadence=self._works_cadence)
        self._setting = asyncio.create_task(self._set_webhook())

    async def _set_webhook(self) -> None:
        while True:
            try:
                await self._bot.set_webhook(self._url, secret_token=self._secret, allowed_updates=ALLOWED_UPDATES)
            except Exception as error:  # noqa: BLE001 - whatever it is, the server serves; and it may be over soon
                pause_s = max(LOOK_S, getattr(error, "retry_after", 0))
                log.error("Telegram did not take the webhook %s, trying again in %g s: %s", self._url, pause_s, error)
                await asyncio.sleep(pause_s)
            else:
                log.info("Telegram brings updates to %s", self._url)
                return

    async def close(self) -> None:
        if self._setting is not None:
            self._setting.cancel()
        await self.companion.close()
        if self._own_agent is not None:
            await self._own_agent.aclose()
        await self._bot.session.close()
