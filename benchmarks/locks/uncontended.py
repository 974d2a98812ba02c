"""Nobody else wants the lock: round trips, throughput of 64 tasks on 64 names, and the latency of one task.

Within a round the sides take turns in short slices, so that whatever disturbs the machine disturbs all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from statistics import median

from benchmarks.figures import Figure, Rounds, ratio
from benchmarks.locks import sides
from benchmarks.locks.sides import AsyncLock, MakeLock, OpenSide, ThreadLock
from inturn.bench.place import Place
from benchmarks.plan import TASKS, Plan
from inturn.bench.server import ServerCounts

SIDES: dict[str, OpenSide] = {
    "inturn": sides.inturn,
    "redis-py": sides.redis_py,
    "pottery": sides.pottery,
}
SLICES = 5
WINDOWS, CYCLES = 9, 200


async def round_trips(place: Place, counts: ServerCounts, plan: Plan) -> Figure:
    """For us the scripts that the server ran, for the peers what it read.

    Windows are much shorter than the time between two heartbeats, so the median of them has none in it.
    """
    plan.tell("round trips")
    trips: Rounds = {}
    cycles = max(20, plan.size(CYCLES))
    for side, open_side in SIDES.items():
        async with open_side(place, 1) as make:
            lock = make("alone")
            await _cycle(lock)
            trips[side] = []
            for _ in range(WINDOWS):
                before = counts.now()
                for _ in range(cycles):
                    await _cycle(lock)
                counted = counts.since(before)
                trips[side].append((counted.scripts if side == "inturn" else counted.reads) / cycles)
    trips["python-redis-lock"] = await asyncio.to_thread(_trips_in_thread, place, counts, cycles)
    more = {"windows": WINDOWS, "cycles_in_each": cycles}
    return Figure("round_trips_uncontended", median(trips["inturn"]), "calls", trips, more)


def _trips_in_thread(place: Place, counts: ServerCounts, cycles: int) -> list[float]:
    trips = []
    with ThreadPoolExecutor(1) as threads, sides.python_redis_lock(place, threads, 1) as make:
        lock = make("alone")
        for _ in range(WINDOWS):
            before = counts.now()
            for _ in range(cycles):
                lock.acquire()
                lock.release()
            trips.append(counts.since(before).reads / cycles)
    return trips


async def throughput(place: Place, plan: Plan) -> Figure:
    plan.tell(f"throughput: {TASKS} tasks, {TASKS} names")
    rates: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        makes = {side: await stack.enter_async_context(open_(place, TASKS)) for side, open_ in SIDES.items()}
        locks = {side: [make(f"task-{n}") for n in range(TASKS)] for side, make in makes.items()}
        for side in SIDES:
            await cycles_per_s(locks[side], 0.05)
        for _ in range(plan.rounds):
            slices: Rounds = defaultdict(list)
            for _ in range(SLICES):
                for side in SIDES:
                    slices[side].append(await cycles_per_s(locks[side], plan.seconds(0.25)))
            for side, values in slices.items():
                rates[side].append(median(values))
    return ratio("throughput_vs_redis_py", "acquire + release per second", dict(rates), "inturn", "redis-py")


async def cycles_per_s(locks: Sequence[AsyncLock], seconds: float) -> float:
    """Every lock has a task that takes it and gives it back, again and again."""

    async def work(lock: AsyncLock) -> int:
        count = 0
        while time.perf_counter() < ends_at:
            await _cycle(lock)
            count += 1
        return count

    started_at = time.perf_counter()
    ends_at = started_at + seconds
    done = sum(await asyncio.gather(*(work(lock) for lock in locks)))
    return done / (time.perf_counter() - started_at)


async def latency(place: Place, plan: Plan) -> Figure:
    plan.tell("latency: one task")
    micros: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        makes: dict[str, MakeLock] = {
            side: await stack.enter_async_context(open_(place, 1)) for side, open_ in SIDES.items()
        }
        locks = {side: make("alone") for side, make in makes.items()}
        threads = stack.enter_context(ThreadPoolExecutor(1))
        foreign = stack.enter_context(sides.python_redis_lock(place, threads, 1))("alone")
        loop = asyncio.get_running_loop()
        for _ in range(plan.rounds):
            taken: Rounds = defaultdict(list)
            for _ in range(SLICES * 2):
                for side, lock in locks.items():
                    taken[side] += await _timed(lock, plan.seconds(0.1))
                taken["python-redis-lock"] += await loop.run_in_executor(
                    threads, _timed_in_thread, foreign, plan.seconds(0.1)
                )
            for side, values in taken.items():
                micros[side].append(median(values) * 1e6)
    return ratio("latency_vs_redis_py", "µs for acquire + release", dict(micros), "inturn", "redis-py")


async def _timed(lock: AsyncLock, seconds: float) -> list[float]:
    taken, ends_at = [], time.perf_counter() + seconds
    while (began_at := time.perf_counter()) < ends_at:
        await _cycle(lock)
        taken.append(time.perf_counter() - began_at)
    return taken


def _timed_in_thread(lock: ThreadLock, seconds: float) -> list[float]:
    taken, ends_at = [], time.perf_counter() + seconds
    while (began_at := time.perf_counter()) < ends_at:
        lock.acquire()
        lock.release()
        taken.append(time.perf_counter() - began_at)
    return taken


async def _cycle(lock: AsyncLock) -> None:
    await lock.acquire()
    await lock.release()
