"""An agent that a test holds back, lets fail, or gives the words: nothing depends on how fast a machine is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import date

from inturn.agents.activity import Activity
from inturn.agents.offline.agent import OfflineAgent
from inturn.agents.protocol import Ask
from inturn.errors import AgentUnavailable


class GatedAgent:
    """The offline agent, behind a gate that is open until `hold` is called."""

    name = "offline"

    def __init__(self) -> None:
        self._inner = OfflineAgent(today=lambda: date(2026, 11, 16))
        self._open = threading.Event()
        self._open.set()
        self._after = 0
        self.asked: list[str] = []
        self.fails = False
        self.says: list[Activity] = []
        """Answered once, instead of what the offline agent would say."""

    def hold(self, after: int = 0) -> None:
        """Answers stop after so many pieces, until `open`."""
        self._after = after
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        # before it is noted: a test, in another thread, says what the next answer is as soon as this one was asked for
        fails, said = self.fails, [] if self.fails else self.says
        if said:
            self.says = []
        self.asked.append(ask.text)
        if fails:
            raise AgentUnavailable(self.name, "cannot be reached")
        if said:
            for activity in said:
                yield activity
            return
        pieces = 0
        async for activity in self._inner.ask(ask):
            if pieces >= self._after:
                await self._passed()
            pieces += 1
            yield activity
        await self._passed()

    async def _passed(self) -> None:
        while not self._open.is_set():  # noqa: ASYNC110 - the test that opens it is in another thread
            await asyncio.sleep(0.005)

    async def aclose(self) -> None:
        self.open()
