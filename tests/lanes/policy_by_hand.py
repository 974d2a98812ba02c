"""A table played with a clock that is moved by hand: to the next thing that can happen, once nothing more happens now.

What runs are real turns, as a worker takes them: claimed, or handed over by the commit before. Only their handlers wait
for the player's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from inturn.app import InTurn
from inturn.demo.play import PATIENCE_S, Play, Run
from inturn.demo.tables import Table
from inturn.lanes.executor import Passed, take_turn
from inturn.settings import Settings
from inturn.store.lane import Given, ident_of
from inturn.testing import MEMORY_URL, ManualClock

T = TypeVar("T")
LEAST_S = 0.001
"""The store counts milliseconds."""


class HandTime:
    """Handlers wait here until the clock has reached their end. One unit is a second."""

    unit_s = 1.0

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._began = self.clock.now
        self.stirred = asyncio.Event()
        """A handler has begun to wait, or a turn has ended."""
        self.waiting: dict[asyncio.Future[None], float] = {}

    def now(self) -> float:
        return (self.clock.now - self._began).total_seconds()

    async def work(self, units: float) -> None:
        done = asyncio.get_running_loop().create_future()
        self.waiting[done] = self.now() + units
        self.stirred.set()
        try:
            await done
        finally:
            self.waiting.pop(done, None)

    def release(self) -> bool:
        """Let those go on whose time has come; answers whether there were any."""
        over = [done for done, until in self.waiting.items() if until <= self.now()]
        for done in over:
            del self.waiting[done]
            done.set_result(None)
        return bool(over)


async def play_by_hand(table: Table) -> Play:
    time = HandTime()
    app = InTurn(MEMORY_URL, wall=time.clock.read_us, settings=Settings())
    async with app, Play(app, table, time) as play:
        await _Player(app, play, time).play()
        await play.end()
        return play


class _Player:
    def __init__(self, app: InTurn, play: Play, time: HandTime) -> None:
        self._runtime = app.runtime
        self._store = app.process.store
        self._registry = app.process.registry
        self._play = play
        self._time = time
        self._lanes: set[asyncio.Task[None]] = set()

    async def play(self) -> None:
        arrivals = list(self._play.table.arrivals)
        while True:
            due_in_s = await self._settle()
            if arrivals and arrivals[0].at <= self._time.now():
                await self._play.arrive(arrivals.pop(0))
                continue
            if not arrivals and not self._lanes and not await self._pending():
                return
            next_ones = [until - self._time.now() for until in self._time.waiting.values()]
            if arrivals:
                next_ones.append(arrivals[0].at - self._time.now())
            if due_in_s >= 0:
                next_ones.append(max(due_in_s, LEAST_S))
            assert next_ones, "a message has not come to its end, and nothing is due"
            self._time.clock.advance(min(next_ones))

    async def _settle(self) -> float:
        """Until nothing more happens at this time; answers in how many seconds something is due in the store."""
        while True:
            await self._rest()
            await _soon(self._registry.quiet())
            if self._time.release() or await self._interrupted():
                continue
            claimed = await self._runtime.claim(self._runtime.can, 1, 0)
            if not claimed.turns:
                return claimed.due_in_ms / 1000
            self._start(claimed.turns[0])

    async def _rest(self) -> None:
        """Every lane's task has ended, or its handler waits for the clock."""
        while len(self._lanes) > len(self._time.waiting):
            self._time.stirred.clear()
            await _soon(self._time.stirred.wait())

    async def _interrupted(self) -> bool:
        """Handlers whose lease is gone are cancelled by their notice: the clock stands still until they have ended."""
        running = [run for run in self._play.runs if run.until is None]
        cut = [run for run in running if not await self._store.confirm(self._play.key, run.turn._lease.token)]
        for run in cut:
            await _soon(self._over(run))
        return bool(cut)

    async def _over(self, run: Run) -> None:
        while run.until is None:
            self._time.stirred.clear()
            await self._time.stirred.wait()

    def _start(self, given: Given) -> None:
        task = asyncio.create_task(self._run_lane(given))
        self._lanes.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._lanes.discard(task)
        self._time.stirred.set()

    async def _run_lane(self, given: Given) -> None:
        passed: Passed | None = Passed(given, given.state)
        while passed is not None:
            passed = await take_turn(self._runtime, passed.given, passed.stored, goes_on=lambda: True)

    async def _pending(self) -> bool:
        idents = [ident_of(receipt.handler, receipt.id) for receipt in self._play.receipts.values()]
        return any([(await self._store.attend(self._play.key, ident)).status == "pending" for ident in idents])


async def _soon(waiting: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE_S):
        return await waiting
