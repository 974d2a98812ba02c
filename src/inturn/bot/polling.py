"""Long polling: updates are confirmed to Telegram only when the lanes have them.

An offset confirms every update below it, so it is sent after the whole batch was taken. If the process dies between,
the same updates come again, and the lanes know their ids. Two pollers may get the same batch for the same reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from inturn.bot.bot import CompanionBot
from inturn.bot.telegram import ALLOWED_UPDATES, RawUpdates
from inturn.errors import MissingExtra, SettingsError, StoreUnavailable
from inturn.store import clock

try:
    import aiohttp
    from aiogram import Bot, exceptions
except ModuleNotFoundError as error:
    raise MissingExtra("inturn.bot.polling", "bot") from error

log = logging.getLogger("inturn.bot")

LONG_S = 30
FIRST_PAUSE_S, LAST_PAUSE_S = 0.5, 30.0
ARRIVED_S = 1.0
"""After this, a poll that waits has reached Telegram, and its offset with it. If not, the updates come again."""


class Polling:
    """`deletes_webhook`: takes the bot's webhook away first."""

    def __init__(
        self, companion: CompanionBot, bot: Bot, *, long_s: int = LONG_S, deletes_webhook: bool = False
    ) -> None:
        self._companion = companion
        self._bot = bot
        self._long_s = long_s
        self._deletes_webhook = deletes_webhook
        self._offset: int | None = None
        """Confirms all below it. `None`: everything that was taken is confirmed. Ids may begin anew at a lower number
        after a quiet week, so an old offset is not sent for longer than it is needed.
        """
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop`. Raises `SettingsError` if Telegram does not know the token, or a webhook is set."""
        pause_s = 0.0
        while not self._stopping.is_set():
            try:
                if pause_s:
                    await self._sleep(pause_s)
                    if self._stopping.is_set():
                        break
                await self._round()
                pause_s = 0.0
            except Exception as error:  # noqa: BLE001 - whatever it is, the updates wait at Telegram
                pause_s = self._pause_after(error, pause_s)
        await self._confirm_at_last()

    async def _round(self) -> None:
        began_at = clock.now()
        polling = asyncio.ensure_future(self._poll(self._long_s))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({polling, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not polling.done():  # what it may still bring is not confirmed, and comes again
                if clock.now() > began_at + ARRIVED_S:
                    self._offset = None
                return
            updates = polling.result()
        finally:
            polling.cancel()
            stopping.cancel()
            await asyncio.gather(polling, stopping, return_exceptions=True)
        self._offset = None  # this call has confirmed what it named
        if updates:
            await self._take_all(updates)
            ids = [update["update_id"] for update in updates if isinstance(update.get("update_id"), int)]
            if not ids:
                raise ValueError("updates without an id cannot be confirmed, and come again")
            self._offset = ids[-1] + 1

    async def _poll(self, long_s: int) -> list[dict[str, Any]]:
        if self._deletes_webhook:
            await self._bot.delete_webhook()
            self._deletes_webhook = False
            log.info("the webhook is deleted")
        method = RawUpdates(offset=self._offset, timeout=long_s, allowed_updates=ALLOWED_UPDATES)
        timeout = aiohttp.ClientTimeout(total=long_s + 15, sock_connect=5)
        return await self._bot(method, request_timeout=timeout)  # type: ignore[arg-type]

    async def _take_all(self, updates: Sequence[Mapping[str, Any]]) -> None:
        """Those of a user in their order, and users side by side."""
        by_user: dict[int | None, list[Mapping[str, Any]]] = {}
        for update in updates:
            by_user.setdefault(_sender_of(update), []).append(update)

        async def take(of_user: list[Mapping[str, Any]]) -> None:
            for update in of_user:
                await self._companion.take(update)

        results = await asyncio.gather(*map(take, by_user.values()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _pause_after(self, error: Exception, pause_s: float) -> float:
        pause_s = min(LAST_PAUSE_S, 2 * pause_s or FIRST_PAUSE_S)
        if isinstance(error, exceptions.TelegramUnauthorizedError | exceptions.TelegramNotFound):
            raise SettingsError(
                "INTURN_BOT_TOKEN: Telegram does not know this token; BotFather shows the right one: /mybots, API Token"
            ) from error
        if isinstance(error, exceptions.TelegramConflictError) and "webhook" in error.message.lower():
            raise SettingsError(
                "Telegram sends the updates of this bot to a webhook: serve that (inturn serve), or take it away with "
                "inturn bot --delete-webhook"
            ) from error
        if isinstance(error, exceptions.TelegramRetryAfter):
            pause_s = float(error.retry_after)
        if isinstance(error, exceptions.TelegramConflictError):
            log.warning("another process polls the updates of this bot too; trying again in %g s", pause_s)
        else:
            is_known = isinstance(error, StoreUnavailable | exceptions.AiogramError)
            log.warning("no updates were taken, trying again in %g s: %s", pause_s, error, exc_info=not is_known)
        return pause_s

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _confirm_at_last(self) -> None:
        """Else the last batch would come again at the next start. Telegram has a poll with the offset of the one before
        wait, for up to three seconds.
        """
        if self._offset is None:
            return
        try:
            method = RawUpdates(offset=self._offset, timeout=0, limit=1, allowed_updates=ALLOWED_UPDATES)
            await self._bot(method, request_timeout=5)
        except Exception as error:  # noqa: BLE001 - whatever it is, the lanes know these updates
            log.warning("the last updates are not confirmed, and will come again: %s", error)


def _sender_of(update: Mapping[str, Any]) -> int | None:
    """Enough to keep the updates of a user in order; whoever cannot be named is one of them."""
    for value in update.values():
        if isinstance(value, Mapping) and isinstance(value.get("from"), Mapping):
            found = value["from"].get("id")
            return found if isinstance(found, int) else None
    return None
