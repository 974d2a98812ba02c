"""A companion whose chat and agent a test holds in its hands, on a store whose clock it moves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

from inturn import InTurn
from inturn.agents import Activity, Ask
from inturn.bot import BotOptions, CompanionBot
from inturn.bot.text import Part
from inturn.bot.updates import Heard
from inturn.bot.user import User
from inturn.testing import ManualClock, app_for_tests, drain
from tests.bot.patience import give_leases

USER = 42

Reply = str | Exception | asyncio.Event


class Chat:
    """Takes every part, or raises what it was told to raise, in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[int | str, str]] = []
        self.typed: list[int | str] = []
        self.errors: list[Exception | None] = []
        """For the next parts; `None`: it is taken."""
        self.ping_errors: list[Exception] = []
        self.on_send: Callable[[str], Any] | None = None

    async def send_part(self, chat_id: int | str, part: Part) -> int:
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.sent.append((chat_id, part.text))
        if self.on_send is not None:
            await self.on_send(part.text)
        return len(self.sent)

    async def show_typing(self, chat_id: int | str) -> None:
        self.typed.append(chat_id)

    async def ping(self) -> None:
        if self.ping_errors:
            raise self.ping_errors.pop(0)

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.sent]


class Echo:
    """Answers with what it was asked, or with what it was told to."""

    name = "echo"

    def __init__(self) -> None:
        self.asked: list[Ask] = []
        self.replies: list[Reply] = []

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        self.asked.append(ask)
        reply = self.replies.pop(0) if self.replies else f"re: {ask.text}"
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, asyncio.Event):
            await reply.wait()
            reply = f"re: {ask.text}"
        yield Activity.said(reply)

    async def aclose(self) -> None:
        """Has nothing to close."""


class World:
    def __init__(self, app: InTurn | None = None, options: BotOptions | None = None, **more: Any) -> None:
        self.clock = ManualClock()
        self.app = app or app_for_tests(self.clock)
        self.chat, self.agent = Chat(), Echo()
        self.companion = CompanionBot(self.app, self.agent, self.chat, options or BotOptions(pace=None), **more)
        give_leases(self.companion)
        self._numbers = itertools.count(1)

    async def hear(self, text: str, user_id: int = USER, **more: Any) -> int:
        """Returns the id of the message."""
        number = next(self._numbers)
        heard = Heard(update_id=number, user_id=user_id, chat_id=user_id, message_id=number, text=text)
        await self.companion.hear(heard.model_copy(update=more))
        return number

    async def user(self, user_id: int = USER) -> User:
        found = await self.app.lanes.state(f"user:{user_id}", User)
        assert found is not None
        return found

    async def due_in_s(self, user_id: int = USER) -> float | None:
        """When the bot will write first; `None`: not at all."""
        delayed = (await self.app.lanes.inspect(f"user:{user_id}")).delayed
        assert len(delayed) <= 1
        return delayed[0].due_in_s if delayed else None

    async def close(self) -> None:
        await self.companion.close()
        await self.app.close()


async def answered(world: World, *texts: str) -> None:
    """These are said at once, and answered."""
    for text in texts:
        await world.hear(text)
    world.clock.advance(4)
    await drain(world.app, raise_errors=True)


async def answered_at_last(world: World, text: str) -> None:
    """The same, if it takes several attempts."""
    await world.hear(text)
    for _ in range(5):
        world.clock.advance(5)
        await drain(world.app)
