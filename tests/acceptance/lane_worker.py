"""A worker in a process of its own: `lane_worker.py URL NAMESPACE GRACE SIGNALS(yes|no)`. It says what its turns see.

It ends when its standard input does, so that none is left behind when a test run is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from inturn import InTurn, Turn
from inturn.settings import Settings
from tests.acceptance.actor import say, say_what_the_worker_does
from tests.acceptance.processes import Child, Processes

TTL = 3.0
"""Seconds; what a crash costs at most, besides a beat. Who takes over has as much, and may get the processor late."""
LONG_TTL = 30.0
"""Where nobody is killed: a worker that gets the processor late must not lose its turn."""
ATTEMPTS = 2


def worker(processes: Processes, app: InTurn, namespace: str, grace: float = 5, *, signals: bool = True) -> Child:
    url = app.process.store.url
    return processes.run("lane_worker", url, namespace, str(grace), "yes" if signals else "no")


def register(app: InTurn, ttl: float = TTL) -> dict[str, asyncio.Event]:
    """The handlers of these tests. Who only submits registers them too, and says how long their leases live."""
    opened: dict[str, asyncio.Event] = {}

    @app.handler("note", key="{key}", message_id="{n}", state=list, ttl=ttl, attempts=ATTEMPTS, backoff=(0, 0))
    async def note(turn: Turn[list[Any]]) -> int:
        """Appends its number, once it is let go if it is asked to wait."""
        n, attempt = turn.body["n"], turn.attempt
        say("begun", str(n), attempt=attempt, fence=turn.fence)
        turn.state.append(n)
        try:
            if turn.body.get("wait"):
                await opened.setdefault(str(n), asyncio.Event()).wait()
        except asyncio.CancelledError:
            say("cancelled", str(n))
            raise
        turn.send("sink", n, key=f"sink:{turn.key}")
        say("done", str(n), attempt=attempt)
        return attempt

    def mourn(turn: Turn[list[Any]], error: Exception) -> None:
        turn.state.append(f"without {turn.body['n']}")
        turn.send("sink", f"{turn.body['n']} died", key=f"sink:{turn.key}")

    options: dict[str, Any] = {"state": list, "ttl": TTL, "attempts": ATTEMPTS, "backoff": (0, 0), "on_dead": mourn}

    @app.handler("kill", key="{key}", message_id="{n}", **options)
    async def kill(turn: Turn[list[Any]]) -> None:
        say("begun", str(turn.body["n"]), attempt=turn.attempt)
        os._exit(9)

    @app.handler("sink", state=list, ttl=TTL)
    async def sink(turn: Turn[list[Any]]) -> None:
        turn.state.append(turn.body)

    return opened


async def listen(opened: dict[str, asyncio.Event]) -> None:
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        opened.setdefault(json.loads(line)["name"], asyncio.Event()).set()
    os._exit(1)


async def main() -> None:
    url, namespace, grace, signals = sys.argv[1:]
    async with InTurn(url, namespace=namespace, settings=Settings(store_timeout=10.0)) as app:
        listening = asyncio.create_task(listen(register(app)))
        say_what_the_worker_does()
        await app.run(concurrency=4, grace=float(grace), signals=signals == "yes")
        say("stopped")
        listening.cancel()


if __name__ == "__main__":
    asyncio.run(main())
