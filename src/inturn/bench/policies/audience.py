"""Those who watch a lane, in another process, as a web server does for the browsers that it serves.

Orders come on stdin, and each is answered by a line. A number: when every watcher has heard so many chunks. `hold`: at
once, and then nobody hears anything before the next line. A watcher that has missed something ends the process, and so
does the end of stdin, or SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from inturn.app import InTurn
from inturn.bench.policies.cpus import move_to_second_half
from inturn.errors import InTurnError
from inturn.lanes.watch import Watch

WATCHERS = 100
LANE = "lane:watched"
HOLD = "hold"


def namespace(prefix: str) -> str:
    return f"{prefix}-watch"


class Audience:
    def __init__(self) -> None:
        self._heard = [0] * WATCHERS
        self._goal = 0
        self._behind = WATCHERS
        """How many have not reached the goal."""
        self._reached = asyncio.Event()

    async def watch(self, number: int, events: Watch) -> None:
        async for event in events:
            if event.what == "chunk":
                self._heard[number] += 1
                if self._heard[number] == self._goal:
                    self._behind -= 1
                    if not self._behind:
                        self._reached.set()
            elif event.what == "missed":
                raise InTurnError(f"watcher {number} missed something after {self._heard[number]} chunks")

    async def have_heard(self, goal: int) -> None:
        self._goal, self._behind = goal, sum(heard < goal for heard in self._heard)
        self._reached.clear()
        if self._behind:
            await self._reached.wait()


async def main(url: str, prefix: str) -> None:
    move_to_second_half()
    audience = Audience()
    async with InTurn(url, namespace=namespace(prefix)) as app:
        watches = [app.watch(LANE) for _ in range(WATCHERS)]
        for watch in watches:
            await watch.open()
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(audience.watch(*numbered)) for numbered in enumerate(watches)]
            print("ready", flush=True)
            while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
                if order != HOLD:
                    await audience.have_heard(int(order))
                print(order, flush=True)
                if order == HOLD:
                    sys.stdin.readline()  # the loop stands still until it is told to go on
            for task in watching:
                task.cancel()


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    asyncio.run(main(sys.argv[1], sys.argv[2]))
