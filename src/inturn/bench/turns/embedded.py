"""Our turn on SQLite against the least that could be called one: two bare transactions in a loop, same pragmas.

The bare loop has no mailbox, no fence, no renewal and no second caller. It shows what the disk allows.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from pydantic_core import from_json, to_json

from benchmarks.figures import Figure, Rounds, median_ratio, ratio, rounded
from inturn.bench.place import Place
from benchmarks.plan import TASKS, Plan
from benchmarks.turns import sides
from benchmarks.turns.sides import LOCK_S, MARK_S, STATE_S
from inturn.bench.turns.state import lanes, some_state
from benchmarks.turns.uncontended import turns_per_s

BARE, OURS, ALONE = "bare loop", "inturn", "inturn, one caller"
SCHEMA = """\
CREATE TABLE IF NOT EXISTS locks (key TEXT PRIMARY KEY, token TEXT, ends_ms INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (key TEXT PRIMARY KEY, state BLOB, ends_ms INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (key TEXT, id TEXT, ends_ms INTEGER, PRIMARY KEY (key, id)) WITHOUT ROWID;
"""


async def embedded(plan: Plan) -> Figure:
    rates: Rounds = {OURS: [], ALONE: [], BARE: []}
    keys = lanes(TASKS)
    with tempfile.TemporaryDirectory(prefix="inturn-bench-") as folder:
        bare = str(Path(folder, "bare.db"))
        place = Place(f"sqlite:///{Path(folder, 'inturn.db')}", "inturn")
        async with sides.inturn(place, keys) as take_turn:
            await turns_per_s(take_turn, keys, 0.05)
            for number in range(plan.rounds):
                plan.tell(f"SQLite, round {number + 1} of {plan.rounds}")
                rates[BARE].append(await asyncio.to_thread(_bare_loop, bare, plan.seconds(1.0)))
                rates[OURS].append(await turns_per_s(take_turn, keys, plan.seconds(1.0)))
                rates[ALONE].append(await turns_per_s(take_turn, keys[:1], plan.seconds(1.0)))
    figure = ratio("sqlite_vs_bare_loop", "turns per second", rates, OURS, BARE)
    figure.reported["one_caller"] = rounded(median_ratio(rates[ALONE], rates[BARE]))
    return figure


def _bare_loop(path: str, seconds: float) -> float:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        run = database.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        database.executescript(SCHEMA)
        for key in lanes(TASKS):
            run("INSERT INTO states VALUES (?, ?, 0) ON CONFLICT DO NOTHING", (key, to_json(some_state())))
        (number,) = run("SELECT count(*) FROM marks").fetchone()
        turns, started_at = 0, time.perf_counter()
        while time.perf_counter() - started_at < seconds:
            key, message_id, now_ms = f"lane:{turns % TASKS}", f"m{number + turns}", int(time.time() * 1000)
            run("BEGIN IMMEDIATE")
            is_duplicate = run("SELECT 1 FROM marks WHERE key = ? AND id = ?", (key, message_id)).fetchone()
            assert is_duplicate is None
            run("INSERT INTO locks VALUES (?, 'me', ?) ON CONFLICT DO NOTHING", (key, now_ms + LOCK_S * 1000))
            (written,) = run("SELECT state FROM states WHERE key = ?", (key,)).fetchone()
            run("COMMIT")
            state = from_json(written)
            state["n"] += 1
            run("BEGIN IMMEDIATE")
            run("UPDATE states SET state = ?, ends_ms = ? WHERE key = ?",
                (to_json(state), now_ms + STATE_S * 1000, key))  # fmt: skip
            run("INSERT INTO marks VALUES (?, ?, ?)", (key, message_id, now_ms + MARK_S * 1000))
            run("DELETE FROM locks WHERE key = ? AND token = 'me'", (key,))
            run("COMMIT")
            turns += 1
        return turns / (time.perf_counter() - started_at)
