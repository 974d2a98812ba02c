"""The worker in another process: its handler says when it began, and when it was cancelled. SIGTERM ends it."""

from __future__ import annotations

import asyncio
import logging
import sys
import time

from inturn.app import InTurn
from inturn.lanes.turn import Turn

LONG_S = 60.0


def register(app: InTurn) -> None:
    @app.handler("answer", busy="interrupt")
    async def answer(turn: Turn[None]) -> int:
        if len(turn.messages) == 1:
            print("begun", flush=True)
            try:
                await asyncio.sleep(LONG_S)  # a model answers slowly
            except asyncio.CancelledError:
                print(time.monotonic(), flush=True)
                raise
        return len(turn.messages)


async def main(url: str, prefix: str) -> None:
    async with InTurn(url, namespace=f"{prefix}-interrupt") as app:
        register(app)
        print("ready", flush=True)
        await app.run()


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    asyncio.run(main(sys.argv[1], sys.argv[2]))
