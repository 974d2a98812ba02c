"""How long it takes from a submit to the start of the handler, in an idle worker of another process.

Both processes read CLOCK_MONOTONIC, which they share; the handler's result is when it began.
"""

from __future__ import annotations

import asyncio
import random
import time
from statistics import median, quantiles

from inturn.app import InTurn
from benchmarks.figures import Figure, Rounds, rounded
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.processes import started
from inturn.bench.turns.starter import register

SUBMITS = 100
IDLE_S = (0.005, 0.015)
"""The worker finds nothing more to do in that time, and waits. At random, so as not to fall in step with anything."""
PATIENCE_S = 10.0


async def submit_to_start(place: Place, plan: Plan) -> Figure:
    plan.tell("from a submit to the start in another process")
    rounds: Rounds = {"median": [], "p99": []}
    async with (
        started("inturn.bench.turns.starter", place, 1),
        InTurn(place.url, namespace=f"{place.prefix}-start") as app,
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
