"""`inturn demo`: eight processes race for one counter, first unguarded, then under a lock; both runs as timelines.

The processes are ended by their ids, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from inturn.cli.terminal import Screen, Table
from inturn.demo.counter import BODY_S, PAUSE_S
from inturn.demo.timeline import PROCESSES, Body, History, indented, timeline
from inturn.errors import InTurnError

MODULE = "inturn.demo.counter"
TIMES = 5
ZERO = b"%016d" % 0
HEAD_START_S = 0.1
"""All processes begin at one moment, which is so far from now that the order has reached each of them."""
FRAMES_PER_S = 15
LIMIT_S = 60.0

BODY = f"""\
    value = read(counter)
    await sleep({BODY_S:g})             # a model call, a database, a slow colleague
    write(counter, value + 1)"""

GUARD = """\
    async with app.lock("counter"):
        value = read(counter) ...   # the same three lines"""


def show_race(screen: Screen | None = None) -> int:
    """Returns 0, unless updates were lost under the lock."""
    try:
        return asyncio.run(_tell(screen or Screen()))
    except TimeoutError as error:
        raise InTurnError(f"the demo was not done after {LIMIT_S:g} s; is this machine very busy?") from error


async def _tell(screen: Screen) -> int:
    paint = screen.paint
    told = f"{PROCESSES} processes increment one counter, {TIMES} times each. No server; one SQLite file."
    screen.print()
    screen.print_wrapped(f"{paint('inturn demo:', 'bold')} {told}")
    screen.print()
    with tempfile.TemporaryDirectory(prefix="inturn-demo-") as folder:
        async with Workers(Path(folder)) as workers, asyncio.timeout(LIMIT_S):
            with screen.live(keep=False) as live:
                live.draw([f"Starting {PROCESSES} processes ..."])
                await workers.start()
            screen.print(paint("1  Unguarded", "bold red"), *_painted(BODY, screen), "")
            race = await _run(screen, workers, guarded=False)
            screen.print(paint("2  Under app.lock", "bold green"), *_painted(GUARD, screen), "")
            cure = await _run(screen, workers, guarded=True)
    screen.print(*_numbers(race, cure, screen).lines(screen), "")
    screen.print_wrapped(_verdict(race, cure, screen))
    screen.print(
        "",
        f"{paint('Read next', 'bold')}  the docs on lanes, which keep order and state too, and on locks",
        f"{paint('Run next', 'bold')}   inturn demo policies; and inturn lanes ls while your own program runs",
        "",
    )
    return 1 if cure.lost else 0


def _painted(code: str, screen: Screen) -> list[str]:
    return [screen.paint(line, "cyan") for line in code.splitlines()]


async def _run(screen: Screen, workers: Workers, *, guarded: bool) -> History:
    """The timeline grows while the run goes on; at its end all of it stays."""
    expected_s = PROCESSES * TIMES * (BODY_S + 0.005) if guarded else TIMES * (BODY_S + PAUSE_S * 0.75)
    with screen.live(keep=False) as live:
        drawn_at = 0.0

        def draw(history: History) -> None:
            nonlocal drawn_at
            if time.monotonic() - drawn_at > 1 / FRAMES_PER_S:
                drawn_at = time.monotonic()
                live.draw(timeline(history, screen, expected_s))

        history = await workers.run(guarded=guarded, on_body=draw)
    screen.print(*timeline(history, screen))
    screen.print(*_outcome(history, screen), "")
    return history


def _outcome(history: History, screen: Screen) -> list[str]:
    pairs, most = history.overlaps()
    if history.lost:
        told = f"{history.lost} of {history.asked} updates lost: up to {most} bodies at once, {pairs} pairs overlapped"
        return indented(screen.paint(told, "bold red"), screen)
    return indented(
        screen.paint(f"no update lost: {most} body at a time, {pairs} pairs overlapped", "bold green"), screen
    )


def _numbers(race: History, cure: History, screen: Screen) -> Table:
    def judged(count: int) -> str:
        return screen.paint(str(count), "bold red" if count else "bold green")

    sides = (race, cure)
    table = Table("", ">unguarded", ">under app.lock", gap=3)
    table.add("increments asked", *(str(side.asked) for side in sides))
    table.add("the counter says", *(str(side.counter) for side in sides))
    table.add("lost updates", *(judged(side.lost) for side in sides))
    table.add("bodies that overlapped (pairs)", *(judged(side.overlaps()[0]) for side in sides))
    table.add("bodies at once, at most", *(str(side.overlaps()[1]) for side in sides))
    table.add("hand-overs between processes", "-", f"{len(cure.hand_overs())}")
    table.add("from one body to the next (median)", "-", f"{cure.hand_over_ms():.1f} ms")
    table.add("time", *(f"{side.seconds:.2f} s" for side in sides))
    return table


def _verdict(race: History, cure: History, screen: Screen) -> str:
    if cure.lost:
        told = f"Under the lock {cure.lost} updates were lost. That must not happen: please report it."
        return screen.paint(told, "bold red")
    if not race.lost:
        return "The unguarded run was lucky and lost nothing this time; run it again to see the race."
    told = screen.paint(f"{race.lost} of {race.asked} updates were lost without the lock, none with it.", "bold")
    return f"{told} The lock costs time because the bodies wait for each other: that is the point of it."


class ProcessFailed(InTurnError):
    """A process of the demo ended too early."""


class Workers:
    """The processes of the demo: started together, told to run, followed, and ended."""

    def __init__(self, folder: Path) -> None:
        self._url = f"sqlite:///{folder / 'demo.db'}"
        self._counter = folder / "counter"
        self._errors = folder / "errors.log"
        self._workers: list[Process] = []

    async def __aenter__(self) -> Workers:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def start(self) -> None:
        """All workers are there, and have opened the store."""
        self._counter.write_bytes(ZERO)
        for _ in range(PROCESSES):
            self._workers.append(await self._start())
        for worker in self._workers:
            await self._hear(worker)

    async def run(self, *, guarded: bool, on_body: Callable[[History], None]) -> History:
        self._counter.write_bytes(ZERO)
        history = History(time.monotonic() + HEAD_START_S, PROCESSES * TIMES)
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
            raise ProcessFailed(f"a process of the demo ended too early: {told[-1] if told else 'it did not say why'}")
        words: dict[str, Any] = json.loads(line)
        return words

    async def _end(self) -> None:
        for worker in self._workers:
            if worker.returncode is None:
                # its own `terminate` would reap a process that ends just now, and asyncio complain that it cannot
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGTERM)
        await asyncio.gather(*(worker.wait() for worker in self._workers))
