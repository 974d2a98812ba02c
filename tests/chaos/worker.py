"""One process of the load: tasks that take locks, do something under them, and write down what they saw.

`python -m tests.chaos.worker '<Load as JSON>'`. SIGUSR1: come to rest, but stay alive and beating. SIGTERM: end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import random
import signal
import sys
import time
from pathlib import Path

from inturn.errors import LeaseLost, LockTimeout, StoreUnavailable
from tests.chaos.history import Recorder, now
from tests.chaos.load import Load
from tests.chaos.sides import Held, Side, open_side
from tests.chaos.stalls import watch_for_stalls


class BodyFailed(Exception):
    """The body's own error: the release then has to work all the same."""


class Worker:
    def __init__(self, load: Load, recorder: Recorder) -> None:
        self.load = load
        self.recorder = recorder
        self.side: Side = open_side(load)
        self.rests = asyncio.Event()
        self.ends = asyncio.Event()
        self.chance = random.Random(load.seed)
        self._ids = itertools.count(1)
        self._long_at = now() + self.chance.uniform(0, 0.5)
        self._block_at = now() + self.chance.uniform(0, 2)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.rests.set)
        loop.add_signal_handler(signal.SIGTERM, self.ends.set)
        with watch_for_stalls(self.recorder):
            self.recorder.write("started")
            orphaned = asyncio.create_task(self._end_with_parent())
            await asyncio.gather(*(self._task(number == 0) for number in range(self.load.tasks)))
            async with self.side.kept_alive():
                self.recorder.write("resting")
                await self.ends.wait()
            await self.side.close()
            orphaned.cancel()

    @staticmethod
    async def _end_with_parent() -> None:
        parent = os.getppid()
        while True:
            await asyncio.sleep(1)
            if os.getppid() != parent:
                os._exit(1)

    async def _task(self, is_slow: bool) -> None:
        """One task of each process has the long bodies, on a name of their own: they would hold up all the others."""
        while not (self.rests.is_set() or self.ends.is_set()):
            hold = asyncio.create_task(self._hold(is_slow))
            if self.chance.random() < self.load.cancels:
                await self._cancel(hold)
            resting = asyncio.create_task(self.rests.wait())
            await asyncio.wait({hold, resting}, return_when=asyncio.FIRST_COMPLETED)
            if not hold.done():
                # the load is over: leave the queue if it still waits, and end what it holds
                hold.cancel()
            resting.cancel()
            await asyncio.gather(hold, return_exceptions=True)
            await asyncio.sleep(self.chance.expovariate(1 / self.load.pause_s))

    async def _cancel(self, hold: asyncio.Task[None]) -> None:
        """At a random await: after so many turns of the loop, or after a moment."""
        if self.chance.random() < 0.5:
            for _ in range(self.chance.randrange(12)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(self.chance.expovariate(1 / 0.02))
        if not hold.done():
            hold.cancel()
            self.recorder.write("cancel")

    async def _hold(self, is_slow: bool) -> None:
        chance, load = self.chance, self.load
        name, capacity = load.names[0] if is_slow else chance.choice(load.names[1:])
        priority = chance.choices((0, 5, -5), (8, 1, 1))[0]
        wait_s = chance.choices((None, 0.0, chance.uniform(0.01, 0.3)), (6, 1, 3))[0]
        hold_id = f"{os.getpid()}-{next(self._ids)}"
        requested = now()
        is_granted, outcome = False, "released"
        try:
            async with self.side.lock(name, capacity, priority, wait_s) as held:
                facts = {"name": name, "capacity": capacity, "priority": priority, "requested": requested}
                self.recorder.write("granted", id=hold_id, arrival=held.arrival, fence=held.fence, **facts)
                is_granted = True
                try:
                    await self._body(held, is_slow)
                finally:
                    self.recorder.write("over", id=hold_id)
        except LockTimeout:
            outcome = "timeout"
        except LeaseLost:
            outcome = "refused"
        except (StoreUnavailable, BodyFailed, asyncio.CancelledError) as error:
            outcome = "unknown" if is_granted else type(error).__name__
        if is_granted:
            self.recorder.write(outcome, id=hold_id)
        else:
            self.recorder.write(outcome)
            if outcome == "StoreUnavailable":
                await asyncio.sleep(0.05)

    async def _body(self, held: Held, is_slow: bool) -> None:
        if self.load.blocks and now() > self._block_at:
            self._block_at = now() + self.chance.uniform(4, 8)
            self.recorder.write("block")
            time.sleep(self.load.ttl_s * 1.3)  # noqa: ASYNC251 - a blocked loop is what is tested
            return
        seconds = self.chance.choices((0.0, 0.002, 0.02), (5, 4, 1))[0]
        if is_slow and now() > self._long_at:
            self._long_at = now() + self.chance.uniform(2, 5)
            seconds = self.load.ttl_s * 2.5
        until = now() + seconds
        while not held.lost:
            if (left := until - now()) <= 0:
                break
            await asyncio.sleep(min(0.02, left))
        if self.chance.random() < 0.02:
            raise BodyFailed


async def main() -> None:
    load = Load.from_json(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    recorder = Recorder(Path(load.folder) / f"worker-{os.getpid()}.jsonl")
    with contextlib.suppress(asyncio.CancelledError):
        await Worker(load, recorder).run()


if __name__ == "__main__":
    asyncio.run(main())
