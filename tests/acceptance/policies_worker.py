"""A worker in a process of its own: `policies_worker.py URL NAMESPACE VERSION`. It says what its turns see.

What is told to it by name lets the turns of that name go on; `do: stream` makes the turn of that name stream first.
It ends when its standard input does, so that none is left behind when a test run is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections import defaultdict
from typing import Any

from inturn import InTurn, Turn
from inturn.settings import Settings
from tests.acceptance.actor import say, say_what_the_worker_does
from tests.acceptance.processes import Child, Processes, hears

TTL = 3.0
"""Seconds; what a crash costs at most, besides a beat. Who takes over has as much, and may get the processor late."""
LONG_TTL = 30.0
"""So long a paused worker would hold its lane, if nobody interrupted it."""
ATTEMPTS = 2
PLAIN = "lock:conv:{key}"


async def worker(processes: Processes, app: InTurn, namespace: str, version: int = 1) -> Child:
    child = processes.run("policies_worker", app.process.store.url, namespace, str(version))
    await hears(child, "ready")
    return child


def body(message_id: str, **more: Any) -> dict[str, Any]:
    return {"key": "k", "id": message_id, **more}


class Orders:
    """What the test has told this process."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.thread_gates: dict[str, threading.Event] = defaultdict(threading.Event)
        self.turns: dict[str, Turn[Any]] = {}

    def take(self, order: dict[str, Any]) -> None:
        name = order["name"]
        if order["do"] == "stream":
            self.turns[name].stream(order["chunk"])
            say("streamed", name)
        else:
            self.gates[name].set()
            self.thread_gates[name].set()


def ids(turn: Turn[Any]) -> str:
    return "+".join(message.id for message in turn.messages)


def register(app: InTurn, version: int = 1) -> Orders:
    """The handlers of these tests. Who only submits registers them too."""
    orders = Orders()
    lane: dict[str, Any] = {"key": "{key}", "message_id": "{id}", "state": list, "backoff": (0, 0)}

    @app.handler("talk", busy="interrupt", ttl=LONG_TTL, **lane)
    async def talk(turn: Turn[list[str]]) -> str:
        """Waits to be let go; a body that says so swallows its cancellation, and goes on."""
        name = ids(turn)
        orders.turns[name] = turn
        turn.state.append(name)
        turn.send("sink", name, key=f"sink:{turn.key}")
        turn.stream(f"{name} begins")
        say("begun", name, attempt=turn.attempt, fence=turn.fence)
        try:
            if turn.messages[-1].body.get("wait"):
                await orders.gates[name].wait()
        except asyncio.CancelledError:
            say("cancelled", name)
            if not turn.body.get("swallows"):
                raise
            if turn.body["swallows"] == "waits":
                await orders.gates[f"{name} ends"].wait()
        say("done", name)
        return name

    @app.handler("block", busy="interrupt", ttl=LONG_TTL, **lane)
    def block(turn: Turn[list[str]]) -> str:
        name = ids(turn)
        turn.state.append(name)
        turn.send("sink", name, key=f"sink:{turn.key}")
        say("begun", name, attempt=turn.attempt)
        if turn.messages[-1].body.get("wait"):
            orders.thread_gates[name].wait()
        say("done", name)
        return name

    @app.handler("burst", busy="merge", ttl=TTL, attempts=ATTEMPTS, **lane)
    async def burst(turn: Turn[list[str]]) -> str:
        name = ids(turn)
        turn.state.append(name)
        say("begun", name, attempt=turn.attempt)
        if any(message.body.get("kills") for message in turn.messages):
            os._exit(9)
        return name

    if app.process.store.url.startswith("redis"):

        @app.handler("shared", shares=PLAIN, ttl=TTL, **lane)
        async def shared(turn: Turn[list[str]]) -> int:
            say("begun", turn.id, attempt=turn.attempt)
            if turn.attempt == 1 and turn.body.get("wait"):
                await orders.gates[turn.id].wait()
            return turn.attempt

    @app.handler("later", busy="latest", ttl=TTL, **lane)
    async def later(turn: Turn[list[str]]) -> str:
        turn.state.append(turn.id)
        say("begun", turn.id)
        return turn.id

    shape: Any = list if version == 1 else dict

    @app.handler("versioned", key="{key}", message_id="{id}", state=shape, version=version, attempts=ATTEMPTS)
    async def versioned(turn: Turn[Any]) -> int:
        say("begun", turn.id, version=version, attempt=turn.attempt)
        if version == 1:
            turn.state.append(turn.body["text"])
        else:
            turn.state[turn.id] = turn.body["words"] if "words" in turn.body else [turn.body["text"]]
        return version

    @app.handler("sink", state=list, ttl=TTL)
    async def sink(turn: Turn[list[Any]]) -> None:
        turn.state.append(turn.body)

    return orders


async def listen(orders: Orders) -> None:
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        orders.take(json.loads(line))
    os._exit(1)


async def main() -> None:
    url, namespace, version = sys.argv[1:]
    async with InTurn(url, namespace=namespace, settings=Settings(store_timeout=10.0)) as app:
        listening = asyncio.create_task(listen(register(app, int(version))))
        say_what_the_worker_does()
        await app.run(concurrency=4, grace=0.1, signals=True)
        say("stopped")
        listening.cancel()


if __name__ == "__main__":
    asyncio.run(main())
