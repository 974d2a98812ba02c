"""`WorkflowOrchestrator`: walks users through a workflow, one turn at a time for each conversation.

A session is the state of the lane `conversation:{id}`. A turn (turns.py) loads it, runs the loop (loop.py) and saves it
once, with the commit. Whatever fails, the stored state stays as it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, get_args

from inturn.agents import storable
from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.errors import ArgumentError, ConversationLockError, LaneBusy
from inturn.lanes import template
from inturn.lanes.handler import one_of
from inturn.lanes.turn import Turn
from inturn.workflows import sessions
from inturn.workflows.config import OrchestratorConfig
from inturn.workflows.conversation_lock import ConversationLocks
from inturn.workflows.definition.load import default_definition
from inturn.workflows.definition.model import WorkflowDefinition
from inturn.workflows.loop import ContextBuilder, Loop, OnActivity, Parser, Utterance, build_contextual_query, ignore
from inturn.workflows.parse import parse_turn
from inturn.workflows.plain_state import WorkflowStateStore
from inturn.workflows.response import SessionView, WorkflowResponse
from inturn.workflows.sessions import Sessions
from inturn.workflows.state import BusyTurn, Owner, WorkflowState
from inturn.workflows.turns import Turns

_MAX_CARD = 64 * 1024


class WorkflowOrchestrator:
    """Walks users through a workflow, one turn at a time per conversation.

    Every part can be replaced: the agent, the definitions, the parser, the context builder. `definition`: one, or
    several by id (the first is the default); without it, the packaged example (which needs the extra `workflows`).
    `plain`: where sessions of services with the plain layout are found.

    No turn runs while another service holds the conversation. `shares=True` holds the plain key `lock:conv:{id}` in the
    same transitions as the lane (Redis only), renewed with it. `lock`: a lock of your own, such as `ConversationLock`,
    held around each turn; it is not renewed.
    """

    def __init__(
        self,
        app: InTurn,
        agent: Agent,
        definition: WorkflowDefinition | Mapping[str, WorkflowDefinition] | None = None,
        parser: Parser = parse_turn,
        context_builder: ContextBuilder | None = None,
        *,
        config: OrchestratorConfig | None = None,
        plain: WorkflowStateStore | None = None,
        lock: ConversationLocks | None = None,
        shares: bool = False,
    ) -> None:
        self.app = app
        self.agent = agent
        self.config = config or OrchestratorConfig()
        given = default_definition() if definition is None else definition
        self.sessions = Sessions(app, self.config, sessions.by_id(given), plain, shares=shares, lock=lock)
        build = context_builder or partial(build_contextual_query, max_chars=self.config.context_chars)
        self._turns = Turns(self.sessions, Loop(agent, parser, build, self.config.agent_timeout))

    @property
    def definitions(self) -> Mapping[str, WorkflowDefinition]:
        return self.sessions.definitions

    async def start_session(
        self, user_id: str, tenant_id: str, definition: str | None = None, *, busy: BusyTurn | None = None
    ) -> WorkflowResponse:
        """Starts a new conversation. A user may have many at once."""
        policy = busy or self.config.busy
        one_of(policy, get_args(BusyTurn), "busy")
        return await self.sessions.start(Owner(user_id=user_id, tenant_id=tenant_id), definition, policy, self.agent)

    async def process_turn(
        self,
        conversation_id: str,
        text: str,
        message_id: str | None = None,
        *,
        owner: Owner | None = None,
        on_activity: OnActivity | None = None,
    ) -> WorkflowResponse:
        """Takes one turn with what the user wrote; returns the answer.

        `message_id`: a repeat with the same id gets the first response. `owner`: who asks; for them, other
        conversations do not exist. `on_activity`: gets what the agent says, as it says it.
        """
        if not text.strip() or len(text) > self.config.max_text:
            raise ArgumentError("text", f"must have 1 to {self.config.max_text} characters that are not all blank")
        words = storable.text(text, self.config.max_text)
        said = Utterance(words, None, _checked(message_id), on_activity or ignore)
        return await self._turns.take(conversation_id, said, owner)

    async def process_card_action(
        self,
        conversation_id: str,
        card_id: str,
        data: Mapping[str, Any],
        action: str | None = None,
        message_id: str | None = None,
        *,
        owner: Owner | None = None,
        on_activity: OnActivity | None = None,
    ) -> WorkflowResponse:
        """Takes one turn with a submitted card, which the definition must list; returns the answer."""
        try:
            values = storable.value({**data, "cardId": card_id}, _MAX_CARD)
        except storable.NotStorable as error:
            raise ArgumentError("data", f"is {error}") from error
        given = action if action is not None else values.get("action")
        card = {**values, "action": given} if given is not None else values
        said = Utterance("", card, _checked(message_id), on_activity or ignore)
        return await self._turns.take(conversation_id, said, owner)

    async def get_session(self, conversation_id: str, *, owner: Owner | None = None) -> SessionView:
        return await self.sessions.view(conversation_id, owner, self.agent)

    async def complete_session(self, conversation_id: str, *, owner: Owner | None = None) -> SessionView:
        """Completes the workflow, even if something is missing. Once completed, it stays so."""

        async def complete(turn: Turn[Any], state: WorkflowState) -> None:
            state.status = "completed"
            state.suggested_input_type, state.choices = None, []
            state.stand_at(self.sessions.definition_of(state))
            turn.state = state

        await self._change(conversation_id, owner, complete)
        return await self.sessions.view(conversation_id, owner, self.agent)

    async def end_session(self, conversation_id: str, *, owner: Owner | None = None) -> None:
        """Removes the conversation and what it collected. Responses that are kept for repeats are given to nobody."""

        async def end(turn: Turn[Any], state: WorkflowState) -> None:
            # first, else the conversation could be found there and adopted again
            await self.sessions.forget_plain(conversation_id)
            turn.state = None

        await self._change(conversation_id, owner, end)

    async def _change(
        self, conversation_id: str, owner: Owner | None, change: Callable[[Turn[Any], WorkflowState], Awaitable[None]]
    ) -> None:
        await self.sessions.must_be_of(conversation_id, owner)
        try:
            async with self.sessions.turn(conversation_id, None, "reject") as turn:
                await change(turn, await self.sessions.load(turn, conversation_id, owner))
        except (LaneBusy, ConversationLockError) as busy:
            await self._turns.contended(conversation_id, owner, busy)
            raise


def _checked(message_id: str | None) -> str | None:
    return None if message_id is None else template.message_id(message_id)
