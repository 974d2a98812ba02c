"""Workflow sessions: each is the state of a lane. Starts, finds and shows them, to their owners only."""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import NoneType
from typing import Any

from inturn.agents import storable
from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.compat.conversation import PREFIX as LOCK_PREFIX
from inturn.errors import (
    ArgumentError,
    DefinitionError,
    DefinitionMissing,
    LaneTimeout,
    StateMismatch,
    UnknownConversation,
)
from inturn.lanes import template
from inturn.lanes.admin import LaneInfo
from inturn.lanes.inline import InlineBusy
from inturn.lanes.receipt import Receipt
from inturn.lanes.turn import Turn
from inturn.store import clock
from inturn.store.lane import ident_of
from inturn.workflows.config import OrchestratorConfig
from inturn.workflows.conversation_lock import ConversationLocks, holding
from inturn.workflows.definition.card import card_of
from inturn.workflows.definition.model import StepDefinition, WorkflowDefinition
from inturn.workflows.messages import NormalizedMessage
from inturn.workflows.parse import ParsedTurn
from inturn.workflows.plain_state import PLAIN_PREFIX, WorkflowStateStore
from inturn.workflows.response import Progress, SessionView, StateView, TurnMeta, WorkflowResponse
from inturn.workflows.state import BusyTurn, Owner, WorkflowState

log = logging.getLogger("inturn.workflows")

MAX_OWNERS = 10_000


def by_id(definition: WorkflowDefinition | Mapping[str, WorkflowDefinition]) -> Mapping[str, WorkflowDefinition]:
    return {definition.id: definition} if isinstance(definition, WorkflowDefinition) else dict(definition)


