"""Turns in lanes that nobody else wants: round trips, throughput of 64 callers on 64 lanes, latency of one caller; the
same throughput on SQLite, and over the three masters of a cluster.

Within a round the sides take turns in short slices, so that a disturbance of the machine disturbs all of them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from itertools import count
from pathlib import Path
from statistics import median

from pydantic_core import from_json, to_json

from benchmarks.figures import Figure, Rounds, median_ratio, ratio, rounded
from benchmarks.machine import ServerCounts
from benchmarks.plan import TASKS, Plan, Target
from benchmarks.turns import sides
from benchmarks.turns.sides import LOCK_S, MARK_S, STATE_S, OpenSide, TakeTurn, lanes, some_state
from tests.servers import PrivateCluster, PrivateRedis

OURS, RECIPE, POOL = "inturn", "recipe", "plain pool"
WITH_SEND, TO_IDLE = "inturn, one send", "inturn, to idle lane"
SIDES: dict[str, OpenSide] = {OURS: sides.inturn, RECIPE: sides.recipe, POOL: sides.plain_pool}
SENDING: dict[str, OpenSide] = {WITH_SEND: sides.inturn_with_send, TO_IDLE: sides.inturn_with_send_to_idle_lane}
SLICES = 5
WINDOWS, TURNS = 9, 200

_ids = count()
BARE, ALONE = "bare loop", "inturn, one caller"
SCHEMA = """\
CREATE TABLE IF NOT EXISTS locks (key TEXT PRIMARY KEY, token TEXT, ends_ms INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (key TEXT PRIMARY KEY, state BLOB, ends_ms INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (key TEXT, id TEXT, ends_ms INTEGER, PRIMARY KEY (key, id)) WITHOUT ROWID;
"""
CLUSTER, SINGLE = "inturn, 3 masters", "inturn, one server"


def new_id() -> str:
    return f"m{next(_ids)}"


async def round_trips(target: Target, counts: ServerCounts, plan: Plan) -> Figure:
    """What the server read from sockets: for a lone caller these are its round trips.

    Windows are much shorter than the time between two heartbeats, so the median of them has none in it.
    """
    plan.tell("round trips")
    trips: Rounds = defaultdict(list)
    scripts = []
    turns = max(20, plan.size(TURNS))
    for side, open_side in SIDES.items():
        async with open_side(target, lanes(1)) as take_turn:
            await take_turn("lane:0", new_id())
            for _ in range(WINDOWS):
                before = counts.now()
                for _ in range(turns):
                    await take_turn("lane:0", new_id())
                counted = counts.since(before)
                trips[side].append(counted.reads / turns)
                if side == OURS:
                    scripts.append(counted.scripts / turns)
    more = {"windows": WINDOWS, "turns_in_each": turns, "scripts_per_turn": median(scripts)}
    return Figure("round_trips_per_turn", median(trips[OURS]), "reads of the server", dict(trips), more)


async def throughput(target: Target, plan: Plan) -> tuple[Figure, Figure, Figure]:
    """Returns all three figures, from the same rounds."""
    rates: Rounds = defaultdict(list)
    keys = lanes(TASKS)
    async with AsyncExitStack() as stack:
        opened = {
            side: await stack.enter_async_context(open_side(target, keys))
            for side, open_side in {**SIDES, **SENDING}.items()
        }
        for take_turn in opened.values():
            await turns_per_s(take_turn, keys, 0.05)
        for number in range(plan.rounds):
            plan.tell(f"throughput: {TASKS} callers on {TASKS} lanes, round {number + 1} of {plan.rounds}")
            slices: Rounds = defaultdict(list)
            for _ in range(SLICES):
                for side, take_turn in opened.items():
                    slices[side].append(await turns_per_s(take_turn, keys, plan.seconds(0.25)))
            for side, values in slices.items():
                rates[side].append(median(values))
    unit = "turns per second"
    with_send = {side: rates[side] for side in (WITH_SEND, TO_IDLE, RECIPE)}
    figures = (
        ratio("throughput_vs_recipe", unit, {side: rates[side] for side in SIDES}, OURS, RECIPE),
        ratio("throughput_vs_plain_pool", unit, {side: rates[side] for side in (OURS, POOL)}, OURS, POOL),
        ratio("throughput_with_send_vs_recipe", unit, with_send, WITH_SEND, RECIPE),
    )
    figures[-1].reported["to_idle_lane"] = rounded(median_ratio(rates[TO_IDLE], rates[RECIPE]))
    return figures


async def turns_per_s(take_turn: TakeTurn, keys: Sequence[str], seconds: float) -> float:
    """Every lane has a caller that takes turns in it, one after the other."""

    async def work(key: str) -> int:
        done = 0
        while time.perf_counter() < ends_at:
            await take_turn(key, new_id())
            done += 1
        return done

    started_at = time.perf_counter()
    ends_at = started_at + seconds
    done = sum(await asyncio.gather(*map(work, keys)))
    return done / (time.perf_counter() - started_at)


async def latency(target: Target, plan: Plan) -> Figure:
    plan.tell("latency: one caller")
    micros: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        opened = {side: await stack.enter_async_context(open_(target, lanes(1))) for side, open_ in SIDES.items()}
        for _ in range(plan.rounds):
            taken: Rounds = defaultdict(list)
            for _ in range(SLICES * 2):
                for side, take_turn in opened.items():
                    taken[side] += await timed(take_turn, lanes(1), plan.seconds(0.1))
            for side, values in taken.items():
                micros[side].append(median(values) * 1e6)
    return ratio("latency_vs_recipe", "µs for a turn", dict(micros), OURS, RECIPE)


async def timed(take_turn: TakeTurn, keys: Sequence[str], seconds: float) -> list[float]:
    """One caller, which goes through these lanes and takes a turn in each, until the time is over."""
    taken: list[float] = []
    ends_at = time.perf_counter() + seconds
    while True:
        for key in keys:
            message_id = new_id()
            began_at = time.perf_counter()
            if began_at >= ends_at and taken:
                return taken
            await take_turn(key, message_id)
            taken.append(time.perf_counter() - began_at)


async def embedded(plan: Plan) -> Figure:
    """Our turn on SQLite against the least that could be called one."""
    rates: Rounds = {OURS: [], ALONE: [], BARE: []}
    keys = lanes(TASKS)
    with tempfile.TemporaryDirectory(prefix="inturn-bench-") as folder:
        bare = str(Path(folder, "bare.db"))
        target = Target(f"sqlite:///{Path(folder, 'inturn.db')}", "inturn")
        async with sides.inturn(target, keys) as take_turn:
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
    """Returns the rate of two bare transactions in a loop, with our pragmas.

    The loop has no mailbox, no fence, no renewal and no second caller. It shows what the disk allows.
    """
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


async def cluster_vs_single(target: Target, plan: Plan) -> Figure:
    """Three masters of a cluster against a single server.

    All servers and the callers share this machine. So it shows what a cluster costs a caller (a connection to each
    node, smaller batches to each), and not what three machines can do.
    """
    plan.tell("starting a cluster of three masters, and a single server")
    keys = lanes(TASKS)
    rates: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        urls = {
            CLUSTER: stack.enter_context(PrivateCluster()).url,
            SINGLE: stack.enter_context(PrivateRedis()).url,
        }
        opened: dict[str, TakeTurn] = {
            side: await stack.enter_async_context(sides.inturn(Target(url, target.prefix), keys))
            for side, url in urls.items()
        }
        for take_turn in opened.values():
            await turns_per_s(take_turn, keys, 0.05)
        for number in range(plan.rounds):
            plan.tell(f"cluster: {TASKS} callers on {TASKS} lanes, round {number + 1} of {plan.rounds}")
            slices: Rounds = defaultdict(list)
            for _ in range(SLICES):
                for side, take_turn in opened.items():
                    slices[side].append(await turns_per_s(take_turn, keys, plan.seconds(0.25)))
            for side, values in slices.items():
                rates[side].append(median(values))
    return ratio("cluster_vs_single", "turns per second", dict(rates), CLUSTER, SINGLE)
