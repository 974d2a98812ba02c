"""A process that does what it is told, one JSON line at a time, and says what it sees: `actor.py URL NAMESPACE`.

It ends when its standard input does, so that none is left behind when a test run is killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from typing import Any

from inturn import InTurn
from inturn.errors import InTurnError
from inturn.settings import Settings
from inturn.store import clock


def say(event: str, name: str = "", **facts: Any) -> None:
    print(json.dumps({"event": event, "name": name, "at": clock.now(), **facts}), flush=True)


class _WorkerSays(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        for begins_with, event in (("worker begins", "ready"), ("worker stops", "stopping")):
            if record.getMessage().startswith(begins_with):
                say(event)


def say_what_the_worker_does() -> None:
    """`ready` is said by the worker itself: before it has begun, a signal would simply end the process."""
    log = logging.getLogger("inturn.worker")
    log.addHandler(_WorkerSays())
    log.setLevel(logging.INFO)


class Actor:
    def __init__(self, app: InTurn) -> None:
        self._app = app
        self._let_go: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def do_hold(self, name: str, **options: Any) -> None:
        """Says `granted`, then `over` when the body ends for whatever reason, then how the release went."""
        self._let_go[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, options))

    async def _hold(self, name: str, options: dict[str, Any]) -> None:
        say("asked", name)
        try:
            async with self._app.lock(name, **options) as lease:
                say("granted", name, fence=lease.fence, arrival=lease.arrival)
                try:
                    await self._let_go[name].wait()
                finally:
                    say("over", name)
            say("released", name)
        except (InTurnError, asyncio.CancelledError) as error:
            say(type(error).__name__, name, text=str(error))

    def do_release(self, name: str) -> None:
        self._let_go[name].set()

    def do_cancel(self, name: str) -> None:
        self._tasks[name].cancel()

    def do_block(self, seconds: float) -> None:
        time.sleep(seconds)
        say("unblocked")

    def do_busy(self, name: str) -> None:
        """Take and release a lock, again and again."""

        async def again() -> None:
            while True:
                try:
                    async with self._app.lock(name, ttl=2):
                        await asyncio.sleep(0.001)
                except InTurnError as error:
                    say(type(error).__name__, name)

        self._tasks[name] = asyncio.create_task(again())


async def main() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with InTurn(sys.argv[1], namespace=sys.argv[2], settings=Settings(store_timeout=10.0)) as app:
        actor = Actor(app)
        say("ready")
        while line := await commands.readline():
            command = json.loads(line)
            getattr(actor, f"do_{command.pop('do')}")(**command)


if __name__ == "__main__":
    asyncio.run(main())
