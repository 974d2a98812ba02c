"""Sessions of workflows, as the states of lanes: starting, finding and looking at them, by their owners only."""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.agents import storable as clean
from inturn.workflows.config import OrchestratorConfig
from inturn.visitors.message import nothing
from inturn.conversations.looking import look
from inturn.workflows.messages import NormalizedMessage
from inturn.workflows.parse import ParsedTurn
from inturn.conversations.plain import PREFIX, WorkflowStateStore
from inturn.workflows.response import Progress, SessionView, StateView, TurnMeta, WorkflowResponse
from inturn.conversations.state import BusyTurn, Owner, WorkflowState
from inturn.errors import DefinitionError, LaneTimeout, StateMismatch, UnknownConversation
from inturn.lanes import template
from inturn.lanes.admin import LaneInfo
from inturn.lanes.turn import Turn
from inturn.lanes.inline import InlineBusy, InlineTurn
from inturn.lanes.receipt import Receipt
from inturn.store import clock
from inturn.store.lane import ident_of
from inturn.workflows.definition.card import card_of
from inturn.workflows.definition.model import StepDefinition, WorkflowDefinition

log = logging.getLogger("inturn.conversations")

MOST_OWNERS = 10_000


def by_id(definition: WorkflowDefinition | Mapping[str, WorkflowDefinition]) -> Mapping[str, WorkflowDefinition]:
    return {definition.id: definition} if isinstance(definition, WorkflowDefinition) else dict(definition)


