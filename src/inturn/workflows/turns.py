"""What a user sent becomes a turn of the conversation's lane: at once, or by the policy of a busy conversation.

A repeat gets the first response, even if the turn answered several messages together. Under `merge`, requests that wait
in this process become one turn (`Bursts`): all of them get its response, or its error.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from inturn import metrics
from inturn.agents.activity import Activity
from inturn.errors import (
    CardNotAllowed,
    ConversationLockError,
    DuplicateMessage,
    LaneBusy,
    ResultExpired,
    SessionCompleted,
)
from inturn.http.answer_events import TYPING, event_of
from inturn.lanes.inline import InlineBusy
from inturn.lanes.runtime import Frame, hold_up, this_turn
from inturn.lanes.turn import Turn
from inturn.workflows.definition.model import WorkflowDefinition
from inturn.workflows.loop import Loop, Utterance
from inturn.workflows.response import WorkflowResponse
from inturn.workflows.sessions import Sessions, lane
from inturn.workflows.state import Owner, WorkflowState

log = logging.getLogger("inturn.workflows")

MAX_BURST = 50
"""Requests that become one turn."""

T = TypeVar("T")
R = TypeVar("R")

Repeats = dict[str, str]
"""The ids of messages that an earlier turn has answered, each with the id of that turn."""


@dataclass(frozen=True, slots=True)
class _Done:
    response: WorkflowResponse | None
    repeats: Repeats


class _OnlyRepeats(Exception):
    """Leaves a turn that has nothing to do, so that it commits nothing."""

    def __init__(self, repeats: Repeats) -> None:
        super().__init__()
        self.repeats = repeats


class Turns:
    def __init__(self, sessions: Sessions, loop: Loop) -> None:
        self._sessions = sessions
        self._loop = loop
        self._bursts: Bursts[Utterance, _Done] = Bursts(MAX_BURST)

    async def take(self, conversation_id: str, said: Utterance, owner: Owner | None) -> WorkflowResponse:
        await self._sessions.must_be_of(conversation_id, owner)
        done = await self._by_policy(conversation_id, said, owner)
        turn_id = done.repeats.get(said.message_id or "")
        if turn_id is not None:
            return await self._sessions.first_response(self._sessions.receipt(conversation_id, turn_id), owner)
        assert done.response is not None, "what is not a repeat was answered"
        return done.response

    async def _by_policy(self, conversation_id: str, said: Utterance, owner: Owner | None) -> _Done:
        """Takes the turn at once if the conversation is free, else as its policy says."""
        once = partial(self._turn, conversation_id, owner, turn_id=said.message_id, begin=lambda: [said])
        try:
            return await once(busy="reject")
        except (LaneBusy, ConversationLockError) as busy:
            if is_elsewhere(busy, conversation_id):
                raise
            state = await self.contended(conversation_id, owner, busy)
            if state.busy == "reject" or (isinstance(busy, LaneBusy) and busy.stopped):
                raise
        answered_by = state.answered.get(said.message_id or "")
        if answered_by is not None and await self._sessions.is_kept(conversation_id, answered_by):
            return _Done(None, {said.message_id or "": answered_by})  # it need not wait behind the others
        if state.busy == "queue" or said.card is not None:
            return await once(busy="wait")

        async def lead(begin: Callable[[], list[Utterance]]) -> _Done:
            turn_id = f"burst-{secrets.token_hex(8)}"
            return await self._turn(conversation_id, owner, turn_id=turn_id, begin=begin, busy="wait")

        who = "" if owner is None else owner.model_dump_json()
        return await self._bursts.join(f"{conversation_id} {who}", said, lead)

    async def contended(
        self, conversation_id: str, owner: Owner | None, busy: LaneBusy | ConversationLockError
    ) -> WorkflowState:
        """Logs and counts that the conversation was busy. Raises `UnknownConversation` for anyone but its owner."""
        state = await self._sessions.peek(conversation_id, owner)
        metrics.conversation_contentions.labels(state.busy).inc()
        log.info("busy conversation=%s policy=%s: %s", conversation_id, state.busy, busy)
        return state

    async def _turn(
        self,
        conversation_id: str,
        owner: Owner | None,
        *,
        turn_id: str | None,
        begin: Callable[[], list[Utterance]],
        busy: InlineBusy,
    ) -> _Done:
        while True:
            try:
                async with self._sessions.turn(conversation_id, turn_id, busy) as turn:
                    return await self._answer(turn, conversation_id, owner, turn_id=turn_id, said=begin())
            except _OnlyRepeats as only:
                return _Done(None, only.repeats)
            except DuplicateMessage as duplicate:
                if duplicate.key != lane(conversation_id):
                    raise
                first = duplicate.receipt
            # raises if the session has ended: then nothing is disclosed any more
            await self._sessions.peek(conversation_id, owner)
            with suppress(ResultExpired):  # the first has failed since: this call tries itself
                return _Done(await self._sessions.first_response(first, owner), {})

    async def _answer(
        self,
        turn: Turn[WorkflowState],
        conversation_id: str,
        owner: Owner | None,
        *,
        turn_id: str | None,
        said: list[Utterance],
    ) -> _Done:
        state = await self._sessions.load(turn, conversation_id, owner)
        before = {u.message_id: state.answered[u.message_id] for u in said if u.message_id in state.answered}
        repeats = {name: by for name, by in before.items() if await self._sessions.is_kept(conversation_id, by)}
        # an id that is in the burst twice is taken once
        fresh = {u.message_id or number: u for number, u in enumerate(said) if u.message_id not in repeats}
        if not fresh:
            raise _OnlyRepeats(repeats)
        if state.status == "completed":
            raise SessionCompleted(conversation_id)
        definition = self._sessions.definition_of(state)
        given = merged(list(fresh.values()))
        must_list_card(definition, given.card)
        response = await self._loop.run(state, definition, given, partial(_tell, turn))
        if turn_id is not None:
            state.mark_answered([u.message_id for u in fresh.values() if u.message_id], turn_id)
            turn.result = {"owner": state.owner, "response": response.kept()}
        turn.state = state
        return _Done(response, repeats)


def is_elsewhere(busy: LaneBusy | ConversationLockError, conversation_id: str) -> bool:
    """Whether the agent itself met another busy lane or conversation."""
    if isinstance(busy, LaneBusy):
        return busy.key != lane(conversation_id)
    return busy.conversation_id != conversation_id


def merged(said: list[Utterance]) -> Utterance:
    """Makes one message of a burst, its parts in the order in which they came."""
    if len(said) == 1:
        return said[0]

    def hear(activity: Activity) -> None:
        for utterance in said:
            utterance.hear(activity)

    return Utterance("\n".join(utterance.text for utterance in said), hear=hear)


def must_list_card(definition: WorkflowDefinition, submitted: Mapping[str, Any] | None) -> None:
    if submitted is None:
        return
    card = definition.cards.get(submitted["cardId"])
    if card is None:
        raise CardNotAllowed(submitted["cardId"], f"workflow {definition.id!r} has no such card")
    action = submitted.get("action")
    if action is not None and action not in card.actions:
        raise CardNotAllowed(card.id, f"it has no such action, only: {', '.join(card.actions)}")


def _tell(turn: Turn[Any], activity: Activity) -> None:
    """Streams what the agent writes to the watchers of the conversation."""
    event = event_of(activity)
    if event is not None and event != TYPING:
        turn.stream(event.chunk)


@dataclass(slots=True)
class _Burst(Generic[T, R]):
    items: list[T] = field(default_factory=list)
    task: asyncio.Task[R] | None = None
    members: int = 0
    turns: list[Frame] = field(default_factory=list)
    """The turns in which members wait: an agent may ask for another conversation."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)


