"""Eight worker processes: started together, told to run, listened to, and ended by their ids whatever happens."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from inturn.demo.history import Body, History
from inturn.errors import InTurnError

MODULE = "inturn.demo.counter"
WORKERS = 8
TIMES = 5
ZERO = b"%016d" % 0
HEAD_START_S = 0.1
"""All workers begin at one moment, so far from now that the word has reached each of them."""


class WorkerFailed(InTurnError):
    """A process of the demo ended too early."""


class Crew:
    def __init__(self, folder: Path) -> None:
        self._url = f"sqlite:///{folder / 'demo.db'}"
        self._counter = folder / "counter"
        self._errors = folder / "errors.log"
        self._workers: list[Process] = []

    async def __aenter__(self) -> Crew:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def start(self) -> None:
        """All workers are there, and have opened the store."""
        self._counter.write_bytes(ZERO)
        for _ in range(WORKERS):
            self._workers.append(await self._start())
        for worker in self._workers:
            await self._hear(worker)

    async def run(self, *, guarded: bool, on_body: Callable[[History], None]) -> History:
        self._counter.write_bytes(ZERO)
        history = History(time.monotonic() + HEAD_START_S, WORKERS * TIMES)
        order = {"guarded": guarded, "times": TIMES, "start_at": history.start_at}
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(order).encode() + b"\n")
        following = (self._follow(number, worker, history, on_body) for number, worker in enumerate(self._workers))
        await asyncio.gather(*following)
        history.counter = int(self._counter.read_bytes())
        return history

    async def _start(self) -> Process:
        with self._errors.open("ab") as errors:
            # a session of its own: Ctrl-C reaches the demo alone, which then ends its workers
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", MODULE, self._url, str(self._counter),
                stdin=PIPE, stdout=PIPE, stderr=errors, start_new_session=True,
            )  # fmt: skip

    async def _follow(self, number: int, worker: Process, history: History, on_body: Callable[[History], None]) -> None:
        while not (said := await self._hear(worker)).get("done"):
            history.bodies.append(Body(number, **said))
            on_body(history)

    async def _hear(self, worker: Process) -> dict[str, Any]:
        assert worker.stdout is not None
        line = await worker.stdout.readline()
        if not line:
            told = self._errors.read_text().strip().splitlines()
            raise WorkerFailed(f"a process of the demo ended too early: {told[-1] if told else 'it did not say why'}")
        words: dict[str, Any] = json.loads(line)
        return words

    async def _end(self) -> None:
        for worker in self._workers:
            if worker.returncode is None:
                worker.terminate()
        await asyncio.gather(*(worker.wait() for worker in self._workers))
