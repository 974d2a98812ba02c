"""Fifty wait for one lock, and each holds it for a millisecond: the time from a body's end to the next one's start.

The times are taken inside the bodies, so that how long a body took does not matter, by CLOCK_MONOTONIC, which all
processes share. Across processes, fifty waiters in five processes arrive in turn, so that nearly every hand-over
crosses from one process to another; only those are counted. Such a process runs this module.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
import time
from asyncio.subprocess import Process
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, median, quantiles

from benchmarks.figures import Figure, Ran, Rounds, gaps, ratio, rounded
from benchmarks.locks import sides
from benchmarks.locks.sides import AsyncLock, MakeLock, OpenSide, ThreadLock
from benchmarks.plan import BODY_S, PROCESSES, WAITERS, Plan, Target
from benchmarks.processes import line_of, started

ASYNC_SIDES: dict[str, OpenSide] = {
    "inturn": sides.inturn,
    "redis-py": sides.redis_py,
    "pottery": sides.pottery,
}
TIMES = 3

ARRIVE_WITHIN_S = 0.1
"""Waiters arrive at random moments while someone holds the lock. If all came at once, a poller's waiters would go on
polling at the same moments, which would be unfair to it."""
HEAD_START_S = 0.1
APART_S = 0.0005


async def handovers(target: Target, plan: Plan) -> tuple[Figure, Figure]:
    """Returns both figures, from the same rounds."""
    millis: Rounds = defaultdict(list)
    medians: Rounds = defaultdict(list)
    for number in range(plan.rounds):
        plan.tell(f"hand-over: {WAITERS} waiters, round {number + 1} of {plan.rounds}")
        taken: Rounds = defaultdict(list)
        for _ in range(plan.count(TIMES)):
            arrivals = [random.uniform(0, ARRIVE_WITHIN_S) for _ in range(WAITERS)]
            for side, open_side in ASYNC_SIDES.items():
                async with open_side(target, WAITERS) as make:
                    taken[side] += gaps(await _queue(make, arrivals))
            taken["python-redis-lock"] += gaps(await asyncio.to_thread(_queue_in_threads, target, arrivals))
        for side, values in taken.items():
            # the mean, because waiting is what it costs: a poller's median hides its long sleeps
            millis[side].append(mean(values) * 1000)
            medians[side].append(median(values) * 1000)
    unit = "ms from the end of a body to the next one's start (mean)"
    more = {"by_median": {side: median(values) for side, values in medians.items()}}
    return (
        ratio("handoff_vs_redis_py", unit, dict(millis), "redis-py", "inturn", **more),
        ratio("handoff_vs_python_redis_lock", unit, dict(millis), "python-redis-lock", "inturn", **more),
    )


async def _queue(make: MakeLock, arrivals: list[float]) -> list[Ran]:
    ran = []

    async def wait_turn(lock: AsyncLock, arrives_in: float) -> None:
        await asyncio.sleep(arrives_in)
        await lock.acquire()
        began_at = time.monotonic()
        await asyncio.sleep(BODY_S)
        ran.append(Ran(began_at, time.monotonic()))
        await lock.release()

    holder = make("one")
    await holder.acquire()
    waiting = asyncio.gather(*(wait_turn(make("one"), arrives_in) for arrives_in in arrivals))
    await asyncio.sleep(ARRIVE_WITHIN_S)
    ended_at = time.monotonic()
    await holder.release()
    await waiting
    return [Ran(ended_at, ended_at), *ran]


def _queue_in_threads(target: Target, arrivals: list[float]) -> list[Ran]:
    def wait_turn(lock: ThreadLock, arrives_in: float) -> Ran:
        time.sleep(arrives_in)
        lock.acquire()
        began_at = time.monotonic()
        time.sleep(BODY_S)
        ended_at = time.monotonic()
        lock.release()
        return Ran(began_at, ended_at)

    with ThreadPoolExecutor(WAITERS) as threads, sides.python_redis_lock(target, threads, WAITERS) as make:
        holder = make("one")
        holder.acquire()
        waiting = [threads.submit(wait_turn, make("one"), arrives_in) for arrives_in in arrivals]
        time.sleep(ARRIVE_WITHIN_S)
        ended_at = time.monotonic()
        holder.release()
        return [Ran(ended_at, ended_at), *(waiter.result() for waiter in waiting)]


async def across_processes(target: Target, plan: Plan) -> Figure:
    plan.tell(f"hand-over across {PROCESSES} processes")
    rounds: Rounds = {"median": [], "p90": []}
    counted = 0
    async with started("benchmarks.locks.handover", target, PROCESSES) as workers:
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
        arrivals = [start_at + arrival * APART_S for arrival in range(number, WAITERS, PROCESSES)]
        assert worker.stdin is not None
        worker.stdin.write(json.dumps({"arrivals": arrivals, "turns": turns}).encode() + b"\n")
    return [
        Ran(began_at, ended_at, number)
        for number, worker in enumerate(workers)
        for began_at, ended_at in json.loads(await line_of(worker))
    ]


async def one_round(make: MakeLock, arrivals: list[float], turns: int) -> list[tuple[float, float]]:
    ran = []

    async def wait_turns(arrive_at: float) -> None:
        lock = make("across")
        await asyncio.sleep(arrive_at - time.monotonic())
        for _ in range(turns):
            await lock.acquire()
            began_at = time.monotonic()
            await asyncio.sleep(BODY_S)
            ran.append((began_at, time.monotonic()))
            await lock.release()

    await asyncio.gather(*(wait_turns(arrive_at) for arrive_at in arrivals))
    return ran


async def main(url: str, prefix: str) -> None:
    async with sides.inturn(Target(url, prefix)) as make:
        warm = make(f"warm-{os.getpid()}")  # the first use starts the heartbeat's thread
        await warm.acquire()
        await warm.release()
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            print(json.dumps(await one_round(make, order["arrivals"], order["turns"])), flush=True)


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())  # five times the same warning would tell no more
    asyncio.run(main(sys.argv[1], sys.argv[2]))
