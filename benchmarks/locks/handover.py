"""Fifty wait for one lock, and each holds it for a millisecond: the time from a body's end to the next one's start.

The times are taken inside the bodies, so that how long a body took does not matter, by CLOCK_MONOTONIC, which all
processes share.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, median

from inturn.bench.bodies import Ran, gaps
from benchmarks.figures import Figure, Rounds, ratio
from benchmarks.locks import sides
from benchmarks.locks.sides import AsyncLock, MakeLock, OpenSide, ThreadLock
from inturn.bench.place import Place
from benchmarks.plan import BODY_S, WAITERS, Plan

ASYNC_SIDES: dict[str, OpenSide] = {
    "inturn": sides.inturn,
    "redis-py": sides.redis_py,
    "pottery": sides.pottery,
}
TIMES = 3

ARRIVE_WITHIN_S = 0.1
"""Waiters arrive at random moments while someone holds the lock. If all came at once, a poller's waiters would go on
polling at the same moments, which would be unfair to it."""


async def handovers(place: Place, plan: Plan) -> tuple[Figure, Figure]:
    """Both figures, from the same rounds."""
    millis: Rounds = defaultdict(list)
    medians: Rounds = defaultdict(list)
    for number in range(plan.rounds):
        plan.tell(f"hand-over: {WAITERS} waiters, round {number + 1} of {plan.rounds}")
        taken: Rounds = defaultdict(list)
        for _ in range(plan.count(TIMES)):
            arrivals = [random.uniform(0, ARRIVE_WITHIN_S) for _ in range(WAITERS)]
            for side, open_side in ASYNC_SIDES.items():
                async with open_side(place, WAITERS) as make:
                    taken[side] += gaps(await _queue(make, arrivals))
            taken["python-redis-lock"] += gaps(await asyncio.to_thread(_queue_in_threads, place, arrivals))
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


def _queue_in_threads(place: Place, arrivals: list[float]) -> list[Ran]:
    def wait_turn(lock: ThreadLock, arrives_in: float) -> Ran:
        time.sleep(arrives_in)
        lock.acquire()
        began_at = time.monotonic()
        time.sleep(BODY_S)
        ended_at = time.monotonic()
        lock.release()
        return Ran(began_at, ended_at)

    with ThreadPoolExecutor(WAITERS) as threads, sides.python_redis_lock(place, threads, WAITERS) as make:
        holder = make("one")
        holder.acquire()
        waiting = [threads.submit(wait_turn, make("one"), arrives_in) for arrives_in in arrivals]
        time.sleep(ARRIVE_WITHIN_S)
        ended_at = time.monotonic()
        holder.release()
        return [Ran(ended_at, ended_at), *(waiter.result() for waiter in waiting)]
