"""Telegram through aiogram 3: a `Chat` that knows which errors mean what, and the bot that the settings name."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from inturn.bot.chat import NotSent, PerhapsSent, Unreachable, Unsendable
from inturn.bot.text import Part
from inturn.errors import MissingExtra, SettingsError
from inturn.settings import Settings

try:
    import aiohttp
    from aiogram import Bot, exceptions
    from aiogram.client.session.aiohttp import AiohttpSession
    from aiogram.client.session.base import BaseSession
    from aiogram.client.telegram import TelegramAPIServer
    from aiogram.methods import GetUpdates, Response
    from aiogram.types import Message, MessageEntity, User
    from aiogram.utils.token import TokenValidationError
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("aiogram", "aiohttp"):
        raise
    raise MissingExtra("inturn.bot.telegram", "bot") from error

log = logging.getLogger("inturn.bot")

SEND_S = aiohttp.ClientTimeout(total=20, sock_connect=5)
TYPING_S = aiohttp.ClientTimeout(total=3)
BAD_TOKEN_S = 60.0
"""How long to wait if Telegram does not know the token, or the bot cannot be used: somebody has to change it."""
_FINAL = ("chat not found", "user is deactivated", "bot was blocked", "can't initiate conversation", "peer_id_invalid")
_NEVER_ON_ITS_WAY = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

CONNECTIONS = 100
"""Of them, so many are for parts and for typing signs that each has one at once: a part that waited for a connection
would count against its time, and nobody could tell later whether it was ever sent.
"""
_KEPT = (Response[Message], Response[User], Response[bool])
"""aiogram names these for every call, and pydantic would build them anew whenever nobody holds them."""

ALLOWED_UPDATES = ["message", "edited_message", "my_chat_member"]


class RawUpdates(GetUpdates):
    """Updates as they are. aiogram reads a batch as a whole, so one that it cannot read would block the others."""

    __returning__ = list[dict[str, Any]]


def make_bot(settings: Settings) -> Bot:
    if settings.bot_token is None:
        raise SettingsError(
            "INTURN_BOT_TOKEN: must be set to the token that BotFather gave you. To try the bot without one: "
            "inturn bot --console"
        )
    session = AiohttpSession(limit=CONNECTIONS)
    if settings.bot_api_url is not None:
        session = AiohttpSession(limit=CONNECTIONS, api=TelegramAPIServer.from_base(settings.bot_api_url))
    try:
        return Bot(settings.bot_token.get_secret_value(), session=session)
    except TokenValidationError:
        raise SettingsError("INTURN_BOT_TOKEN: must look like 123456:ABC-DEF, as BotFather gave it to you") from None


class _Places:
    """Of one session on one loop: all chats over it share them, also those that each send makes for itself."""

    def __init__(self, session: BaseSession, loop: asyncio.AbstractEventLoop) -> None:
        made_with: dict[str, Any] = getattr(session, "_connector_init", {})
        connections = made_with.get("limit") or CONNECTIONS
        self.loop = loop
        self.parts = asyncio.Semaphore(max(1, connections * 7 // 10))
        self.signs = asyncio.Semaphore(max(1, connections * 2 // 10))


_places: WeakKeyDictionary[BaseSession, _Places] = WeakKeyDictionary()


class TelegramChat:
    def __init__(self, bot: Bot) -> None:
        self.bot = bot

    @property
    def _places(self) -> _Places:
        loop = asyncio.get_running_loop()
        found = _places.get(self.bot.session)
        if found is None or found.loop is not loop:
            found = _places[self.bot.session] = _Places(self.bot.session, loop)
        return found

    async def send_part(self, chat_id: int | str, part: Part) -> int | None:
        entities = [MessageEntity(**entity.as_dict()) for entity in part.entities]
        self._must_be_of_this_loop()
        try:
            return await self._send(chat_id, part.text, entities)
        except exceptions.TelegramMigrateToChat as moved:
            return await self.send_part(moved.migrate_to_chat_id, part)
        except exceptions.TelegramBadRequest as refused:
            if entities and "entit" in str(refused.message).lower():  # the words matter more than their looks
                log.warning("Telegram refused the entities of a part, which is sent without them: %s", refused.message)
                return await self.send_part(chat_id, Part(part.in_plain_text()))
            raise _read(refused) from refused
        except Exception as error:
            raise _read(error) from error

    async def _send(self, chat_id: int | str, text: str, entities: list[MessageEntity]) -> int:
        # a parse mode that somebody made the default of this bot would read the text anew
        async with self._places.parts:
            sent = await self.bot.send_message(
                chat_id, text, entities=entities or None, parse_mode=None, request_timeout=SEND_S  # type: ignore[arg-type]
            )  # fmt: skip
        return sent.message_id

    async def show_typing(self, chat_id: int | str) -> None:
        signs = self._places.signs
        if signs.locked():
            return  # it would come too late
        self._must_be_of_this_loop()
        try:
            async with signs:
                await self.bot.send_chat_action(chat_id, "typing", request_timeout=TYPING_S)  # type: ignore[arg-type]
        except exceptions.TelegramRetryAfter as error:
            raise NotSent(error.message, float(error.retry_after)) from error

    async def ping(self) -> None:
        self._must_be_of_this_loop()
        try:
            async with self._places.parts:
                await self.bot.get_me(request_timeout=SEND_S)  # type: ignore[arg-type]
        except Exception as error:
            found = _read(error)
            raise NotSent(str(found), getattr(found, "after", None)) from error

    def _must_be_of_this_loop(self) -> None:
        """A `Bot` has the connections of the loop that used it first. On another one nobody knows what was sent."""
        session = getattr(self.bot.session, "_session", None)
        loop = getattr(session, "_loop", None)
        if session is None or loop in (None, asyncio.get_running_loop()) or session.closed:
            return
        raise NotSent("this Bot belongs to another event loop: make one inside each asyncio.run", BAD_TOKEN_S)


def _read(error: Exception) -> Exception:
    """What an error of aiogram says about the message."""
    said = getattr(error, "message", None) or "Telegram did not say why"
    if isinstance(error, exceptions.TelegramRetryAfter):
        return NotSent(said, float(error.retry_after))
    if isinstance(error, exceptions.TelegramUnauthorizedError | exceptions.TelegramNotFound):
        return NotSent(f"Telegram does not know this bot token: {said}", BAD_TOKEN_S)
    if isinstance(error, exceptions.TelegramForbiddenError):
        return Unreachable(said)
    if isinstance(error, exceptions.TelegramConflictError):
        return NotSent(said)
    if isinstance(error, exceptions.TelegramBadRequest | exceptions.TelegramEntityTooLarge):
        is_final = any(words in said.lower() for words in _FINAL)
        return Unreachable(said) if is_final else Unsendable(said)
    if isinstance(error, exceptions.TelegramServerError):
        return PerhapsSent(said, has_failed=True)
    if isinstance(error, exceptions.ClientDecodeError) and isinstance(error.data, str):  # the page of a proxy, say
        return PerhapsSent(_first_line(error), has_failed=True)
    if isinstance(error, exceptions.TelegramNetworkError) and isinstance(error.__cause__, _NEVER_ON_ITS_WAY):
        return NotSent(str(error))
    if type(error) is exceptions.TelegramAPIError:  # refused with a code for which aiogram has no class
        is_too_many = "too many requests" in said.lower()  # without a time: that would be a TelegramRetryAfter
        return NotSent(said) if is_too_many else Unsendable(said)
    if isinstance(error, ValidationError):  # of a call that was never made: an answer's is a ClientDecodeError
        why = (f"{each['loc'][0]}: {each['msg']}" for each in error.errors(include_input=False))
        return Unsendable("; ".join(why))
    return PerhapsSent(_first_line(error))


def _first_line(error: Exception) -> str:
    """Its other lines may be the whole of what Telegram answered, and the user's words in it."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
