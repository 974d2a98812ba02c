"""Tables played in real time, side by side, by a real worker: each has a lane of its own on one app."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TypeVar

from inturn.app import InTurn
from inturn.demo.play import Play
from inturn.demo.tables import Table
from inturn.errors import InTurnError
from inturn.store import clock

HEAD_START_S = 0.05
"""The tables begin together, so far from now that the worker is there."""


PAUSE = 1 / 20
"""Units between two looks at how slow the machine is."""
T = TypeVar("T")


class TooSlow(InTurnError):
    """The machine was so busy that a play in real time says nothing."""


class Stopped(InTurnError):
    """The worker was told to stop (Ctrl-C) in the middle of a play."""


class RealTime:
    def __init__(self, unit_s: float) -> None:
        self.unit_s = unit_s
        self.starts_at = clock.now() + HEAD_START_S

    def now(self) -> float:
        return (clock.now() - self.starts_at) / self.unit_s

    async def work(self, units: float) -> None:
        await asyncio.sleep(units * self.unit_s)

    async def reach(self, at: float) -> None:
        await asyncio.sleep(max(0.0, (at - self.now()) * self.unit_s))


async def play_live(
    app: InTurn,
    tables: Sequence[Table],
    unit_s: float,
    *,
    run: str = "",
    most_late: float | None = None,
    on_start: Callable[[list[Play]], None] = lambda plays: None,
) -> list[Play]:
    """`most_late`: in units; a play in which the machine stalled for longer is void, and raises `TooSlow`."""
    time = RealTime(unit_s)
    async with contextlib.AsyncExitStack() as stack:
        plays = [await stack.enter_async_context(Play(app, table, time, run)) for table in tables]
        worker = await stack.enter_async_context(_task(app.run(len(tables), grace=0)))
        time.starts_at = clock.now() + HEAD_START_S
        on_start(plays)
        pulse = Pulse(app, time)
        await stack.enter_async_context(_task(pulse.beat()))
        playing = await stack.enter_async_context(_task(_play_all(plays, time)))
        await asyncio.wait({worker, playing}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            await worker  # if it failed, it says why
            raise Stopped("stopped")
        await playing
        if most_late is not None and pulse.slowest() > most_late:
            raise TooSlow(f"something took {pulse.slowest():.2f} units that takes next to nothing")
        return plays


async def _play_all(plays: Sequence[Play], time: RealTime) -> None:
    await asyncio.gather(*(_play(play, time) for play in plays))


async def _play(play: Play, time: RealTime) -> None:
    for arrival in play.table.arrivals:
        await time.reach(arrival.at)
        await play.arrive(arrival)
    await play.end()


class Pulse:
    """How long, in units, the machine kept its loop and its store waiting at most."""

    def __init__(self, app: InTurn, time: RealTime) -> None:
        self._app = app
        self._time = time
        self._slowest = 0.0
        self._since = time.now()

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(PAUSE * self._time.unit_s)
            await self._app.lanes.inspect("pulse")
            self._slowest, self._since = self.slowest(), self._time.now()

    def slowest(self) -> float:
        return max(self._slowest, self._time.now() - self._since - PAUSE)


@contextlib.asynccontextmanager
async def _task(work: Coroutine[None, None, T]) -> AsyncIterator[asyncio.Task[T]]:
    """It is over when the block is."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
