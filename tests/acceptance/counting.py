"""A process that adds to a number in a file, so that two at once lose updates: `counting.py URL NAMESPACE FILE TIMES`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from inturn import InTurn
from tests.acceptance.actor import say


async def main(url: str, namespace: str, file: Path, times: int) -> None:
    async with InTurn(url, namespace=namespace) as app:
        say("ready")
        sys.stdin.readline()

        async def add() -> None:
            async with app.lock("counter", ttl=5):
                count = int(file.read_text())
                await asyncio.sleep(0)
                file.write_text(str(count + 1))

        for _ in range(times // 2):
            await asyncio.gather(add(), add())
    say("done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
