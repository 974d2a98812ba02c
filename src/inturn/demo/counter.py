"""One of the eight processes of the race: it increments the shared counter in a body that reads, waits and writes.

A line of JSON on stdin starts a run, each body writes a line to stdout, and the end of stdin ends the process. So
nothing is left behind, even if the demo is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import time
from typing import Any

from inturn.app import InTurn

BODY_S = 0.03
PAUSE_S = 0.06
"""Between two increments a process does something else, for this long at most."""


async def increment(counter: int) -> None:
    """The body. A process that reads while another waits overwrites what the other writes."""
    value = int(os.pread(counter, 16, 0))
    await asyncio.sleep(BODY_S)
    os.pwrite(counter, b"%016d" % (value + 1), 0)


async def run(app: InTurn, counter: int, *, guarded: bool, times: int, start_at: float) -> None:
    await asyncio.sleep(max(0.0, start_at - time.monotonic()))
    for _ in range(times):
        await asyncio.sleep(random.uniform(0, PAUSE_S))
        asked_at = time.monotonic()
        async with app.lock("counter") if guarded else contextlib.nullcontext():
            began_at = time.monotonic()
            await increment(counter)
            ended_at = time.monotonic()
        say(asked_at=asked_at, began_at=began_at, ended_at=ended_at)
    say(done=True)


def say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


async def main(url: str, path: str) -> None:
    counter = os.open(path, os.O_RDWR)
    async with InTurn(url) as app:
        say(ready=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await run(app, counter, **json.loads(line))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
