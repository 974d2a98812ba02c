"""Telegram's answers that come too late: not because a machine was slow, but because a test moves the clock."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tests.loop_time import skip
from tests.servers.telegram import Fault

PATIENT_S = 100.0
"""How long a call of Telegram may take where a test is not about that: a machine that stands still loses no answer."""


class LateAnswer(Fault):
    """The call was done, and then the time is over that the bot gives it. For a bot on the loop of this server."""

    async def after(self, response: web.Response) -> web.Response:
        skip(PATIENT_S)
        await asyncio.Event().wait()
        return response
