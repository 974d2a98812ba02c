"""The same between processes: 50 waiters spread over five of them, which arrive in turn, so that nearly every hand-over
crosses from one process to another. Only those that do are counted."""

from __future__ import annotations

import json
import time
from asyncio.subprocess import Process
from statistics import median, quantiles

from inturn.bench.bodies import Ran, gaps
from benchmarks.figures import Figure, Rounds, rounded
from inturn.bench.place import Place
from benchmarks.plan import PROCESSES, WAITERS, Plan
from inturn.bench.processes import line_of, started

HEAD_START_S = 0.1
APART_S = 0.0005


async def across_processes(place: Place, plan: Plan) -> Figure:
    plan.tell(f"hand-over across {PROCESSES} processes")
    rounds: Rounds = {"median": [], "p90": []}
    counted = 0
    async with started("inturn.bench.locks.across_worker", place, PROCESSES) as workers:
        for _ in range(plan.rounds):
            crossed = gaps(await _one_round(workers, plan.count(8)), between_processes=True)
            counted += len(crossed)
            rounds["median"].append(median(crossed) * 1000)
            rounds["p90"].append(quantiles(crossed, n=10)[-1] * 1000)
    value = {name: rounded(median(values)) for name, values in rounds.items()}
    return Figure("handoff_across_processes_ms", value, "ms, net of the body", rounds, {"hand_overs": counted})


async def _one_round(workers: list[Process], turns: int) -> list[Ran]:
    start_at = time.monotonic() + HEAD_START_S
    for number, worker in enumerate(workers):
        arrivals = [start_at + place * APART_S for place in range(number, WAITERS, PROCESSES)]
        assert worker.stdin is not None
        worker.stdin.write(json.dumps({"arrivals": arrivals, "turns": turns}).encode() + b"\n")
    return [
        Ran(began_at, ended_at, number)
        for number, worker in enumerate(workers)
        for began_at, ended_at in json.loads(await line_of(worker))
    ]
