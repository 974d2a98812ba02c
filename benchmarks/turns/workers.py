"""What a worker needs between two messages of one lane: right after each other, and with very many more behind them.

The worker runs in this process, and nothing else does meanwhile. The times are taken in the handler.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import mean, median
from typing import Any

from inturn.app import InTurn
from inturn.bench.bodies import Ran, gaps
from benchmarks.figures import Figure, Rounds, ratio, rounded
from inturn.bench.place import Place
from benchmarks.plan import FEW_WAITING, MANY_WAITING, Plan
from inturn.bench.turns.state import some_state
from inturn.lanes.turn import Turn
from inturn.lanes.worker import RUN, Worker

BURSTS = 20
SLICES = 3 * RUN
SUBMITS_AT_ONCE = 500


async def burst_handover(place: Place, plan: Plan) -> Figure:
    """A burst is as long as a worker stays with one lane. All of it waits before the worker gets the lane."""
    plan.tell(f"hand-over within a burst of {RUN} messages")
    millis: list[float] = []
    counted = 0
    app = InTurn(place.url, namespace=f"{place.prefix}-burst")
    ran: list[Ran] = []
    is_over = asyncio.Event()

    @app.handler("work", state=dict, initial=some_state)
    async def work(turn: Turn[dict[str, Any]]) -> None:
        began_at = time.perf_counter()
        turn.state["n"] += 1
        if turn.body == "last":
            is_over.set()
        ran.append(Ran(began_at, time.perf_counter()))

    async with app, working(app, 1):
        for number in range(plan.rounds):
            taken: list[float] = []
            for burst in range(plan.count(BURSTS)):
                key = f"lane:{number}-{burst}"
                ran.clear()
                is_over.clear()
                await app.lanes.pause(key)
                for body in (*["one"] * (RUN - 1), "last"):
                    await app.submit("work", body, key=key)
                await app.lanes.resume(key)
                await is_over.wait()
                taken += gaps(ran)
            millis.append(median(taken) * 1000)
            counted += len(taken)
    more = {"hand_overs": counted, "messages_in_a_burst": RUN, "bursts_in_a_round": plan.count(BURSTS)}
    unit = "ms from the end of a handler to the start of the next one"
    return Figure("burst_handover_ms", rounded(median(millis)), unit, {"inturn": millis}, more)


async def growth_mailbox(place: Place, plan: Plan) -> Figure:
    few, many = FEW_WAITING, plan.size(MANY_WAITING)
    plan.tell(f"a mailbox with {many:,} waiting")
    app = InTurn(place.url, namespace=f"{place.prefix}-mailbox")
    boxes = {waiting: Mailbox(app, f"lane:{waiting}") for waiting in (many, few)}
    by_key = {box.key: box for box in boxes.values()}

    @app.handler("work", state=dict, initial=some_state, max_waiting=2 * MANY_WAITING)
    async def work(turn: Turn[dict[str, Any]]) -> None:
        await by_key[turn.key].pass_gate()
        turn.state["n"] += 1

    micros: Rounds = defaultdict(list)
    async with app, working(app, len(boxes)):
        for waiting, box in boxes.items():
            await box.put(1 + waiting)
            await box.has_begun(1)
        for _ in range(plan.rounds):
            taken: dict[int, list[float]] = defaultdict(list)
            for _ in range(plan.count(SLICES)):
                for waiting, box in boxes.items():
                    taken[waiting].append(await box.let_through(few))
                    await box.put(few)
            for waiting, values in taken.items():
                # the mean, because one turn in so many needs a claim, and that is part of what a turn costs
                micros[_side(waiting)].append(mean(values) * 1e6)
    return ratio("growth_mailbox", "µs for a worker's turn", dict(micros), _side(many), _side(few))


def _side(waiting: int) -> str:
    return f"inturn, {waiting:,}"


class Mailbox:
    """A lane of which the handler waits at a gate, so that as many turns run as are let through."""

    def __init__(self, app: InTurn, key: str, handler: str = "work") -> None:
        self.key = key
        self._app = app
        self._handler = handler
        self._gate = asyncio.Semaphore(0)
        self._begun = 0
        self._change = asyncio.Event()

    async def put(self, count: int) -> None:
        for start in range(0, count, SUBMITS_AT_ONCE):
            some = range(start, min(start + SUBMITS_AT_ONCE, count))
            await asyncio.gather(*(self._app.submit(self._handler, number, key=self.key) for number in some))

    async def pass_gate(self) -> None:
        self._begun += 1
        self._change.set()
        await self._gate.acquire()

    async def has_begun(self, count: int) -> None:
        while self._begun < count:
            self._change.clear()
            await self._change.wait()

    async def let_through(self, count: int) -> float:
        """Seconds for each turn, from gate to gate: commit, the next message, its handler."""
        goal = self._begun + count
        began_at = time.perf_counter()
        for _ in range(count):
            self._gate.release()
        await self.has_begun(goal)
        return (time.perf_counter() - began_at) / count


@asynccontextmanager
async def working(app: InTurn, concurrency: int) -> AsyncIterator[None]:
    """A worker of this app. Not `app.run()`, because Ctrl-C is for the benchmark."""
    worker = Worker(app.runtime, concurrency, 0.0)
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await task
