"""What a worker needs: between two messages of a lane, with very many more behind them, and from a submit to the start.

The worker runs in this process, and nothing else does meanwhile; the times are taken in the handler. For the way from a
submit to the start, an idle worker runs in another process (this module), whose handler returns when it began. All read
CLOCK_MONOTONIC, which processes share.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import mean, median, quantiles
from typing import Any

from benchmarks.figures import Figure, Ran, Rounds, gaps, ratio, rounded
from benchmarks.plan import FEW_WAITING, MANY_WAITING, Plan, Target
from benchmarks.processes import started
from benchmarks.turns.sides import some_state
from inturn.app import InTurn
from inturn.lanes.executor import take_turn
from inturn.lanes.turn import Turn
from inturn.lanes.worker import MAX_IN_A_ROW, Worker

BURSTS = 20
SLICES = 3 * MAX_IN_A_ROW
SUBMITS_AT_ONCE = 500
SUBMITS = 100
IDLE_S = (0.005, 0.015)
"""In that time the worker finds nothing to do, and waits. It is random, so as not to fall in step with anything."""
PATIENCE_S = 10.0


async def burst_handover(target: Target, plan: Plan) -> Figure:
    """A burst is as long as a worker stays with one lane. All of it waits before the worker gets the lane."""
    plan.tell(f"hand-over within a burst of {MAX_IN_A_ROW} messages")
    millis: list[float] = []
    counted = 0
    app = InTurn(target.url, namespace=f"{target.prefix}-burst")
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
                for body in (*["one"] * (MAX_IN_A_ROW - 1), "last"):
                    await app.submit("work", body, key=key)
                await app.lanes.resume(key)
                await is_over.wait()
                taken += gaps(ran)
            millis.append(median(taken) * 1000)
            counted += len(taken)
    more = {"hand_overs": counted, "messages_in_a_burst": MAX_IN_A_ROW, "bursts_in_a_round": plan.count(BURSTS)}
    unit = "ms from the end of a handler to the start of the next one"
    return Figure("burst_handover_ms", rounded(median(millis)), unit, {"inturn": millis}, more)


async def growth_mailbox(target: Target, plan: Plan) -> Figure:
    few, many = FEW_WAITING, plan.size(MANY_WAITING)
    plan.tell(f"a mailbox with {many:,} waiting")
    app = InTurn(target.url, namespace=f"{target.prefix}-mailbox")
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
    """A lane whose handler waits at a gate, so that exactly as many turns run as are let through."""

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
    """A worker of this app that ends at once: it has no grace."""
    worker = Worker(app.runtime, concurrency, 0.0)
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await task


async def seconds_of_a_turn(app: InTurn, handler: str) -> float:
    """One turn as a worker takes it, of the lane that is ready: from asking for it until its commit is answered.

    There is no `Worker` around it, which would wait and be woken: nothing but the turn is timed.
    """
    began_at = time.perf_counter()
    claimed = await app.runtime.claim((handler,), 1, partition=0)
    for given in claimed.turns:
        await take_turn(app.runtime, given, given.state, lambda: True)
    return time.perf_counter() - began_at


async def submit_to_start(target: Target, plan: Plan) -> Figure:
    """From a submit to the start of the handler, in an idle worker of another process."""
    plan.tell("from a submit to the start in another process")
    rounds: Rounds = {"median": [], "p99": []}
    async with (
        started("benchmarks.turns.workers", target, 1),
        InTurn(target.url, namespace=f"{target.prefix}-start") as app,
    ):
        register(app)
        await _one(app, "warm")
        for number in range(plan.rounds):
            taken = []
            for submit in range(max(2, plan.count(SUBMITS))):
                await asyncio.sleep(random.uniform(*IDLE_S))
                taken.append(await _one(app, f"{number}-{submit}"))
            rounds["median"].append(median(taken) * 1000)
            rounds["p99"].append(quantiles(taken, n=100, method="inclusive")[-1] * 1000)
    value, p99 = (rounded(median(rounds[name])) for name in ("median", "p99"))
    more = {"submits_in_a_round": max(2, plan.count(SUBMITS))}
    return Figure("submit_to_start_ms", value, "ms from submit to start", rounds, more, {"p99": p99})


async def _one(app: InTurn, lane: str) -> float:
    began_at = time.monotonic()
    receipt = await app.submit("start", "go", key=f"lane:{lane}")
    started_at: float = await receipt.result(timeout=PATIENCE_S)
    return started_at - began_at


def register(app: InTurn) -> None:
    @app.handler("start", state=dict, initial=some_state)
    async def start(turn: Turn[dict[str, Any]]) -> float:
        started_at = time.monotonic()
        turn.state["n"] += 1
        return started_at


async def main(url: str, prefix: str) -> None:
    async with InTurn(url, namespace=f"{prefix}-start") as app:
        register(app)
        print("ready", flush=True)
        await app.run(signals=True)


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    asyncio.run(main(sys.argv[1], sys.argv[2]))
