"""Turns with a hundred watchers: how many chunks reach them all, and how much longer a turn takes because of them.

The watchers are in another process (this module), as in a web server that serves browsers. Turns and server have one
half of the CPUs, the watchers the other: real ones have a machine of their own. The process gets orders on stdin and
answers each by a line. A number: when every watcher has heard so many chunks. `hold`: at once, and then nobody hears
anything before the next line. A watcher that missed something ends the process, and so do the end of stdin and SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from benchmarks.figures import Figure, Rounds, median_ratio, ratio, rounded
from benchmarks.plan import Plan, Target
from benchmarks.processes import in_first_half, line_of, move_to_second_half, started
from benchmarks.turns.sides import some_state
from benchmarks.turns.workers import seconds_of_a_turn
from inturn.app import InTurn
from inturn.errors import InTurnError
from inturn.lanes.turn import Turn
from inturn.lanes.watch import Watch
from tests.servers import PrivateRedis

WATCHERS = 100
LANE = "lane:watched"
HOLD = "hold"
CHUNK = {"text": " order"}
BATCH = 200
"""Chunks between two checks of how far the watchers are; they are never more than two batches behind."""
CHUNKS = 5
"""Chunks in each turn of the second figure."""
TURNS = 200
"""Turns of each side, in a round."""
WARM_TURNS = 3
QUIET_LANE, THIRD_LANE = "lane:unwatched", "lane:third"
WITH, WITHOUT, READING = f"inturn, {WATCHERS} watchers", "inturn, no watcher", "inturn, while reading"
LANES = {WITH: LANE, WITHOUT: QUIET_LANE, READING: LANE}


def namespace(prefix: str) -> str:
    return f"{prefix}-watch"


class Audience:
    """The watchers, inside the other process."""

    def __init__(self) -> None:
        self._heard = [0] * WATCHERS
        self._goal = 0
        self._behind = WATCHERS
        """How many have not reached the goal."""
        self._reached = asyncio.Event()

    async def watch(self, number: int, events: Watch) -> None:
        async for event in events:
            if event.what == "chunk":
                self._heard[number] += 1
                if self._heard[number] == self._goal:
                    self._behind -= 1
                    if not self._behind:
                        self._reached.set()
            elif event.what == "missed":
                raise InTurnError(f"watcher {number} missed something after {self._heard[number]} chunks")

    async def have_heard(self, goal: int) -> None:
        self._goal, self._behind = goal, sum(heard < goal for heard in self._heard)
        self._reached.clear()
        if self._behind:
            await self._reached.wait()


async def main(url: str, prefix: str) -> None:
    move_to_second_half()
    audience = Audience()
    async with InTurn(url, namespace=namespace(prefix)) as app:
        watches = [app.watch(LANE) for _ in range(WATCHERS)]
        for watch in watches:
            await watch.open()
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(audience.watch(*numbered)) for numbered in enumerate(watches)]
            print("ready", flush=True)
            while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
                if order != HOLD:
                    await audience.have_heard(int(order))
                print(order, flush=True)
                if order == HOLD:
                    sys.stdin.readline()  # the loop stands still until it is told to go on
            for task in watching:
                task.cancel()


async def watched(target: Target, plan: Plan) -> tuple[Figure, Figure]:
    """Returns both figures, measured with the same watchers."""
    with in_first_half(), PrivateRedis() as server:
        target = Target(server.url, target.prefix)
        async with (
            started("benchmarks.policies.watchers", target, 1) as (process,),
            InTurn(target.url, namespace=namespace(target.prefix)) as app,
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


if __name__ == "__main__":
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    asyncio.run(main(sys.argv[1], sys.argv[2]))
