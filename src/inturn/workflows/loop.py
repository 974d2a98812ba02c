"""One turn of a workflow: load -> context query -> agent -> normalise -> parse -> merge -> respond.

It runs inside a turn of the conversation's lane and changes only the state that the turn holds. If anything fails
here, nothing was saved.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from inturn.agents import storable
from inturn.agents.activity import Activity, signature_of
from inturn.agents.call import activities_of, kept_memory
from inturn.agents.protocol import Agent, Ask, Said, Situation
from inturn.errors import AgentTimeout, AgentUnavailable, ArgumentError, InTurnError
from inturn.store import clock
from inturn.workflows.definition.model import WorkflowDefinition
from inturn.workflows.messages import NormalizedMessage, normalize_activities
from inturn.workflows.parse import ParsedTurn, errors_of
from inturn.workflows.response import Progress, StateView, TurnMeta, WorkflowResponse
from inturn.workflows.state import WorkflowState

log = logging.getLogger("inturn.workflows")

Parser = Callable[[Sequence[NormalizedMessage]], ParsedTurn]
ContextBuilder = Callable[[WorkflowState, str], str]
OnActivity = Callable[[Activity], None]

MAX_CONTEXT = 2000
"""Characters of the query that an agent gets, unless the user's words alone are longer."""
LEFT_OUT = "…"
_MAX_PIECE = 10_000
"""Characters of a streamed piece: it fits a chunk of the lane in any encoding."""


def ignore(activity: Activity) -> None:
    """The listener of a turn that nobody listens to."""


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """What a user sent: words, or the data of a card."""

    text: str = ""
    card: dict[str, Any] | None = None
    message_id: str | None = None
    hear: OnActivity = ignore
    """Gets the activities as they come."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts that every turn goes through."""

    agent: Agent
    parser: Parser
    context_builder: ContextBuilder
    agent_timeout_s: float

    async def run(
        self, state: WorkflowState, definition: WorkflowDefinition, given: Utterance, watched: OnActivity
    ) -> WorkflowResponse:
        """Changes `state` and returns the response."""
        started_at = clock.now()
        before = _visible(state)
        ask = self._ask(state, definition, given)
        activities = await self._answers(ask, given.hear, watched)
        messages = normalize_activities(activities, f"{state.turn_count + 1}.")
        for message in messages:
            if message.left_out:
                log.warning("conversation=%s message=%s: %s", state.conversation_id, message.id, message.left_out)
        parsed = self.parser(messages)
        collected = _merge(state, definition, given, parsed)
        _move(state, definition, given, parsed)
        state.memory = kept_memory(self.agent, ask)
        return WorkflowResponse(
            conversation_id=state.conversation_id,
            agent=storable.text(next(filter(None, map(signature_of, activities)), self.agent.name), 100),
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
                        activity = activity.model_copy(update={"text": storable.text(activity.text, _MAX_PIECE)})
                    for listener in listeners:
                        listener(activity)
        except TimeoutError as error:
            if not limit.expired():
                raise
            why = f"did not finish within {self.agent_timeout_s:g} s"
            raise AgentTimeout(self.agent.name, why) from error
        return kept

    async def _given(self, ask: Ask) -> AsyncGenerator[Activity, None]:
        """Yields what the agent yields. An error of the agent's own must not look like a fault of the request."""
        try:
            async with aclosing(activities_of(self.agent, ask)) as activities:
                async for activity in activities:
                    yield activity
        except TimeoutError as error:
            raise AgentTimeout(self.agent.name, "did not answer in time") from error
        except Exception as error:
            if isinstance(error, InTurnError) and not isinstance(error, ArgumentError):
                raise  # an `ArgumentError` here is about a call that the agent made, not about the request
            log.exception("agent %s raised an unexpected error", self.agent.name)
            raise AgentUnavailable(self.agent.name, f"failed with {type(error).__name__}") from error


def _merge(
    state: WorkflowState, definition: WorkflowDefinition, given: Utterance, parsed: ParsedTurn
) -> dict[str, Any]:
    """Collects what the user submitted by a card, and over it what the agent returned. Returns what is new.

    A value for a field of the definition must fit that field; one that does not is reported in `parsed.errors`.
    """
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
    except storable.NotStorable as error:
        wrong.append(f"the collected data would be {error}: nothing of this turn was added to it")
    parsed.errors = errors_of(parsed.errors + wrong)
    return collected


def _move(state: WorkflowState, definition: WorkflowDefinition, given: Utterance, parsed: ParsedTurn) -> None:
    state.turn_count += 1
    state.status = {"complete": "completed", "error": "error"}.get(parsed.next_action or "", "active")  # type: ignore[assignment]
    state.stand_at(definition)
    texts = [message.text for message in parsed.messages if message.kind == "text" and message.role == "assistant"]
    state.last_recommendation = storable.text(parsed.prompt or (texts[-1] if texts else ""), 1000)
    state.suggested_input_type = parsed.input_type
    state.choices = parsed.choices
    state.remember("user", given.text or "(submitted a form)")
    state.remember("assistant", "\n".join(texts))


def _visible(state: WorkflowState) -> tuple[Any, ...]:
    return state.status, state.phase, state.current_step, state.collected_data


def build_contextual_query(state: WorkflowState, text: str, max_chars: int = MAX_CONTEXT) -> str:
    """Returns what the agent is asked: a context block, a blank line, and the user's words exactly as they are.

    Nothing in it is a template. If it is too long, the oldest collected values are shortened first, then their names
    go. The user's words are never cut, so only they can make it longer than `max_chars`.
    """
    parts = {_written(name): _written(value) for name, value in state.collected_data.items()}
    room = max_chars - len(_query(state, "", text)) + 2  # the last one has no comma after it
    length = sum(_length(name, value) for name, value in parts.items())
    shorter = _written(LEFT_OUT)
    for name, value in parts.items():
        if length <= room:
            break
        if len(value) > len(shorter):
            parts[name] = shorter
            length -= len(value) - len(shorter)
    for name in list(parts):
        if length <= room:
            break
        length -= _length(name, parts.pop(name))
    return _query(state, ", ".join(f"{name}: {value}" for name, value in parts.items()), text)


def _length(name: str, value: str) -> int:
    """Includes the colon between them and the comma after them."""
    return len(name) + 2 + len(value) + 2


def _query(state: WorkflowState, collected: str, text: str) -> str:
    known = f"phase: {state.phase}\nturn: {state.turn_count + 1}\ncollected: {{{collected}}}"
    return f"[CONTEXT]\n{known}\n[/CONTEXT]\n\n{text}"


def _written(value: Any) -> str:
    # a collected value comes from the user, and must not be able to end the block
    return json.dumps(value, ensure_ascii=False).replace("[/", "[\\u002f").replace("[C", "[\\u0043")
