"""The webhook by which Telegram brings updates: answered with 200 only when the lane has the update.

Telegram proves itself by the secret that the webhook was set with, so the route needs no API key.
"""

from __future__ import annotations

import hmac
import logging
import re
from typing import Annotated

from inturn.bot.bot import CompanionBot
from inturn.errors import MissingExtra, SettingsError, StoreUnavailable
from inturn.http.problems import Problem

try:
    from fastapi import APIRouter, Header, Request, Response
except ModuleNotFoundError as error:
    raise MissingExtra("inturn.bot.webhook", "server") from error

log = logging.getLogger("inturn.bot")

WEBHOOK_PATH = "/api/v1/telegram"
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}")


def checked_secret(secret: object) -> str:
    if not isinstance(secret, str) or not _SECRET.fullmatch(secret):  # None: a variable that nobody has set
        raise SettingsError("INTURN_BOT_WEBHOOK_SECRET: must be 16 to 256 letters, digits or any of _ -")
    return secret


def bot_routes(companion: CompanionBot, secret: str, path: str = WEBHOOK_PATH) -> APIRouter:
    """`app.include_router(bot_routes(companion, secret))`, in your own FastAPI app too."""
    expected = checked_secret(secret).encode()
    routes = APIRouter(tags=["bot"])

    async def take(request: Request, token: str) -> None:
        # compared as bytes: a header may hold anything
        if not hmac.compare_digest(token.encode("utf-8", "surrogateescape"), expected):
            raise Problem("not-authenticated", "The secret token of the webhook is missing or wrong.")
        try:
            update = await request.json()
        except (ValueError, RecursionError):
            update = None
        if not isinstance(update, dict):
            raise Problem("bad-request", "The body is not the JSON of an update.")
        try:
            await companion.take(update)
        except StoreUnavailable as error:  # Telegram brings it again
            log.warning("an update was not taken, and will come again: %s", error)
            raise Problem("store-unavailable") from error

    @routes.post(path, name="telegram_webhook", include_in_schema=False)
    async def telegram_webhook(
        request: Request, token: Annotated[str, Header(alias="x-telegram-bot-api-secret-token")] = ""
    ) -> Response:
        try:
            await take(request, token)
        except Problem as problem:  # answered here: the app may be someone else's, without our handlers
            body = problem.written(request.url.path)
            return Response(body, status_code=problem.status, headers=problem.headers())
        return Response("{}", media_type="application/json")

    return routes
