"""A worker for the races, in a process of its own: `policy_racer.py URL NAMESPACE SEED`. It may be killed at any time.

It ends when its standard input does, so that none is left behind when a test run is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys

from inturn import InTurn
from tests.acceptance.actor import say_what_the_worker_does
from tests.acceptance.looks import PATIENT
from tests.acceptance.policy_races import register, shake


async def end_with_parent() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    os._exit(1)


async def main() -> None:
    url, namespace, seed = sys.argv[1:]
    async with InTurn(url, namespace=namespace, settings=PATIENT) as app:
        ending = asyncio.create_task(end_with_parent())
        register(app, int(seed))
        shake(app, f"{seed}/{os.getpid()}")
        say_what_the_worker_does()
        await app.run(concurrency=20, grace=1, signals=True)
        ending.cancel()


if __name__ == "__main__":
    asyncio.run(main())
