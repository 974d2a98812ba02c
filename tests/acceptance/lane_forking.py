"""A process that is in a turn, forks, and lets the child work: `lane_forking.py URL NAMESPACE`."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from inturn import InTurn, LaneBusy
from tests.acceptance.actor import say


async def main() -> None:
    async with InTurn(sys.argv[1], namespace=sys.argv[2]) as app:
        async with app.turn("mine", state=list, ttl=30) as turn:
            turn.state.append("parent")
            say("held", fence=turn.fence, process=app.process.store.process)
            pid = os.fork()
            if pid == 0:
                # the loop of this thread is the parent's; the child needs one of its own
                thread = threading.Thread(target=lambda: asyncio.run(child(app)))
                thread.start()
                thread.join()
                os._exit(0)
            _, status = await asyncio.to_thread(os.waitpid, pid, 0)
            say("parent", is_lost=turn.lost, status=status)
        say("committed")


async def child(app: InTurn) -> None:
    say("child", process=app.process.store.process, holds=len(app.process.registry.holding))
    try:
        async with app.turn("mine", busy="reject"):
            say("took the parents")
    except LaneBusy as busy:
        say("busy", holder=busy.holder)
    async with app.turn("other", state=list) as turn:
        turn.state.append("child")
    await app.close()
    say("done")


if __name__ == "__main__":
    asyncio.run(main())
