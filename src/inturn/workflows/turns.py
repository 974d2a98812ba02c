"""What a user gave becomes a turn of the conversation's lane: at once, or by the policy of a busy conversation.

A repeat gets the first response, also of a turn that answered several messages together.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from inturn.agents.activity import Activity
from inturn.conversations.gathering import Gathering
from inturn.workflows.loop import Loop, Utterance
from inturn.workflows.response import WorkflowResponse
from inturn.workflows.sessions import Sessions, lane
from inturn.conversations.state import Owner, WorkflowState
from inturn.errors import CardNotAllowed, DuplicateMessage, LaneBusy, ResultExpired, SessionCompleted
from inturn.lanes.turn import Turn
from inturn.lanes.inline import InlineBusy
from inturn import metrics
from inturn.workflows.definition.model import WorkflowDefinition

log = logging.getLogger("inturn.conversations")

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


class Turns:
    def __init__(self, sessions: Sessions, loop: Loop) -> None:
        self._sessions = sessions
        self._loop = loop
        self._gathering: Gathering[Utterance, _Done] = Gathering(_MOST_TOGETHER)

    async def take(self, conversation_id: str, said: Utterance, owner: Owner | None) -> WorkflowResponse:
        await self._sessions.must_be_of(conversation_id, owner)
        done = await self._by_policy(conversation_id, said, owner)
        turn_id = done.repeats.get(said.message_id or "")
        if turn_id is not None:
            return await self._sessions.first_response(self._sessions.receipt(conversation_id, turn_id), owner)
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
            state = await self.contended(conversation_id, owner, busy)
            if busy.stopped or state.busy == "reject":
                raise
        answered_by = state.answered.get(said.message_id or "")
        if answered_by is not None and await self._sessions.is_kept(conversation_id, answered_by):
            return _Done(None, {said.message_id or "": answered_by})  # whatever becomes of those that wait
        if state.busy == "queue" or said.card is not None:
            return await once("wait")

        async def lead(begin: Callable[[], list[Utterance]]) -> _Done:
            return await self._turn(conversation_id, owner, f"burst-{secrets.token_hex(8)}", begin, "wait")

        who = "" if owner is None else owner.model_dump_json()
        return await self._gathering.join(f"{conversation_id} {who}", said, lead)

    async def contended(self, conversation_id: str, owner: Owner | None, busy: LaneBusy) -> WorkflowState:
        """Whoever is not the owner learns nothing of it."""
        state = await self._sessions.peek(conversation_id, owner)
        metrics.conversation_contentions.labels(state.busy).inc()
        log.info("busy conversation=%s policy=%s: %s", conversation_id, state.busy, busy)
        return state

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
                async with self._sessions.turn(conversation_id, turn_id, busy) as turn:
                    return await self._answer(turn, conversation_id, owner, turn_id, begin())
            except _OnlyRepeats as only:
                return _Done(None, only.repeats)
            except DuplicateMessage as duplicate:
                if duplicate.key != lane(conversation_id):
                    raise
                first = duplicate.receipt
            await self._sessions.peek(conversation_id, owner)  # of a session that has ended nothing is told any more
            with suppress(ResultExpired):  # it ran when we came, and has failed since: it is ours to try
                return _Done(await self._sessions.first_response(first, owner), {})

    async def _answer(
        self,
        turn: Turn[WorkflowState],
        conversation_id: str,
        owner: Owner | None,
        turn_id: str | None,
        said: list[Utterance],
    ) -> _Done:
        state = await self._sessions.load(turn, conversation_id, owner)
        before = {u.message_id: state.answered[u.message_id] for u in said if u.message_id in state.answered}
        repeats = {name: by for name, by in before.items() if await self._sessions.is_kept(conversation_id, by)}
        # of an id that is in a burst twice, one is enough
        fresh = {u.message_id or number: u for number, u in enumerate(said) if u.message_id not in repeats}
        if not fresh:
            raise _OnlyRepeats(repeats)
        if state.status == "completed":
            raise SessionCompleted(conversation_id)
        definition = self._sessions.definition_of(state)
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
