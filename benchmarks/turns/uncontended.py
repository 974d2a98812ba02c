"""Nobody else wants the lane: round trips, throughput of 64 callers on 64 lanes, and the latency of one caller.

Within a round the sides take turns in short slices, so that whatever disturbs the machine disturbs all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count
from statistics import median

from benchmarks.figures import Figure, Rounds, median_ratio, ratio, rounded
from inturn.bench.place import Place
from benchmarks.plan import TASKS, Plan
from inturn.bench.server import ServerCounts
from benchmarks.turns import sides
from benchmarks.turns.sides import OpenSide, TakeTurn
from inturn.bench.turns.state import lanes

OURS, RECIPE, POOL = "inturn", "recipe", "plain pool"
WITH_SEND, TO_IDLE = "inturn, one send", "inturn, to idle lane"
SIDES: dict[str, OpenSide] = {OURS: sides.inturn, RECIPE: sides.recipe, POOL: sides.plain_pool}
SENDING: dict[str, OpenSide] = {WITH_SEND: sides.inturn_with_send, TO_IDLE: sides.inturn_with_send_to_idle_lane}
SLICES = 5
WINDOWS, TURNS = 9, 200

_ids = count()


def new_id() -> str:
    return f"m{next(_ids)}"


async def round_trips(place: Place, counts: ServerCounts, plan: Plan) -> Figure:
    """What the server read from sockets: for a lone caller these are its round trips.

    Windows are much shorter than the time between two heartbeats, so the median of them has none in it.
    """
    plan.tell("round trips")
    trips: Rounds = defaultdict(list)
    scripts = []
    turns = max(20, plan.size(TURNS))
    for side, open_side in SIDES.items():
        async with open_side(place, lanes(1)) as take_turn:
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


async def throughput(place: Place, plan: Plan) -> tuple[Figure, Figure, Figure]:
    """All three figures, from the same rounds."""
    rates: Rounds = defaultdict(list)
    keys = lanes(TASKS)
    async with AsyncExitStack() as stack:
        opened = {
            side: await stack.enter_async_context(open_side(place, keys))
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


async def latency(place: Place, plan: Plan) -> Figure:
    plan.tell("latency: one caller")
    micros: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        opened = {side: await stack.enter_async_context(open_(place, lanes(1))) for side, open_ in SIDES.items()}
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
