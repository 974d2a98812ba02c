"""Telegram's answers that come too late: not because a machine was slow, but because a test moves the clock."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tests.bot.patience import CALL_S
from tests.loop_time import skip
from tests.servers.telegram import Fault


class LateAnswer(Fault):
    """The call was done, and then the time is over that the bot gives it. For a bot on the loop of this server."""

    async def after(self, response: web.Response) -> web.Response:
        skip(CALL_S)
        await asyncio.Event().wait()
        return response
