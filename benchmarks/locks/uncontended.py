"""Locks that nobody else wants: round trips, throughput of 64 tasks on 64 names, latency of one task, renewal; SQLite.

Within a round the sides take turns in short slices, so that a disturbance of the machine disturbs all of them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, Rounds, ratio, rounded
from benchmarks.locks import sides
from benchmarks.locks.sides import TTL_S, AsyncLock, MakeLock, OpenSide, ThreadLock
from benchmarks.machine import ServerCounts, beats
from benchmarks.plan import LEASES, TASKS, Plan, Target
from inturn.app import InTurn
from inturn.errors import InTurnError

SIDES: dict[str, OpenSide] = {
    "inturn": sides.inturn,
    "redis-py": sides.redis_py,
    "pottery": sides.pottery,
}
SLICES = 5
WINDOWS, CYCLES = 9, 200
RENEWED_TTL_S = 5.0
BEATS = 6
"""A heartbeat follows another after a second here, so these take longer than the leases live."""
BARE, OURS, ALONE = "bare loop", "inturn", "inturn, one caller"


async def round_trips(target: Target, counts: ServerCounts, plan: Plan) -> Figure:
    """For us the scripts that the server ran, for the peers what it read.

    Windows are much shorter than the time between two heartbeats, so the median of them has none in it.
    """
    plan.tell("round trips")
    trips: Rounds = {}
    cycles = max(20, plan.size(CYCLES))
    for side, open_side in SIDES.items():
        async with open_side(target, 1) as make:
            lock = make("alone")
            await _cycle(lock)
            trips[side] = []
            for _ in range(WINDOWS):
                before = counts.now()
                for _ in range(cycles):
                    await _cycle(lock)
                counted = counts.since(before)
                trips[side].append((counted.scripts if side == "inturn" else counted.reads) / cycles)
    trips["python-redis-lock"] = await asyncio.to_thread(_trips_in_thread, target, counts, cycles)
    more = {"windows": WINDOWS, "cycles_in_each": cycles}
    return Figure("round_trips_uncontended", median(trips["inturn"]), "calls", trips, more)


def _trips_in_thread(target: Target, counts: ServerCounts, cycles: int) -> list[float]:
    trips = []
    with ThreadPoolExecutor(1) as threads, sides.python_redis_lock(target, threads, 1) as make:
        lock = make("alone")
        for _ in range(WINDOWS):
            before = counts.now()
            for _ in range(cycles):
                lock.acquire()
                lock.release()
            trips.append(counts.since(before).reads / cycles)
    return trips


async def throughput(target: Target, plan: Plan) -> Figure:
    plan.tell(f"throughput: {TASKS} tasks, {TASKS} names")
    rates: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        makes = {side: await stack.enter_async_context(open_(target, TASKS)) for side, open_ in SIDES.items()}
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


async def latency(target: Target, plan: Plan) -> Figure:
    plan.tell("latency: one task")
    micros: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        makes: dict[str, MakeLock] = {
            side: await stack.enter_async_context(open_(target, 1)) for side, open_ in SIDES.items()
        }
        locks = {side: make("alone") for side, make in makes.items()}
        threads = stack.enter_context(ThreadPoolExecutor(1))
        foreign = stack.enter_context(sides.python_redis_lock(target, threads, 1))("alone")
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


async def renewals(target: Target, counts: ServerCounts, plan: Plan) -> Figure:
    """How many calls the server gets for each heartbeat of ten thousand held leases, over longer than a lease lives."""
    leases = plan.size(LEASES)
    plan.tell(f"renewal of {leases:,} leases")
    async with InTurn(target.url, namespace=f"{target.prefix}-renewals") as app:
        locks = [app.lock(f"lease-{number}", ttl=RENEWED_TTL_S) for number in range(leases)]
        await asyncio.gather(*(lock.acquire() for lock in locks))
        # the window begins and ends right after a heartbeat, so that all of each is in it
        await asyncio.to_thread(_wait_until, beats() + 1)
        before, first, began_at = counts.now(), beats(), time.monotonic()
        await asyncio.to_thread(_wait_until, first + BEATS)
        calls, last, window_s = counts.since(before).scripts, beats(), time.monotonic() - began_at
        for lock in locks[:: max(1, leases // 100)]:
            if not await lock.locked():
                raise InTurnError(f"{lock.name} was not renewed, so there is no figure; is the machine very busy?")
    per_beat = calls / (last - first) / app.process.store.partitions
    more = {
        "leases": leases,
        "beats": last - first,
        "calls": calls,
        "window_s": rounded(window_s),
        "ttl_s": RENEWED_TTL_S,
    }
    return Figure("renew_round_trips_10k", rounded(per_beat), "calls per heartbeat", {"inturn": [per_beat]}, more)


def _wait_until(count: int) -> None:
    """That many heartbeats were answered."""
    gives_up_at = time.monotonic() + 10 * RENEWED_TTL_S
    while beats() < count:
        if time.monotonic() > gives_up_at:
            raise InTurnError("the heartbeat stands still, so there is no figure")
        time.sleep(0.002)


async def embedded(plan: Plan) -> tuple[Figure, Figure]:
    """Our lock on SQLite against the least that could be called one."""
    rates: Rounds = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="inturn-bench-") as folder:
        bare = str(Path(folder, "bare.db"))
        async with InTurn(f"sqlite:///{Path(folder, 'inturn.db')}") as app:
            locks = [app.lock(f"task-{number}", ttl=TTL_S) for number in range(TASKS)]
            await cycles_per_s(locks, 0.05)
            for number in range(plan.rounds):
                plan.tell(f"SQLite, round {number + 1} of {plan.rounds}")
                rates[BARE].append(await asyncio.to_thread(_bare_loop, bare, plan.seconds(1.0)))
                rates[OURS].append(await cycles_per_s(locks, plan.seconds(1.0)))
                rates[ALONE].append(await cycles_per_s(locks[:1], plan.seconds(1.0)))
    unit = "acquire + release per second"
    return (
        ratio("sqlite_vs_bare_loop", unit, {OURS: rates[OURS], BARE: rates[BARE]}, OURS, BARE),
        ratio("sqlite_vs_bare_loop_one_caller", unit, {ALONE: rates[ALONE], BARE: rates[BARE]}, ALONE, BARE),
    )


def _bare_loop(path: str, seconds: float) -> float:
    """Returns the rate of two bare transactions in a loop, with our pragmas.

    The loop has no queue, no fence, no renewal and no second caller. It shows what the disk allows.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        run = database.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, token TEXT, ends_ms INTEGER) WITHOUT ROWID")
        cycles, started_at = 0, time.perf_counter()
        while time.perf_counter() - started_at < seconds:
            name, ends_ms = f"task-{cycles % TASKS}", int(time.time() * 1000) + TTL_S * 1000
            run("BEGIN IMMEDIATE")
            run("INSERT INTO locks VALUES (?, 'me', ?) ON CONFLICT (name) DO NOTHING", (name, ends_ms))
            run("COMMIT")
            run("BEGIN IMMEDIATE")
            run("DELETE FROM locks WHERE name = ? AND token = 'me'", (name,))
            run("COMMIT")
            cycles += 1
        return cycles / (time.perf_counter() - started_at)
