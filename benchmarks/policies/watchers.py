"""Turns with a hundred watchers: how many chunks reach them all, and what a turn takes longer because of them.

Turns and server have one half of the CPUs, the watchers the other: real ones have a machine of their own.
"""

from __future__ import annotations

import asyncio
import random
import time
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from inturn.app import InTurn
from benchmarks.figures import Figure, Rounds, median_ratio, ratio, rounded
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.policies.audience import HOLD, LANE, WATCHERS, namespace
from inturn.bench.policies.cpus import in_first_half
from inturn.bench.policies.taken import seconds_of_a_turn
from inturn.bench.processes import line_of, started
from inturn.bench.turns.state import some_state
from inturn.lanes.turn import Turn
from inturn.services import PrivateRedis

CHUNK = {"text": " order"}
BATCH = 200
"""Chunks between two looks at how far the watchers are; they are never more than two batches behind."""
CHUNKS = 5
"""In each turn of the second figure."""
TURNS = 200
"""Of each side, in a round."""
WARM_TURNS = 3
QUIET_LANE, THIRD_LANE = "lane:unwatched", "lane:third"
WITH, WITHOUT, READING = f"inturn, {WATCHERS} watchers", "inturn, no watcher", "inturn, while reading"
LANES = {WITH: LANE, WITHOUT: QUIET_LANE, READING: LANE}


async def watched(place: Place, plan: Plan) -> tuple[Figure, Figure]:
    """Both figures, before the same watchers."""
    with in_first_half(), PrivateRedis() as server:
        place = Place(server.url, place.prefix)
        async with (
            started("inturn.bench.policies.audience", place, 1) as (process,),
            InTurn(place.url, namespace=namespace(place.prefix)) as app,
        ):
            _register(app)
            audience = Listeners(process)
            return await _chunks_per_s(app, audience, plan), await _slowdown(app, audience, plan)


class Listeners:
    """The other process, as seen from here."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._streamed = 0
        self._asked = 0

    def add(self, chunks: int) -> None:
        """So many more are streamed: say when all have heard them."""
        self._streamed += chunks
        self._asked += 1
        self._say(str(self._streamed))

    async def heard(self, but: int = 0) -> None:
        """Every watcher has heard all that was streamed; all but what was added last, if they may be behind."""
        while self._asked > but:
            await line_of(self._process)
            self._asked -= 1

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """They have heard all that was before, and hear nothing meanwhile."""
        await self.heard()
        self._say(HOLD)
        await line_of(self._process)
        try:
            yield
        finally:
            self._say("go on")

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """They have heard all that was before, and go on."""
        await self.heard()
        yield

    def _say(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(order.encode() + b"\n")


async def _chunks_per_s(app: InTurn, audience: Listeners, plan: Plan) -> Figure:
    """One turn streams, as fast as its watchers follow. Counted are chunks that have reached every one of them."""
    rates: list[float] = []
    async with app.turn(LANE) as turn:
        for number in range(plan.rounds):
            plan.tell(f"chunks for {WATCHERS} watchers, round {number + 1} of {plan.rounds}")
            chunks, began_at = 0, time.perf_counter()
            while time.perf_counter() - began_at < plan.seconds(2.0):
                audience.add(BATCH)
                for _ in range(BATCH):
                    turn.stream(CHUNK)
                    await asyncio.sleep(0)
                chunks += BATCH
                await audience.heard(but=1)
            await audience.heard()
            rates.append(chunks / (time.perf_counter() - began_at))
    value = rounded(median(rates))
    unit = f"chunks per second that reach all {WATCHERS} watchers of one lane"
    more = {"watchers": WATCHERS, "watching_processes": 1}
    return Figure("stream_chunks_per_s", value, unit, {"inturn": rates}, more, {"deliveries_per_s": value * WATCHERS})


async def _slowdown(app: InTurn, audience: Listeners, plan: Plan) -> Figure:
    """A worker's turn of a lane that all of them watch, against one of a lane that nobody does; each streams chunks.

    What a turn does for its watchers is asked, and not what it suffers when they work on the same machine. So they are
    subscribed, and the server sends them everything at once, but they read it when the turn is over: all of it, or
    there is no figure. `while_they_read` is the same with watchers that read meanwhile, and use up a CPU for it.
    """
    micros: Rounds = defaultdict(list)
    for number in range(plan.rounds + 1):
        taken: dict[str, list[float]] = {side: [] for side in LANES}
        if number:
            plan.tell(f"turns with and without watchers, round {number} of {plan.rounds}")
        for _ in range(plan.count(TURNS) if number else 2):
            for side in random.sample(sorted(LANES), len(LANES)):
                async with audience.reading() if side == READING else audience.held():
                    for _ in range(WARM_TURNS):  # or the machine would have to wake up first
                        await _turn(app, THIRD_LANE)
                    taken[side].append(await _turn(app, LANES[side]))
                if LANES[side] == LANE:
                    audience.add(CHUNKS)
        await audience.heard()
        if number:  # before the first round all is run twice, to warm it up
            for side, values in taken.items():
                micros[side].append(median(values) * 1e6)
    more = {"chunks_in_a_turn": CHUNKS, "turns_in_a_round": plan.count(TURNS)}
    sides = {side: micros[side] for side in (WITH, WITHOUT)}
    unit = "µs from asking for a turn to its commit"
    figure = ratio("turn_slowdown_with_watchers", unit, sides, WITH, WITHOUT, **more)
    figure.reported["while_they_read"] = rounded(median_ratio(micros[READING], micros[WITHOUT]))
    return figure


async def _turn(app: InTurn, lane: str) -> float:
    await app.submit("talk", "Where is my order?", key=lane)
    return await seconds_of_a_turn(app, "talk")


def _register(app: InTurn) -> None:
    @app.handler("talk", state=dict, initial=some_state)
    async def talk(turn: Turn[dict[str, Any]]) -> None:
        turn.state["n"] += 1
        for _ in range(CHUNKS):
            turn.stream(CHUNK)
