"""Whether a turn takes longer when there are very many idle lanes: two servers, one with few and one with many of them.

A caller takes turns in random lanes, now on the one server and now on the other.
"""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import AsyncExitStack
from statistics import median

from benchmarks.figures import Figure, Rounds, ratio
from inturn.bench.place import Place
from benchmarks.plan import ALL_LANES, FEW_LANES, MANY_LANES, Plan
from inturn.bench.turns import idle, sides
from benchmarks.turns.sides import TakeTurn
from benchmarks.turns.uncontended import timed
from inturn.services import PrivateRedis

SLICES = 10
KEYS_IN_SLICE = 1000


async def growth_lanes(plan: Plan) -> Figure:
    few, many = plan.size(FEW_LANES), plan.size(ALL_LANES if plan.is_full else MANY_LANES)
    micros: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        opened: dict[int, TakeTurn] = {}
        for lanes in (many, few):
            plan.tell(f"a server with {lanes:,} idle lanes")
            place = Place(stack.enter_context(PrivateRedis()).url, idle.NAMESPACE)
            await idle.fill(place.url, lanes)
            opened[lanes] = await stack.enter_async_context(sides.inturn(place, ()))
        for _ in range(plan.rounds):
            taken: dict[int, list[float]] = defaultdict(list)
            for _ in range(SLICES):
                for lanes, take_turn in opened.items():
                    keys = [f"lane:{random.randrange(lanes)}" for _ in range(KEYS_IN_SLICE)]
                    taken[lanes] += await timed(take_turn, keys, plan.seconds(0.1))
            for lanes, values in taken.items():
                micros[_side(lanes)].append(median(values) * 1e6)
    return ratio("growth_lanes", "µs for a turn", dict(micros), _side(many), _side(few))


def _side(lanes: int) -> str:
    return f"inturn, {lanes:,}"