class Sessions:
    def __init__(
        self,
        app: InTurn,
        config: OrchestratorConfig,
        definitions: Mapping[str, WorkflowDefinition],
        plain: WorkflowStateStore | None,
    ) -> None:
        if not definitions:
            raise DefinitionError(["there is no workflow definition: give at least one"])
        self._app = app
        self._config = config
        self.definitions = definitions
        self._plain = plain
        self._owners: OrderedDict[str, Owner] = OrderedDict()
        """Of the sessions that were seen here last: they never change while a session lives."""

    async def start(self, owner: Owner, name: str | None, busy: BusyTurn, agent: Agent) -> WorkflowResponse:
        started_at = clock.now()
        definition = self.definition_named(name or next(iter(self.definitions)))
        state = WorkflowState(conversation_id=secrets.token_hex(16), definition=definition.id, owner=owner, busy=busy)
        state.stand_at(definition)
        step = definition.steps[state.current_step % len(definition.steps)]  # where nothing is required, the first
        if first := step.missing({}):
            state.suggested_input_type, state.choices = first[0].type, list(first[0].choices)
        messages = opening(definition, step)
        for message in messages:
            state.remember("assistant", message.text)
        async with self.turn(state.conversation_id, None, "reject") as turn:
            turn.state = state
        self._know(state)
        return WorkflowResponse(
            conversation_id=state.conversation_id,
            agent=agent.name,
            messages=messages,
            parsed_turn=ParsedTurn(kind="passthrough", messages=messages),
            workflow_state=StateView.of(state, definition),
            progress=Progress.of(state, definition),
            turn_meta=TurnMeta(turn_number=0, state_changed=True, collected_this_turn={}),
            latency_ms=round((clock.now() - started_at) * 1000, 3),
        )

    def turn(self, conversation_id: str, turn_id: str | None, busy: InlineBusy) -> InlineTurn[WorkflowState]:
        config = self._config
        return self._app.turn(
            lane(conversation_id), message_id=turn_id, busy=busy, wait=None if busy == "reject" else config.wait,
            state=WorkflowState, initial=nothing, state_ttl=config.state_ttl, dedup_window=config.dedup_window,
            ttl=config.lease, time_limit=config.time_limit,
        )  # fmt: skip

    async def must_be_of(self, conversation_id: str, owner: Owner | None) -> None:
        """Before a turn is asked for: whoever is not its owner must not make the conversation busy either."""
        if owner is None:
            return
        # one that is known here may have ended since, and its name may be used again by another service
        if self._owners.get(conversation_id) != owner:
            await self.peek(conversation_id, owner)

    def _know(self, state: WorkflowState) -> None:
        self._owners[state.conversation_id] = state.owner
        self._owners.move_to_end(state.conversation_id)
        if len(self._owners) > MOST_OWNERS:
            self._owners.popitem(last=False)

    async def load(self, turn: Turn[Any], conversation_id: str, owner: Owner | None) -> WorkflowState:
        """The state that the turn holds; one that is found only in the plain layout is adopted with its commit."""
        state: WorkflowState | None = turn.state
        state = must_own(state or await self._found_plain(conversation_id, owner), conversation_id, owner)
        state.stand_at(self.definition_of(state))  # the definition may have changed, and others may have written it
        return state

    async def _found_plain(self, conversation_id: str, owner: Owner | None) -> WorkflowState | None:
        if self._plain is None:
            return None
        try:
            found = await self._plain.get(conversation_id)
        except StateMismatch as error:
            if owner is None:
                raise
            log.warning("%s", error)  # whose it is cannot be read, so it is nobody's
            return None
        try:
            return None if found is None else must_own(found, conversation_id, owner).adopted()
        except clean.NotPlain as error:
            raise StateMismatch(f"{PREFIX}{conversation_id}", str(error), is_lane=False) from error

    async def peek(self, conversation_id: str, owner: Owner | None) -> WorkflowState:
        """As it is stored, without a turn."""
        return (await self._look(conversation_id, owner))[0]

    async def view(self, conversation_id: str, owner: Owner | None, agent: Agent) -> SessionView:
        state, info = await self._look(conversation_id, owner)
        definition = self.definition_of(state)
        state.stand_at(definition)  # as its next turn will find it
        return SessionView(
            conversation_id=conversation_id,
            agent=agent.name,
            definition=definition.id,
            title=definition.title,
            busy=state.busy,
            workflow_state=StateView.of(state, definition),
            progress=Progress.of(state, definition),
            history=state.history,
            card=current_card(state, definition),
            expires_in_s=info.state_expires_in_s,
        )

    async def _look(self, conversation_id: str, owner: Owner | None) -> tuple[WorkflowState, LaneInfo]:
        state, info = await look(self._app, lane(conversation_id), WorkflowState)
        if state is None:
            found = await self._found_plain(conversation_id, owner)
            return must_own(found, conversation_id, owner), info
        self._know(must_own(state, conversation_id, owner))
        return state, info

    async def is_kept(self, conversation_id: str, turn_id: str) -> bool:
        """Whether the response of that turn can still be had. When its window is over, its messages are new again."""
        became = await self._app.process.store.attend(lane(conversation_id), ident_of("", turn_id))
        return became.status == "done"

    def receipt(self, conversation_id: str, turn_id: str) -> Receipt:
        return Receipt("duplicate", lane(conversation_id), "", turn_id, 0, self._app.runtime)

    async def first_response(self, receipt: Receipt, owner: Owner | None) -> WorkflowResponse:
        """Of a turn that was committed, or that runs now. `ResultExpired` if it has failed, or is not kept any more."""
        try:
            kept = await receipt.result(timeout=self._config.wait)
        except TimeoutError as error:
            raise LaneTimeout(receipt.key, self._config.wait) from error
        response = WorkflowResponse.read(kept["response"])
        if owner is not None and kept["owner"] != owner.model_dump():
            raise UnknownConversation(response.conversation_id)
        return response

    async def forget_plain(self, conversation_id: str) -> None:
        """Or the session that was ended would be found there, and adopted anew."""
        if self._plain is not None:
            await self._plain.delete(conversation_id)

    def definition_named(self, name: str) -> WorkflowDefinition:
        try:
            return self.definitions[name]
        except KeyError:
            known = ", ".join(self.definitions)
            raise ValueError(f"definition={name!r}: there is no such workflow; there are {known}") from None

    def definition_of(self, state: WorkflowState) -> WorkflowDefinition:
        try:
            return self.definitions[state.definition]
        except KeyError:
            raise DefinitionError(
                [f"conversation {state.conversation_id!r} is in workflow {state.definition!r}, which is not loaded"]
            ) from None


def lane(conversation_id: str) -> str:
    try:
        return template.key(f"conversation:{conversation_id}")
    except ValueError:  # what cannot be a key was never started
        raise UnknownConversation(conversation_id[:100]) from None


def must_own(state: WorkflowState | None, conversation_id: str, owner: Owner | None) -> WorkflowState:
    if state is None or (owner is not None and state.owner != owner):
        raise UnknownConversation(conversation_id)
    return state


def current_card(state: WorkflowState, definition: WorkflowDefinition) -> dict[str, Any] | None:
    is_over = state.status != "active" or state.current_step >= len(definition.steps)
    step = None if is_over else definition.steps[state.current_step]
    return None if step is None or step.card is None else card_of(step, state.collected_data)


def opening(definition: WorkflowDefinition, step: StepDefinition) -> list[NormalizedMessage]:
    """What a session begins with, from the definition's own words."""
    question = " ".join([step.prompt, *(field.prompt for field in step.missing({})[:1])]).strip()
    words = "\n\n".join(filter(None, (definition.welcome, question)))
    messages = [NormalizedMessage(id="welcome", text=words)]
    if step.card is not None:
        messages.append(
            NormalizedMessage(id="welcome.card", kind="adaptiveCard", card=card_of(step, {}), card_id=step.card.id)
        )
    return messages
