"""A process that waits for a lock and is interrupted: `waiter.py sync|async URL NAMESPACE`.

The synchronous one lives on after Ctrl-C, until its input ends; the asynchronous one ends, as most do.
"""

from __future__ import annotations

import asyncio
import sys

from inturn import InTurn, sync
from tests.acceptance.actor import say


def wait_synchronously(url: str, namespace: str) -> None:
    app = sync.InTurn(url, namespace=namespace)
    try:
        say("waiting")
        with app.lock("x"):
            say("granted", "x")
    except KeyboardInterrupt:
        say("interrupted")
    sys.stdin.read()


async def wait(url: str, namespace: str) -> None:
    app = InTurn(url, namespace=namespace)
    say("waiting")
    async with app.lock("x"):
        say("granted", "x")


if __name__ == "__main__":
    if sys.argv[1] == "sync":
        wait_synchronously(*sys.argv[2:])
    else:
        try:
            asyncio.run(wait(*sys.argv[2:]))
        except KeyboardInterrupt:
            say("interrupted")
