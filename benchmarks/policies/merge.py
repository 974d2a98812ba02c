"""What a burst of 20 messages costs a worker, against one message: the time of a turn whose handler does nothing.

It begins when the worker asks for a turn, and ends when the commit is answered; the lane is idle before and after. What
each message costs before that, its submit, is no part of it. Beside it stands the same for turns back to back, when
more waits than a burst holds: each commit gives the next turn then, so there is no asking that both sides share.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from benchmarks.figures import Figure, Rounds, median_ratio, ratio, rounded
from benchmarks.plan import Plan, Target
from benchmarks.turns.sides import some_state
from benchmarks.turns.workers import Mailbox, seconds_of_a_turn, working
from inturn.app import InTurn
from inturn.errors import InTurnError
from inturn.lanes.turn import Turn

BURST = 20
TURNS = 10
"""In a slice. The sides take slices in turn."""
SLICES = 24
PAUSE_S = 0.005
"""After the submits. One side makes twenty times as many, and the system delays processes that have used much CPU."""
SIDES = {"merge": f"inturn, burst of {BURST}", "queue": "inturn, one message"}
SIZES = {"merge": BURST, "queue": 1}

TimedSlice = Callable[[str], Awaitable[float]]
"""Seconds for each turn of a slice, by handler."""


async def merge_overhead(target: Target, plan: Plan) -> Figure:
    plan.tell(f"bursts of {BURST} messages")
    async with _from_idle(target) as timed:
        micros = await _rounds(timed, plan)
    async with _back_to_back(target) as timed:
        beside = await _rounds(timed, plan)
    above, below = SIDES["merge"], SIDES["queue"]
    figure = ratio("merge_overhead_vs_queue", "µs from asking for a turn to its commit", micros, above, below)
    figure.reported["back_to_back"] = rounded(median_ratio(beside[above], beside[below]))
    return figure


async def _rounds(timed: TimedSlice, plan: Plan) -> Rounds:
    micros: Rounds = defaultdict(list)
    for handler in SIDES:
        await timed(handler)
    for _ in range(plan.rounds):
        taken: Rounds = defaultdict(list)
        for _ in range(plan.count(SLICES)):
            for handler, side in SIDES.items():
                taken[side].append(await timed(handler) * 1e6)
        for side, values in taken.items():
            micros[side].append(median(values))
    return dict(micros)


@asynccontextmanager
async def _from_idle(target: Target) -> AsyncIterator[TimedSlice]:
    app = InTurn(target.url, namespace=f"{target.prefix}-merge")
    sizes: list[int] = []

    async def note(turn: Turn[dict[str, Any]]) -> None:
        turn.state["n"] += 1
        sizes.append(len(turn.messages))

    _register(app, note)

    async def timed(handler: str) -> float:
        sizes.clear()
        bodies = range(SIZES[handler])
        for lane in range(TURNS):
            await asyncio.gather(*(app.submit(handler, body, key=f"lane:{handler}:{lane}") for body in bodies))
        await asyncio.sleep(PAUSE_S)
        taken = [await seconds_of_a_turn(app, handler) for _ in range(TURNS)]
        _must_be(sizes, [SIZES[handler]] * TURNS)
        return median(taken)

    async with app:
        yield timed


@asynccontextmanager
async def _back_to_back(target: Target) -> AsyncIterator[TimedSlice]:
    """From gate to gate: the commit, which gives the next turn, and its handler begins."""
    app = InTurn(target.url, namespace=f"{target.prefix}-bursts")
    lanes = {handler: Mailbox(app, f"lane:{handler}", handler) for handler in SIDES}
    sizes: list[int] = []

    async def pass_gate(turn: Turn[dict[str, Any]]) -> None:
        turn.state["n"] += 1
        sizes.append(len(turn.messages))
        await lanes[turn.handler].pass_gate()

    _register(app, pass_gate)

    async def timed(handler: str) -> float:
        await lanes[handler].put(TURNS * SIZES[handler])
        sizes.clear()
        taken = await lanes[handler].let_through(TURNS)
        _must_be(sizes, [SIZES[handler]] * TURNS)
        return taken

    async with app, working(app, len(lanes)):
        for lane in lanes.values():
            await lane.put(1)
            await lane.has_begun(1)
        yield timed


def _register(app: InTurn, run: Callable[[Turn[dict[str, Any]]], Awaitable[None]]) -> None:
    app.handler("merge", busy="merge", max_burst=BURST, state=dict, initial=some_state)(run)
    app.handler("queue", state=dict, initial=some_state)(run)


def _must_be(sizes: list[int], asked: list[int]) -> None:
    if sizes != asked:
        raise InTurnError(f"turns of {sizes} messages instead of {asked}: so there is no figure")
