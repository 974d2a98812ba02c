"""The Telegram server of the tests in a process of its own, and what the benchmark asks it: who got what, and when."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from benchmarks.processes import line_of, running

LATENCY_S = 0.02
"""Of every call, half of it before the call is done."""


class Arrived(NamedTuple):
    """`at` is of the monotonic clock, which the processes of a machine share."""

    text: str
    at: float


class Telegram:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def say(self, said: Sequence[tuple[int, str]]) -> None:
        """Users write, all at once."""
        async with self._session.post("/say", json=said) as response:
            response.raise_for_status()

    async def pending(self) -> int:
        """Updates that no bot has confirmed."""
        return int((await self._get("/stats"))["pending"])

    async def arrived(self) -> dict[int, list[Arrived]]:
        """By chat, in order."""
        chats = await self._get("/sent")
        return {int(chat): [Arrived(text, at) for _, text, at in messages] for chat, messages in chats.items()}

    async def _get(self, path: str) -> Any:
        async with self._session.get(path) as response:
            response.raise_for_status()
            return await response.json()


@asynccontextmanager
async def telegram() -> AsyncIterator[Telegram]:
    async with running("tests.servers.telegram", "--latency", str(LATENCY_S), "--quiet") as server:
        url = (await line_of(server)).decode().strip()
        async with aiohttp.ClientSession(url) as session:
            yield Telegram(url, session)
