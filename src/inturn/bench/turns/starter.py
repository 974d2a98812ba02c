"""The worker in another process: its handler answers when it was started. SIGTERM ends it."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any

from inturn.app import InTurn
from inturn.bench.turns.state import some_state
from inturn.lanes.turn import Turn


def register(app: InTurn) -> None:
    @app.handler("start", state=dict, initial=some_state)
    async def start(turn: Turn[dict[str, Any]]) -> float:
        started_at = time.monotonic()
        turn.state["n"] += 1
        return started_at


async def main(url: str, prefix: str) -> None:
    async with InTurn(url, namespace=f"{prefix}-start") as app:
        register(app)
        print("ready", flush=True)
        await app.run()


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    asyncio.run(main(sys.argv[1], sys.argv[2]))
