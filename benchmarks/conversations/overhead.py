"""What the orchestrator adds to the answer of an agent: one caller, who goes from turn to turn of a conversation.

Both sides run the same loop around the same agent, which answers at once, in a workflow without end. The other side
keeps its states in a dict, with no guard and no durability. Within a round the sides take turns in short slices.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from secrets import token_hex
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Rounds, rounded
from benchmarks.plan import Plan, Target
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.app import InTurn
from inturn.workflows.definition.model import FieldDefinition, StepDefinition, WorkflowDefinition
from inturn.workflows.loop import Loop, OnActivity, Utterance, build_contextual_query, ignore
from inturn.workflows.orchestrator import WorkflowOrchestrator
from inturn.workflows.parse import parse_turn
from inturn.workflows.response import WorkflowResponse
from inturn.workflows.state import Owner, WorkflowState

DEFINITION = WorkflowDefinition(
    id="bench",
    title="A workflow that never ends",
    steps=(
        StepDefinition(
            id="talk",
            title="Talk",
            prompt="Say something.",
            fields=(FieldDefinition(name="last"), FieldDefinition(name="never")),
        ),
    ),
)
REDIS, SQLITE, BARE = "inturn, Redis", "inturn, SQLite", "no guard"
SLICES = 8
TURNS = 50
TakeTurn = Callable[[str], Awaitable[object]]
_ids = count()


class InstantAgent:
    """Answers at once, so that what is left of a turn is what is measured."""

    name = "instant"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        yield Activity.said(f"You said: {ask.text}", value={"data": {"last": ask.text}, "nextAction": "ask"})

    async def aclose(self) -> None:
        """There is nothing to close."""


class Unguarded:
    """The same loop without inturn: as much of an orchestrator as a turn needs, over states in a dict."""

    def __init__(self) -> None:
        self._loop = Loop(InstantAgent(), parse_turn, build_contextual_query, 60.0)
        self._states: dict[str, WorkflowState] = {}

    def start(self) -> str:
        name = token_hex(16)
        owner = Owner(user_id="bench", tenant_id="bench")
        self._states[name] = WorkflowState(conversation_id=name, definition=DEFINITION.id, owner=owner)
        return name

    async def process_turn(
        self,
        conversation_id: str,
        text: str,
        message_id: str | None = None,
        *,
        owner: Owner | None = None,
        on_activity: OnActivity | None = None,
    ) -> WorkflowResponse:
        state = self._states[conversation_id].model_copy(deep=True)
        said = Utterance(text, None, message_id, on_activity or ignore)
        response = await self._loop.run(state, DEFINITION, said, ignore)
        self._states[conversation_id] = state
        return response


async def overhead(target: Target, plan: Plan) -> Figure:
    plan.tell("what the orchestrator adds to an answer")
    millis: Rounds = defaultdict(list)
    added: Rounds = defaultdict(list)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        opened = {
            REDIS: await stack.enter_async_context(_guarded(target.url, f"{target.prefix}-talk")),
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
