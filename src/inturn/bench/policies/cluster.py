"""Turns per second over the three masters of a cluster, against a single server: 64 callers on 64 lanes.

All servers and the callers share this machine, so it shows what a cluster costs a caller (a way to each node, smaller
batches to each), and not what three machines can do.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import AsyncExitStack
from statistics import median

from benchmarks.figures import Figure, Rounds, ratio
from inturn.bench.place import Place
from benchmarks.plan import TASKS, Plan
from benchmarks.turns import sides
from benchmarks.turns.sides import TakeTurn
from inturn.bench.turns.state import lanes
from benchmarks.turns.uncontended import turns_per_s
from inturn.services import PrivateCluster, PrivateRedis

CLUSTER, SINGLE = "inturn, 3 masters", "inturn, one server"
SLICES = 5


async def cluster_vs_single(place: Place, plan: Plan) -> Figure:
    plan.tell("starting a cluster of three masters, and a single server")
    keys = lanes(TASKS)
    rates: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        urls = {
            CLUSTER: stack.enter_context(PrivateCluster()).url,
            SINGLE: stack.enter_context(PrivateRedis()).url,
        }
        opened: dict[str, TakeTurn] = {
            side: await stack.enter_async_context(sides.inturn(Place(url, place.prefix), keys))
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
