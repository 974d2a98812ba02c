"""Our lock on SQLite against the least that could be called one: two bare transactions in a loop, same pragmas.

The bare loop has no queue, no fence, no renewal and no second caller. It shows what the disk allows.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from inturn.app import InTurn
from benchmarks.figures import Figure, Rounds, ratio
from benchmarks.locks.sides import TTL_S
from benchmarks.locks.uncontended import cycles_per_s
from benchmarks.plan import TASKS, Plan

BARE, OURS, ALONE = "bare loop", "inturn", "inturn, one caller"


async def embedded(plan: Plan) -> tuple[Figure, Figure]:
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