class Bursts(Generic[T, R]):
    """The first request of a burst leads: it asks for the turn. Requests that come before that turn begins join it.

    A burst takes at most `max_size` requests; the next request leads the next burst. If the turn fails, all of its
    requests get the error, and nothing was saved.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._waiting: dict[str, _Burst[T, R]] = {}

    async def join(self, key: str, item: T, lead: Callable[[Callable[[], list[T]]], Awaitable[R]]) -> R:
        """Returns what `lead` returns. `lead` takes a function, and calls it once when its turn has begun, to get the
        items of the burst.
        """
        burst = self._waiting.get(key)
        if burst is None or len(burst.items) >= self._max_size or burst.loop is not asyncio.get_running_loop():
            burst = self._waiting[key] = _Burst()
            burst.task = asyncio.ensure_future(self._lead(key, burst, lead))
        burst.items.append(item)
        burst.members += 1
        if (turn := this_turn()) is not None:
            burst.turns.append(turn)
        assert burst.task is not None, "the task is made with the burst"
        try:
            return await asyncio.shield(burst.task)
        except asyncio.CancelledError:
            if self._waiting.get(key) is burst:  # this request gave up before the turn began: its item goes
                burst.items = [other for other in burst.items if other is not item]
            raise
        finally:
            burst.members -= 1
            if burst.members == 0:  # the last request has left
                self._close(key, burst)  # else a request that comes now would be cancelled with it
                burst.task.cancel()

    async def _lead(self, key: str, burst: _Burst[T, R], lead: Callable[[Callable[[], list[T]]], Awaitable[R]]) -> R:
        def begin() -> list[T]:
            self._close(key, burst)
            return burst.items

        hold_up(burst.turns)
        try:
            return await lead(begin)
        finally:
            self._close(key, burst)

    def _close(self, key: str, burst: _Burst[T, R]) -> None:
        if self._waiting.get(key) is burst:
            del self._waiting[key]
