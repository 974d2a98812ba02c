"""What the orchestrator adds to the answer of an agent: one caller, who goes from turn to turn of a conversation.

Both sides run the same loop around the same agent. Within a round they take turns in short slices.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from inturn.app import InTurn
from inturn.bench.conversations.instant import DEFINITION, InstantAgent
from inturn.bench.conversations.unguarded import Unguarded
from benchmarks.figures import Figure, Rounds, rounded
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.workflows.orchestrator import WorkflowOrchestrator

REDIS, SQLITE, BARE = "inturn, Redis", "inturn, SQLite", "no guard"
SLICES = 8
TURNS = 50

TakeTurn = Callable[[str], Awaitable[object]]
_ids = count()


async def overhead(place: Place, plan: Plan) -> Figure:
    plan.tell("what the orchestrator adds to an answer")
    millis: Rounds = defaultdict(list)
    added: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        opened = {
            REDIS: await stack.enter_async_context(_guarded(place.url, f"{place.prefix}-talk")),
            SQLITE: await stack.enter_async_context(_guarded(f"sqlite:///{folder / 'bench.db'}", "talk")),
            BARE: _unguarded(),
        }
        for take_turn in opened.values():
            await _timed(take_turn, 5)
        for _ in range(plan.rounds):
            taken: Rounds = defaultdict(list)
            for _ in range(SLICES):
                for side, take_turn in opened.items():
                    taken[side] += await _timed(take_turn, plan.count(TURNS))
            bare_ms = median(taken[BARE])
            for side, values in taken.items():
                millis[side].append(median(values))
                added[side] += [value - bare_ms for value in values]
    value = {"median": rounded(median(added[REDIS])), "p99": rounded(quantiles(added[REDIS], n=100)[98])}
    more = {"sqlite": {"median": rounded(median(added[SQLITE])), "p99": rounded(quantiles(added[SQLITE], n=100)[98])}}
    return Figure("overhead_ms", value, "ms added to a turn", dict(millis), more)


async def _timed(take_turn: TakeTurn, turns: int) -> list[float]:
    taken = []
    for _ in range(turns):
        text = f"message {next(_ids)}"
        began_at = time.perf_counter()
        await take_turn(text)
        taken.append((time.perf_counter() - began_at) * 1000)
    return taken


@asynccontextmanager
async def _guarded(url: str, namespace: str) -> AsyncIterator[TakeTurn]:
    async with InTurn(url, namespace=namespace) as app:
        orchestrator = WorkflowOrchestrator(app, InstantAgent(), DEFINITION)
        started = await orchestrator.start_session("bench", "bench")

        async def take_turn(text: str) -> object:
            return await orchestrator.process_turn(started.conversation_id, text, text)

        yield take_turn


def _unguarded() -> TakeTurn:
    unguarded = Unguarded()
    name = unguarded.start()

    async def take_turn(text: str) -> object:
        return await unguarded.process_turn(name, text, text)

    return take_turn
