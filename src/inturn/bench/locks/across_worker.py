"""One process of the hand-over across processes. A line on stdin starts a round; the end of stdin ends the process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time

from benchmarks.locks import sides
from benchmarks.locks.sides import MakeLock
from inturn.bench.place import Place
from benchmarks.plan import BODY_S


async def one_round(make: MakeLock, arrivals: list[float], turns: int) -> list[tuple[float, float]]:
    ran = []

    async def wait_turns(arrive_at: float) -> None:
        lock = make("across")
        await asyncio.sleep(arrive_at - time.monotonic())
        for _ in range(turns):
            await lock.acquire()
            began_at = time.monotonic()
            await asyncio.sleep(BODY_S)
            ran.append((began_at, time.monotonic()))
            await lock.release()

    await asyncio.gather(*(wait_turns(arrive_at) for arrive_at in arrivals))
    return ran


async def main(url: str, prefix: str) -> None:
    async with sides.inturn(Place(url, prefix)) as make:
        warm = make(f"warm-{os.getpid()}")  # the first use starts the heartbeat's thread
        await warm.acquire()
        await warm.release()
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            print(json.dumps(await one_round(make, order["arrivals"], order["turns"])), flush=True)


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())  # five times the same warning would tell no more
    asyncio.run(main(sys.argv[1], sys.argv[2]))
