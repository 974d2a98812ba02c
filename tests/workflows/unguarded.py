"""The same handler without any guard: load, ask, merge, save. It loses updates, so that our tests can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

from inturn.agents.protocol import Agent, Ask
from inturn.workflows import (
    RedisWorkflowStateStore,
    WorkflowState,
    build_contextual_query,
    normalize_activities,
    parse_turn,
)
from tests.workflows.scripted import DEFINITION


class States(Protocol):
    async def get(self, conversation_id: str) -> WorkflowState | None: ...

    async def set(self, conversation_id: str, state: WorkflowState) -> None: ...


class DictStates:
    """States in the memory of the process."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}

    async def get(self, conversation_id: str) -> WorkflowState | None:
        written = self._states.get(conversation_id)
        return None if written is None else WorkflowState.model_validate_json(written)

    async def set(self, conversation_id: str, state: WorkflowState) -> None:
        self._states[conversation_id] = state.model_dump_json()


class Unguarded:
    """What `WorkflowOrchestrator.process_turn` does, over plain gets and sets."""

    def __init__(self, agent: Agent, states: States | RedisWorkflowStateStore) -> None:
        self._agent = agent
        self._states = states

    async def process_turn(self, conversation_id: str, text: str) -> dict[str, Any]:
        state = await self._states.get(conversation_id)
        assert state is not None, "it was started"
        ask = Ask(conversation_id, build_contextual_query(state, text), text)
        answers: AsyncIterator[Any] = self._agent.ask(ask)
        parsed = parse_turn(normalize_activities([activity async for activity in answers]))
        state.collect(parsed.data)
        state.turn_count += 1
        state.stand_at(DEFINITION)
        await self._states.set(conversation_id, state)
        return state.collected_data
