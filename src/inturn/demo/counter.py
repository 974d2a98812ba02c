"""One of the eight processes: it increments the shared counter through a read-wait-write body.

A line of JSON on stdin starts a run, each body answers with a line on stdout, and the end of stdin ends the process:
so nothing is left behind, even if the demo is killed.
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
"""What a process does elsewhere between two increments: at most this long."""


async def increment(counter: int) -> None:
    """The body. Whoever reads while another one waits will overwrite what that one writes."""
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
