"""One turn of a workflow: load -> context query -> agent -> normalise -> parse -> merge -> respond.

It runs inside a turn of the conversation's lane, and only changes the state that the turn holds: whatever fails here,
nothing was saved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.protocol import Agent, Ask, Said, Situation
from inturn.agents.signature import signature_of
from inturn.agents import storable as clean
from inturn.conversations.asking import activities_of, kept_memory
from inturn.workflows.messages import NormalizedMessage, normalize_activities
from inturn.workflows.parse import ParsedTurn, errors_of
from inturn.workflows.response import Progress, StateView, TurnMeta, WorkflowResponse
from inturn.conversations.state import WorkflowState
from inturn.errors import AgentTimeout, AgentUnavailable, InTurnError
from inturn.store import clock
from inturn.workflows.definition.model import WorkflowDefinition

log = logging.getLogger("inturn.conversations")

Parser = Callable[[Sequence[NormalizedMessage]], ParsedTurn]
ContextBuilder = Callable[[WorkflowState, str], str]
OnActivity = Callable[[Activity], None]

_MAX_PIECE = 10_000
"""Characters; a chunk must hold them however they are written."""


def nobody(activity: Activity) -> None:
    """Where nobody listens while the agent answers."""


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """What a user gave: words, or the data of a card."""

    text: str = ""
    card: dict[str, Any] | None = None
    message_id: str | None = None
    hear: OnActivity = nobody
    """Gets the activities while they come."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts that each turn goes through."""

    agent: Agent
    parser: Parser
    context_builder: ContextBuilder
    agent_timeout_s: float

    async def run(
        self, state: WorkflowState, definition: WorkflowDefinition, given: Utterance, watched: OnActivity
    ) -> WorkflowResponse:
        """Changes `state`, and answers what to respond."""
        started_at = clock.now()
        before = _visible(state)
        ask = self._ask(state, definition, given)
        activities = await self._answers(ask, given.hear, watched)
        messages = normalize_activities(activities, f"{state.turn_count + 1}.")
        parsed = self.parser(messages)
        collected = _merge(state, definition, given, parsed)
        _move(state, definition, given, parsed, ask, self.agent)
        return WorkflowResponse(
            conversation_id=state.conversation_id,
            agent=clean.text(next(filter(None, map(signature_of, activities)), self.agent.name), 100),
            messages=parsed.messages,
            parsed_turn=parsed,
            workflow_state=StateView.of(state, definition),
            progress=Progress.of(state, definition),
            turn_meta=TurnMeta(
                turn_number=state.turn_count,
                state_changed=_visible(state) != before,
                collected_this_turn=collected,
            ),
            latency_ms=round((clock.now() - started_at) * 1000, 3),
        )

    def _ask(self, state: WorkflowState, definition: WorkflowDefinition, given: Utterance) -> Ask:
        return Ask(
            conversation_id=state.conversation_id,
            query=self.context_builder(state, given.text) if given.card is None else "",
            text=given.text,
            card=given.card,
            history=tuple(Said(line.role, line.text) for line in state.history),
            situation=Situation(definition, state.current_step, state.phase, dict(state.collected_data)),
            memory=dict(state.memory),
        )

    async def _answers(self, ask: Ask, *listeners: OnActivity) -> list[Activity]:
        kept: list[Activity] = []
        try:
            async with asyncio.timeout(self.agent_timeout_s) as limit, aclosing(self._given(ask)) as activities:
                async for activity in activities:
                    if activity.type == "message":
                        kept.append(activity)
                    else:
                        activity = activity.model_copy(update={"text": clean.text(activity.text, _MAX_PIECE)})
                    for listener in listeners:
                        listener(activity)
        except TimeoutError as error:
            if not limit.expired():
                raise
            why = f"did not finish within {self.agent_timeout_s:g} s"
            raise AgentTimeout(self.agent.name, why) from error
        return kept

    async def _given(self, ask: Ask) -> AsyncGenerator[Activity, None]:
        """What the agent yields. Whatever else it raises must not be taken for a fault of the request."""
        try:
            async with aclosing(activities_of(self.agent, ask)) as activities:
                async for activity in activities:
                    yield activity
        except InTurnError:
            raise
        except TimeoutError as error:
            raise AgentTimeout(self.agent.name, "did not answer in time") from error
        except Exception as error:
            log.exception("agent %s failed in a way of its own", self.agent.name)
            raise AgentUnavailable(self.agent.name, f"failed with {type(error).__name__}") from error


def _merge(
    state: WorkflowState, definition: WorkflowDefinition, given: Utterance, parsed: ParsedTurn
) -> dict[str, Any]:
    """What the user submitted by a card, and over it what the agent made of it; known fields must fit."""
    filled_in = {name: value for name, value in (given.card or {}).items() if value != ""}
    submitted = [(name, value) for name, value in filled_in.items() if name in definition.by_name]
    accepted: dict[str, Any] = {}
    wrong: list[str] = []
    for name, value in [*submitted, *parsed.data.items()]:
        field = definition.by_name.get(name)
        if field is not None and value is None:  # not known yet
            continue
        try:
            accepted[name] = value if field is None else field.check(value)
        except ValueError as error:
            wrong.append(f"{name}: {error}")
    collected: dict[str, Any] = {}
    try:
        collected = state.collect(accepted)
    except clean.NotPlain as error:
        wrong.append(f"the collected data would be {error}: nothing of this turn was added to it")
    parsed.errors = errors_of(parsed.errors + wrong)
    return collected


def _move(
    state: WorkflowState, definition: WorkflowDefinition, given: Utterance, parsed: ParsedTurn, ask: Ask, agent: Agent
) -> None:
    state.turn_count += 1
    state.status = {"complete": "completed", "error": "error"}.get(parsed.next_action or "", "active")  # type: ignore[assignment]
    state.stand_at(definition)
    state.memory = kept_memory(agent, ask)
    texts = [message.text for message in parsed.messages if message.kind == "text" and message.role == "assistant"]
    state.last_recommendation = clean.text(parsed.prompt or (texts[-1] if texts else ""), 1000)
    state.suggested_input_type = parsed.input_type
    state.choices = parsed.choices
    state.remember("user", given.text or "(submitted a form)")
    state.remember("assistant", "\n".join(texts))


def _visible(state: WorkflowState) -> tuple[Any, ...]:
    return state.status, state.phase, state.current_step, state.collected_data
