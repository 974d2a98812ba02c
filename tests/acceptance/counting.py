"""A process that adds to a number in a file; two at once lose updates: `counting.py URL NAMESPACE FILE TIMES [meet]`.

With `meet` it says when it has read the number for the first time, and adds to it when it is told to.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from inturn import InTurn
from tests.acceptance.actor import say
from tests.acceptance.looks import PATIENT


class Counter:
    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def read(self) -> int:
        return int(self._file.read_text())

    def write(self, count: int) -> None:
        self._file.write_text(str(count))


async def main(url: str, namespace: str, counter: Counter, times: int, meets: bool) -> None:
    async with InTurn(url, namespace=namespace, settings=PATIENT) as app:
        say("ready")
        sys.stdin.readline()

        async def add() -> None:
            nonlocal meets
            async with app.lock("counter", ttl=30):
                count = counter.read()
                await asyncio.sleep(0)
                if meets:
                    meets = False
                    say("has read")
                    await asyncio.to_thread(sys.stdin.readline)
                counter.write(count + 1)

        for _ in range(times // 2):
            await asyncio.gather(add(), add())
    say("done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Counter(sys.argv[3]), int(sys.argv[4]), "meet" in sys.argv[5:]))
