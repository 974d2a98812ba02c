"""A process in the middle of an inline turn: `lane_caller.py URL NAMESPACE`. It stays there until its input ends."""

from __future__ import annotations

import asyncio
import sys

from inturn import InTurn
from tests.acceptance.actor import say
from tests.acceptance.lane_worker import TTL


async def main() -> None:
    async with InTurn(sys.argv[1], namespace=sys.argv[2]) as app, app.turn("k", state=list, ttl=TTL) as turn:
        turn.state.append("never")
        say("held", fence=turn.fence)
        await asyncio.to_thread(sys.stdin.buffer.read)
        raise SystemExit


if __name__ == "__main__":
    asyncio.run(main())
