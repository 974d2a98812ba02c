"""A companion for tests; and the Telegram of the tests, with a bot of aiogram's that talks to it."""

from __future__ import annotations

import asyncio
import gc
import logging
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

from inturn.bot import courier
from tests.bot.companion import World
from tests.bot.patience import give_calls_time
from tests.bot.sender import KINDS, Counts, Pair, made
from tests.servers import PrivateRedis
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


@pytest.fixture(params=KINDS)
async def pair(request: pytest.FixtureRequest, redis_url: str, sqlite_url: str) -> AsyncIterator[Pair]:
    async with made(request.param, redis_url, sqlite_url) as pair:
        yield pair


@pytest.fixture
async def on_redis(redis_url: str) -> AsyncIterator[Pair]:
    async with made("redis.asyncio", redis_url) as pair:
        yield pair


@pytest.fixture(params=["redis.Redis", "InTurn on Redis"])
async def fresh(request: pytest.FixtureRequest, fresh_redis: PrivateRedis) -> AsyncIterator[Pair]:
    """On a server that the test may kill."""
    async with made(request.param, fresh_redis.url) as pair:
        assert await pair.is_reachable()
        yield pair


@pytest.fixture
async def unheard(nothing_unheard: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(courier, "DOUBT_PAUSE_S", 0.01)
    caplog.set_level(logging.INFO, "inturn.bot")


@pytest.fixture
def counts(unheard: None) -> Counts:
    return Counts()
