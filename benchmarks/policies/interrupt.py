"""How long it takes from a message's arrival until the turn that it interrupts, in another process, is cancelled.

The time begins before `submit` is called, and ends where the handler catches its cancellation. Both processes read
CLOCK_MONOTONIC, which they share. Every interrupt has a lane of its own. The other process runs this module: a worker
whose handler says when it began and when it was cancelled. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from asyncio.subprocess import Process
from statistics import median, quantiles

from benchmarks.figures import Figure, Rounds, rounded
from benchmarks.plan import Plan, Target
from benchmarks.processes import line_of, started
from inturn.app import InTurn
from inturn.errors import InTurnError
from inturn.lanes.turn import Turn

INTERRUPTS = 100
RUNS_S = (0.005, 0.015)
"""How long the turn has run when it is interrupted. It is random, so as not to fall in step with anything."""
PATIENCE_S = 10.0
MEDIAN, P99 = "inturn, median", "inturn, p99"
LONG_S = 60.0


async def interrupts(target: Target, plan: Plan) -> tuple[Figure, Figure]:
    """The median over all of them and the p99 over all of them: a slow one is not lost in the median of its round."""
    in_a_round = max(2, plan.size(INTERRUPTS))
    plan.tell(f"{plan.rounds * in_a_round} interrupts of turns in another process")
    rounds: Rounds = {MEDIAN: [], P99: []}
    all_of_them: list[float] = []
    async with (
        started("benchmarks.policies.interrupt", target, 1) as (worker,),
        InTurn(target.url, namespace=f"{target.prefix}-interrupt") as app,
    ):
        register(app)
        await _one(app, worker, "warm")
        for number in range(plan.rounds):
            millis = [await _one(app, worker, f"{number}-{lane}") * 1000 for lane in range(in_a_round)]
            rounds[MEDIAN].append(median(millis))
            rounds[P99].append(_p99(millis))
            all_of_them += millis
    more = {"interrupts": len(all_of_them), "slowest": rounded(max(all_of_them))}
    unit = "ms from before submit() to the CancelledError in the other process"
    return (
        Figure("interrupt_ms", rounded(median(all_of_them)), unit, rounds, more),
        Figure("interrupt_p99_ms", rounded(_p99(all_of_them)), unit, {P99: rounds[P99]}, more),
    )


async def _one(app: InTurn, worker: Process, lane: str) -> float:
    key = f"lane:{lane}"
    first = await app.submit("answer", "Where is my order?", key=key)
    await line_of(worker)  # it has begun
    await asyncio.sleep(random.uniform(*RUNS_S))
    arrived_at = time.monotonic()
    second = await app.submit("answer", "It is number 12.", key=key)
    cancelled_at = float(await line_of(worker))
    answered = [await receipt.result(timeout=PATIENCE_S) for receipt in (first, second)]
    if answered != [2, 2]:
        raise InTurnError(f"{key}: the next turn should have had both messages; turns of {answered} messages answered")
    return cancelled_at - arrived_at


def _p99(millis: list[float]) -> float:
    return quantiles(millis, n=100, method="inclusive")[-1]


def register(app: InTurn) -> None:
    @app.handler("answer", busy="interrupt")
    async def answer(turn: Turn[None]) -> int:
        if len(turn.messages) == 1:
            print("begun", flush=True)
            try:
                await asyncio.sleep(LONG_S)  # a model answers slowly
            except asyncio.CancelledError:
                print(time.monotonic(), flush=True)
                raise
        return len(turn.messages)


async def main(url: str, prefix: str) -> None:
    async with InTurn(url, namespace=f"{prefix}-interrupt") as app:
        register(app)
        print("ready", flush=True)
        await app.run(signals=True)


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    asyncio.run(main(sys.argv[1], sys.argv[2]))
