"""`WorkflowOrchestrator`: walks users through a workflow, one turn at a time for each conversation.

A session is the state of the lane `conversation:{id}`. A turn loads it, runs the loop (loop.py) and saves it once, with
the commit. Everything that fails leaves the stored state as it was.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.conversations import clean, sessions
from inturn.conversations.config import OrchestratorConfig
from inturn.conversations.context import build_contextual_query
from inturn.conversations.gathering import Gathering
from inturn.conversations.loop import ContextBuilder, Loop, OnActivity, Parser, Utterance, nobody
from inturn.conversations.parse import parse_turn
from inturn.conversations.plain import WorkflowStateStore
from inturn.conversations.response import SessionView, WorkflowResponse
from inturn.conversations.sessions import Sessions, lane
from inturn.conversations.state import BusyTurn, Owner, WorkflowState
from inturn.errors import CardNotAllowed, DuplicateMessage, LaneBusy, ResultExpired, SessionCompleted
from inturn.lanes import template
from inturn.lanes.effects import Turn
from inturn.lanes.handler import one_of
from inturn.lanes.inline import InlineBusy
from inturn.observe import metrics
from inturn.workflows.definition import WorkflowDefinition
from inturn.workflows.load import default_definition

log = logging.getLogger("inturn.conversations")

_CARD_BYTES = 64 * 1024
_MOST_TOGETHER = 50


Repeats = dict[str, str]
"""Messages that an earlier turn has answered, each with the id of that turn."""


@dataclass(frozen=True, slots=True)
class _Done:
    response: WorkflowResponse | None
    repeats: Repeats


class _OnlyRepeats(Exception):
    """Leaves a turn that has nothing to do, so that it changes nothing."""

    def __init__(self, repeats: Repeats) -> None:
        super().__init__()
        self.repeats = repeats


class WorkflowOrchestrator:
    """Its parts are given, so that each can be replaced: the agent, the definitions, the parser, the context builder.

    `definition`: one, several (the first is the default), or none for the example that ships. `plain`: where sessions
    of services with the plain layout are found.
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
    ) -> None:
        self.app = app
        self.agent = agent
        self.config = config or OrchestratorConfig()
        given = default_definition() if definition is None else definition
        self.sessions = Sessions(app, self.config, sessions.by_id(given), plain)
        build = context_builder or partial(build_contextual_query, max_chars=self.config.context_chars)
        self._loop = Loop(agent, parser, build, self.config.agent_timeout)
        self._gathering: Gathering[Utterance, _Done] = Gathering(_MOST_TOGETHER)

    @property
    def definitions(self) -> Mapping[str, WorkflowDefinition]:
        return self.sessions.definitions

    async def start_session(
        self, user_id: str, tenant_id: str, definition: str | None = None, *, busy: BusyTurn | None = None
    ) -> WorkflowResponse:
        """A conversation of its own; a user may have many at once."""
        policy = busy or self.config.busy
        one_of(policy, ("reject", "queue", "merge"), "busy")
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
        """What the user wrote, in one turn. `owner`: who asks; everybody else's conversation is unknown to them."""
        if not text.strip() or len(text) > self.config.max_text:
            raise ValueError(f"text: must have 1 to {self.config.max_text} characters that are not all blank")
        words = clean.text(text, self.config.max_text)
        said = Utterance(words, None, _checked(message_id), on_activity or nobody)
        return await self._take(conversation_id, said, owner)

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
        """The same, with the submission of a card that the definition lists."""
        try:
            values = clean.plain({**data, "cardId": card_id}, _CARD_BYTES)
        except clean.NotPlain as error:
            raise ValueError(f"data: is {error}") from error
        given = action if action is not None else values.get("action")
        card = {**values, "action": given} if given is not None else values
        said = Utterance("", card, _checked(message_id), on_activity or nobody)
        return await self._take(conversation_id, said, owner)

    async def get_session(self, conversation_id: str, *, owner: Owner | None = None) -> SessionView:
        return await self.sessions.view(conversation_id, owner, self.agent)

    async def complete_session(self, conversation_id: str, *, owner: Owner | None = None) -> SessionView:
        """By hand, whatever is still missing. One that is completed stays so."""

        async def complete(turn: Turn[Any], state: WorkflowState) -> None:
            state.status = "completed"
            state.stand_at(self.sessions.definition_of(state))
            turn.state = state

        await self._change(conversation_id, owner, complete)
        return await self.sessions.view(conversation_id, owner, self.agent)

    async def end_session(self, conversation_id: str, *, owner: Owner | None = None) -> None:
        """It is gone, and what was collected with it. (Responses that are kept for repeats are not given any more.)"""

        async def end(turn: Turn[Any], state: WorkflowState) -> None:
            await self.sessions.forget_plain(conversation_id)  # first: or it might be found there, and come back
            turn.state = None

        await self._change(conversation_id, owner, end)

    async def _change(
        self, conversation_id: str, owner: Owner | None, change: Callable[[Turn[Any], WorkflowState], Awaitable[None]]
    ) -> None:
        await self.sessions.must_be_of(conversation_id, owner)
        try:
            async with self.sessions.turn(conversation_id, None, "reject") as turn:
                await change(turn, await self.sessions.load(turn, conversation_id, owner))
        except LaneBusy as busy:
            await self._contended(conversation_id, owner, busy)
            raise

    async def _take(self, conversation_id: str, said: Utterance, owner: Owner | None) -> WorkflowResponse:
        await self.sessions.must_be_of(conversation_id, owner)
        done = await self._by_policy(conversation_id, said, owner)
        turn_id = done.repeats.get(said.message_id or "")
        if turn_id is not None:
            return await self.sessions.first_response(self.sessions.receipt(conversation_id, turn_id), owner)
        assert done.response is not None, "what was no repeat was answered"
        return done.response

    async def _by_policy(self, conversation_id: str, said: Utterance, owner: Owner | None) -> _Done:
        """At once if nobody else is in the conversation; else as its policy says."""
        once = partial(self._turn, conversation_id, owner, said.message_id, lambda: [said])
        try:
            return await once("reject")
        except LaneBusy as busy:
            if busy.key != lane(conversation_id):  # of what the agent does in another lane
                raise
            policy = await self._contended(conversation_id, owner, busy)
            if busy.stopped or policy == "reject":
                raise
        if policy == "queue" or said.card is not None:
            return await once("wait")

        async def lead(begin: Callable[[], list[Utterance]]) -> _Done:
            return await self._turn(conversation_id, owner, f"burst-{secrets.token_hex(8)}", begin, "wait")

        who = "" if owner is None else owner.model_dump_json()
        return await self._gathering.join(f"{conversation_id} {who}", said, lead)

    async def _contended(self, conversation_id: str, owner: Owner | None, busy: LaneBusy) -> BusyTurn:
        """Whoever is not the owner learns nothing of it."""
        state = await self.sessions.peek(conversation_id, owner)
        metrics.conversation_contentions.labels(state.busy).inc()
        log.info("busy conversation=%s policy=%s: %s", conversation_id, state.busy, busy)
        return state.busy

    async def _turn(
        self,
        conversation_id: str,
        owner: Owner | None,
        turn_id: str | None,
        begin: Callable[[], list[Utterance]],
        busy: InlineBusy,
    ) -> _Done:
        while True:
            try:
                async with self.sessions.turn(conversation_id, turn_id, busy) as turn:
                    return await self._answer(turn, conversation_id, owner, turn_id, begin())
            except _OnlyRepeats as only:
                return _Done(None, only.repeats)
            except DuplicateMessage as duplicate:
                if duplicate.key != lane(conversation_id):
                    raise
                first = duplicate.receipt
            await self.sessions.peek(conversation_id, owner)  # of a session that has ended nothing is told any more
            with suppress(ResultExpired):  # it ran when we came, and has failed since: it is ours to try
                return _Done(await self.sessions.first_response(first, owner), {})

    async def _answer(
        self,
        turn: Turn[WorkflowState],
        conversation_id: str,
        owner: Owner | None,
        turn_id: str | None,
        said: list[Utterance],
    ) -> _Done:
        state = await self.sessions.load(turn, conversation_id, owner)
        before = {u.message_id: state.answered[u.message_id] for u in said if u.message_id in state.answered}
        repeats = {name: by for name, by in before.items() if await self.sessions.is_kept(conversation_id, by)}
        # of an id that is in a burst twice, one is enough
        fresh = {u.message_id or number: u for number, u in enumerate(said) if u.message_id not in repeats}
        if not fresh:
            raise _OnlyRepeats(repeats)
        if state.status == "completed":
            raise SessionCompleted(conversation_id)
        definition = self.sessions.definition_of(state)
        given = together(list(fresh.values()))
        must_be_listed(definition, given.card)
        response = await self._loop.run(state, definition, given, partial(_tell, turn))
        if turn_id is not None:
            state.mark_answered([u.message_id for u in fresh.values() if u.message_id], turn_id)
            turn.result = {"owner": state.owner, "response": response.kept()}
        turn.state = state
        return _Done(response, repeats)


def together(said: list[Utterance]) -> Utterance:
    """A burst is one message, in the order in which its parts came."""
    if len(said) == 1:
        return said[0]

    def hear(activity: Activity) -> None:
        for utterance in said:
            utterance.hear(activity)

    return Utterance("\n".join(utterance.text for utterance in said), hear=hear)


def must_be_listed(definition: WorkflowDefinition, submitted: Mapping[str, Any] | None) -> None:
    if submitted is None:
        return
    card = definition.cards.get(submitted["cardId"])
    if card is None:
        raise CardNotAllowed(submitted["cardId"], f"workflow {definition.id!r} has no such card")
    action = submitted.get("action")
    if action is not None and action not in card.actions:
        raise CardNotAllowed(card.id, f"it has no such action; there are {', '.join(card.actions)}")


def _tell(turn: Turn[Any], activity: Activity) -> None:
    """Whoever watches the conversation sees what is being written."""
    if activity.type == "typing" and activity.text:
        turn.stream({"token": activity.text})
    elif activity.is_restart:
        turn.stream({"restart": True})


def _checked(message_id: str | None) -> str | None:
    return None if message_id is None else template.message_id(message_id)
