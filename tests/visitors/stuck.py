"""A worker that never comes to an end with an answer: `stuck.py URL NAMESPACE`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from inturn import InTurn
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.settings import Settings
from inturn.visitors.responder import VisitorResponder


class Stuck:
    name = "stuck"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        await asyncio.Event().wait()
        yield Activity.said("never")

    async def aclose(self) -> None:
        """It holds nothing."""


async def work(url: str, namespace: str) -> None:
    async with InTurn(url, namespace=namespace, settings=Settings()) as app:
        VisitorResponder(app, Stuck())
        await app.run(signals=True)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
