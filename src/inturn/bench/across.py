"""The same between processes: 50 waiters spread over five of them, which arrive in turn, so that nearly every hand-over
crosses from one process to another. Only those that do are counted."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median, quantiles

from inturn.bench.figures import Figure, Rounds, rounded
from inturn.bench.handover import Ran, gaps
from inturn.bench.plan import PROCESSES, WAITERS, Plan
from inturn.bench.sides import Place
from inturn.errors import InTurnError

HEAD_START_S = 0.1
APART_S = 0.0005


async def across_processes(place: Place, plan: Plan) -> Figure:
    plan.tell(f"hand-over across {PROCESSES} processes")
    rounds: Rounds = {"median": [], "p90": []}
    counted = 0
    async with _workers(place) as workers:
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
        for began_at, ended_at in json.loads(await _line(worker))
    ]


@asynccontextmanager
async def _workers(place: Place) -> AsyncIterator[list[Process]]:
    command = (sys.executable, "-m", "inturn.bench.across_worker", place.url, place.prefix)
    workers: list[Process] = []
    try:
        for _ in range(PROCESSES):
            # a session of its own: Ctrl-C reaches us alone, and we end it
            workers.append(
                await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, start_new_session=True, limit=2**24
                )
            )
        for worker in workers:
            await _line(worker)
        yield workers
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.terminate()
        await asyncio.gather(*(worker.wait() for worker in workers))


async def _line(worker: Process) -> bytes:
    assert worker.stdout is not None
    line = await worker.stdout.readline()
    if not line:
        raise InTurnError("a process of the benchmark ended too early; see what it wrote above")
    return line
