"""A companion for tests; and the Telegram of the tests, with a bot of aiogram's that talks to it."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from functools import cache
from typing import Any

import pytest
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer

from tests.bot.companion import World
from tests.bot.patience import give_calls_time
from tests.servers.telegram import TOKEN, TelegramServer


@cache
def first_session() -> AiohttpSession:
    """Each of its kind reads all certificates of the world, which takes longer than most tests."""
    return AiohttpSession()


@asynccontextmanager
async def bot_of(url: str, **options: Any) -> AsyncIterator[Bot]:
    own = copy(first_session())
    own.api = TelegramAPIServer.from_base(url)
    bot = Bot(TOKEN, session=own, **options)
    session = await own.create_session()
    try:
        yield bot
    finally:
        await session.close()  # the bot's own way waits a quarter of a second


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    give_calls_time(monkeypatch.setattr)


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def bot(telegram: TelegramServer) -> AsyncIterator[Bot]:
    async with bot_of(telegram.url) as bot:
        yield bot


@pytest.fixture
def chat_id() -> int:
    """A user whom no other test has: plain keys know no namespace."""
    return random.SystemRandom().randrange(10**9, 10**12)


@pytest.fixture
async def nothing_unheard() -> AsyncIterator[None]:
    """No task ended with an error that nobody retrieved."""
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
    yield
    await asyncio.sleep(0)
    gc.collect()
    assert unheard == []


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.close()
