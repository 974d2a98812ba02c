"""The same without inturn: the same loop over states in a dict of this process, with no guard and no durability."""

from __future__ import annotations

from secrets import token_hex

from inturn.bench.conversations.instant import DEFINITION, InstantAgent
from inturn.conversations.context import build_contextual_query
from inturn.workflows.loop import Loop, OnActivity, Utterance, nobody
from inturn.workflows.parse import parse_turn
from inturn.workflows.response import WorkflowResponse
from inturn.conversations.state import Owner, WorkflowState


class Unguarded:
    """As much of an orchestrator as a turn needs."""

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
        said = Utterance(text, None, message_id, on_activity or nobody)
        response = await self._loop.run(state, DEFINITION, said, nobody)
        self._states[conversation_id] = state
        return response
