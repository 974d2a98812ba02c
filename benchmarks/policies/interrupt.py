"""How long it takes from a message's arrival until the turn that it interrupts, in another process, is cancelled.

The time begins before `submit` is called, and ends where the handler catches its cancellation. Both processes read
CLOCK_MONOTONIC, which they share. Every interrupt has a lane of its own.
"""

from __future__ import annotations

import asyncio
import random
import time
from asyncio.subprocess import Process
from statistics import median, quantiles

from inturn.app import InTurn
from benchmarks.figures import Figure, Rounds, rounded
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.policies.interrupted import register
from inturn.bench.processes import line_of, started
from inturn.errors import InTurnError

INTERRUPTS = 100
RUNS_S = (0.005, 0.015)
"""For so long the turn has run when it is interrupted. At random, so as not to fall in step with anything."""
PATIENCE_S = 10.0
MEDIAN, P99 = "inturn, median", "inturn, p99"


async def interrupts(place: Place, plan: Plan) -> tuple[Figure, Figure]:
    """The median over all of them and the p99 over all of them: a slow one is not lost in the median of its round."""
    in_a_round = max(2, plan.size(INTERRUPTS))
    plan.tell(f"{plan.rounds * in_a_round} interrupts of turns in another process")
    rounds: Rounds = {MEDIAN: [], P99: []}
    all_of_them: list[float] = []
    async with (
        started("inturn.bench.policies.interrupted", place, 1) as (worker,),
        InTurn(place.url, namespace=f"{place.prefix}-interrupt") as app,
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