class Sessions:
    def __init__(
        self,
        app: InTurn,
        config: OrchestratorConfig,
        definitions: Mapping[str, WorkflowDefinition],
        plain: WorkflowStateStore | None,
        *,
        shares: bool = False,
        lock: ConversationLocks | None = None,
    ) -> None:
        if not definitions:
            raise DefinitionError(["there is no workflow definition: give at least one"])
        if shares:
            app.process.store.must_share()
        self._app = app
        self._config = config
        self.definitions = definitions
        self._plain = plain
        self._shares = shares
        self._lock = lock
        self._owners: OrderedDict[str, Owner] = OrderedDict()
        """The owners of the sessions last seen here: the owner of a session never changes."""

    async def start(self, owner: Owner, name: str | None, busy: BusyTurn, agent: Agent) -> WorkflowResponse:
        started_at = clock.now()
        definition = self.definition_named(name or next(iter(self.definitions)))
        state = WorkflowState(conversation_id=secrets.token_hex(16), definition=definition.id, owner=owner, busy=busy)
        state.stand_at(definition)
        step = definition.steps[
            state.current_step % len(definition.steps)
        ]  # the first step if no step requires anything
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

    @asynccontextmanager
    async def turn(
        self, conversation_id: str, turn_id: str | None, busy: InlineBusy
    ) -> AsyncIterator[Turn[WorkflowState]]:
        """A turn of the conversation's lane. `LaneBusy` or `ConversationLockError` if someone else is answering.

        A lock of the user's own is taken inside the lane, always in this order, and released after the commit.
        """
        config = self._config
        wait_s = 0.0 if busy == "reject" else config.wait
        begun = self._app.turn(
            lane(conversation_id), message_id=turn_id, busy=busy, wait=wait_s or None,
            state=WorkflowState, initial=NoneType, state_ttl=config.state_ttl, dedup_window=config.dedup_window,
            ttl=config.lease, time_limit=config.time_limit,
            shares=LOCK_PREFIX + conversation_id if self._shares else None,
        )  # fmt: skip
        async with AsyncExitStack() as held, begun as turn:
            await held.enter_async_context(holding(self._lock, conversation_id, wait_s))
            yield turn

    async def must_be_of(self, conversation_id: str, owner: Owner | None) -> None:
        """Raises `UnknownConversation` before a turn is asked for: only its owner may make the conversation busy."""
        if owner is None:
            return
        # only a match is trusted: a session known here may have ended, and another service may have reused its id
        if self._owners.get(conversation_id) != owner:
            await self.peek(conversation_id, owner)

    def _know(self, state: WorkflowState) -> None:
        self._owners[state.conversation_id] = state.owner
        self._owners.move_to_end(state.conversation_id)
        if len(self._owners) > MAX_OWNERS:
            self._owners.popitem(last=False)

    async def load(self, turn: Turn[Any], conversation_id: str, owner: Owner | None) -> WorkflowState:
        """Returns the state of the turn. Its commit adopts a state that is found only in the plain layout."""
        state: WorkflowState | None = turn.state
        state = must_own(state or await self._found_plain(conversation_id, owner), conversation_id, owner)
        state.stand_at(self.definition_of(state))  # the definition may have changed, or another service wrote the state
        return state

    async def _found_plain(self, conversation_id: str, owner: Owner | None) -> WorkflowState | None:
        if self._plain is None:
            return None
        try:
            found = await self._plain.get(conversation_id)
        except StateMismatch as error:
            if owner is None:
                raise
            log.warning("%s", error)  # its owner cannot be read, so it belongs to nobody
            return None
        try:
            if found is None:
                return None
            whole = found.filled_in(owner, next(iter(self.definitions)), self._config.busy)
            return must_own(whole, conversation_id, owner).adopted()
        except storable.NotStorable as error:
            raise StateMismatch(f"{PLAIN_PREFIX}{conversation_id}", str(error), is_lane=False) from error

    async def peek(self, conversation_id: str, owner: Owner | None) -> WorkflowState:
        """Returns the state as it is stored, without a turn."""
        return (await self._look(conversation_id, owner))[0]

    async def view(self, conversation_id: str, owner: Owner | None, agent: Agent) -> SessionView:
        state, info = await self._look(conversation_id, owner)
        definition = self.definition_of(state)
        state.stand_at(definition)  # as the next turn will find it
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
        info = await self._app.lanes.inspect(lane(conversation_id), limit=1)
        state = info.state_as(WorkflowState)
        if state is None:
            found = await self._found_plain(conversation_id, owner)
            return must_own(found, conversation_id, owner), info
        self._know(must_own(state, conversation_id, owner))
        return state, info

    async def is_kept(self, conversation_id: str, turn_id: str) -> bool:
        """Whether the response of that turn is still kept. After its duplicate window, its messages are new again."""
        became = await self._app.process.store.attend(lane(conversation_id), ident_of("", turn_id))
        return became.status == "done"

    def receipt(self, conversation_id: str, turn_id: str) -> Receipt:
        key = lane(conversation_id)
        return Receipt(status="duplicate", key=key, handler="", id=turn_id, _runtime=self._app.runtime)

    async def first_response(self, receipt: Receipt, owner: Owner | None) -> WorkflowResponse:
        """Returns the response of a turn that was committed, or that runs now. Raises `ResultExpired` if it failed, or
        is no longer kept.
        """
        try:
            kept = await receipt.result(timeout=self._config.wait)
        except TimeoutError as error:
            raise LaneTimeout(receipt.key, self._config.wait) from error
        response = WorkflowResponse.read(kept["response"])
        if owner is not None and kept["owner"] != owner.model_dump():
            raise UnknownConversation(response.conversation_id)
        return response

    async def forget_plain(self, conversation_id: str) -> None:
        """Deletes the plain copy, so that an ended session is not found there and adopted again."""
        if self._plain is not None:
            await self._plain.delete(conversation_id)

    def definition_named(self, name: str) -> WorkflowDefinition:
        try:
            return self.definitions[name]
        except KeyError:
            known = ", ".join(self.definitions)
            raise ArgumentError("definition", f"no such workflow; known: {known}", name) from None

    def definition_of(self, state: WorkflowState) -> WorkflowDefinition:
        try:
            return self.definitions[state.definition]
        except KeyError:
            raise DefinitionMissing(state.conversation_id, state.definition) from None


def lane(conversation_id: str) -> str:
    try:
        return template.key(f"conversation:{conversation_id}")
    except ValueError:  # no session has an id that cannot be a key
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
    """Returns the first messages of a session, from the definition's own words."""
    question = " ".join([step.prompt, *(field.prompt for field in step.missing({})[:1])]).strip()
    words = "\n\n".join(filter(None, (definition.welcome, question)))
    messages = [NormalizedMessage(id="welcome", text=words)]
    if step.card is not None:
        messages.append(
            NormalizedMessage(id="welcome.card", kind="adaptiveCard", card=card_of(step, {}), card_id=step.card.id)
        )
    return messages
