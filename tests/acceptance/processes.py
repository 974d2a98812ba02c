"""Real processes for a test: started, told what to do, listened to, and all of them ended by their ids."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import threading
import time
from typing import Any

from tests.module_process import ModuleProcess

Event = dict[str, Any]
SLACK = 10.0
"""What a busy machine may add. It is a third of the long leases: whoever had to wait for one of them would be later."""


class Child:
    """A process that says JSON lines. What it said and nobody has asked for yet is kept."""

    def __init__(self, module: str, *arguments: str) -> None:
        reads, tells = os.pipe()
        hears, says = os.pipe()
        self._stdin, self._stdout = open(tells, "wb"), open(hears, "rb")  # noqa: SIM115, PTH123 - `end` closes them
        try:
            self.process = ModuleProcess(module, arguments, files={0: reads, 1: says})
        finally:
            os.close(reads)
            os.close(says)
        self._said: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._kept: list[Event] = []
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        for line in self._stdout:
            self._said.put(json.loads(line))
        self._said.put(None)

    @property
    def pid(self) -> int:
        return self.process.pid

    def hears(self, event: str, name: str = "", within: float = 60.0) -> Event:
        """The next event of that kind; anything else that comes first is kept. It fails if none comes in time."""
        deadline = time.monotonic() + within
        for said in self._kept:
            if (said["event"], said["name"]) == (event, name):
                self._kept.remove(said)
                return said
        while True:
            try:
                said_now = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {event!r} {name!r} within {within} s; it said {self._kept}") from None
            if said_now is None:
                raise AssertionError(f"it ended without {event!r} {name!r}; it said {self._kept}")
            if (said_now["event"], said_now["name"]) == (event, name):
                return said_now
            self._kept.append(said_now)

    def tell(self, do: str, **arguments: Any) -> None:
        self._stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._stdin.flush()

    def close_stdin(self) -> None:
        self._stdin.close()

    def signal(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill()
        self._listening.join()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Processes:
    """Makes processes, and ends them."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def run(self, module: str, *arguments: str) -> Child:
        child = Child(f"tests.acceptance.{module}", *arguments)
        self._children.append(child)
        return child

    def actors(self, number: int, url: str, namespace: str) -> list[Child]:
        """They start side by side, and are ready when this returns."""
        actors = [self.run("actor", url, namespace) for _ in range(number)]
        for actor in actors:
            actor.hears("ready")
        return actors

    def end(self) -> None:
        while self._children:
            self._children.pop().end()


async def hears(child: Child, event: str, name: str = "", within: float = 60.0) -> Event:
    return await asyncio.to_thread(child.hears, event, name, within)


async def until_ended(child: Child, name: str) -> None:
    """It either saw its cancellation or finished its body; both end in a refused commit."""

    def either() -> None:
        gives_up_at = time.monotonic() + 30
        while time.monotonic() < gives_up_at:
            for event in ("cancelled", "done"):
                with contextlib.suppress(AssertionError):
                    child.hears(event, name, within=0.02)
                    return
        raise AssertionError("it is still in its body")

    await asyncio.to_thread(either)
