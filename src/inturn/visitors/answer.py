"""One answer under a visitor's turn: gates -> choice -> graph or agent -> save -> deliver.

Nothing is written before `save`, which is one write. If the process dies between `save` and the commit of the turn,
the next turn finds the messages answered: it asks no agent, and only makes sure that the answer is delivered.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from inturn.agents import storable
from inturn.agents.call import MAX_TEXT, activities_of, kept_memory
from inturn.agents.protocol import Agent, Ask
from inturn.app import InTurn
from inturn.errors import (
    AgentTimeout,
    AgentUnavailable,
    BadMessage,
    ChatMoved,
    CommitUnknown,
    HandlerSignal,
    HandlerTimeout,
    LaneTimeout,
    LockError,
    StoreUnavailable,
)
from inturn.http.answer_events import RESTART, TYPING, AnswerEvent, token
from inturn.lanes.turn import Turn
from inturn.visitors.chat import Change, Chat, ChatMessage, ConversationStore, NewAnswer, Outcome, iso_time
from inturn.visitors.graph.walk import Tool, ToolContext, Walk
from inturn.visitors.message import BusyPolicy, VisitorMessage
from inturn.visitors.patch import difference
from inturn.visitors.presence import Presence
from inturn.visitors.projects import Projects, ProjectSettings
from inturn.visitors.selection import GRAPH, Choice, choose, history_of, said_of, suspects

log = logging.getLogger("inturn.visitors")

_OURS = (StoreUnavailable, LockError, LaneTimeout, CommitUnknown, ChatMoved)
"""Errors that have nothing to do with what the agent was asked."""
_PASSING = (*_OURS, AgentTimeout, AgentUnavailable, HandlerTimeout, HandlerSignal)
"""Errors after which it hardly helps to ask again at once with fewer messages."""
_AWAY = (AgentTimeout, AgentUnavailable)
"""Of `_PASSING`, these are still retried without the other messages if one of those has failed before: it may be a
question that no agent can finish.
"""

MEMORY = "agent_memory"
MAX_LOOKS = 5
MAX_PIECE = 8000
MAX_ANSWER = 32_000
"""Characters. A longer answer is cut: its result and its delivery have to fit into the store."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to one or more messages of a visitor."""

    conversation_id: str
    id: str
    seq: int
    text: str
    answers: tuple[str, ...]
    agent: str
    at: str


@dataclass(frozen=True, slots=True)
class Work:
    """What one turn has to answer in one conversation. `is_last`: this is the last attempt.

    `is_narrow`: answer its own messages alone, after an answer that also saw those of `left_out` has failed.
    """

    turn: Turn[Any]
    policy: BusyPolicy
    events: Sequence[VisitorMessage]
    is_last: bool = False
    is_narrow: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def event(self) -> VisitorMessage:
        return self.events[0]

    @property
    def own(self) -> list[str]:
        return [event.message_id for event in self.events]


@dataclass(frozen=True, slots=True)
class Answerer:
    app: InTurn
    agent: Agent
    projects: Projects
    presence: Presence
    conversations: ConversationStore
    tools: Mapping[str, Tool]
    history: int

    async def answer(self, work: Work) -> Answer | None:
        """Returns the answer to the work's own messages, or `None` if there is none; the chat says why."""
        for look in range(1, MAX_LOOKS + 1):
            try:
                return await self._answer(work)
            except ChatMoved as moved:
                # the save of an earlier turn that was cut off has succeeded after all
                if look == MAX_LOOKS:
                    raise
                log.info("%s: deciding again", moved)
                Speaker(work.turn, work.event.conversation_id).restart()
        raise AssertionError("the last look returns or raises")

    async def absent(self, event: VisitorMessage) -> None:
        """Logs why a message of a missing conversation gets no answer: the first closed gate, or that it is missing."""
        project = await self.projects.get(event.project_id, event.tenant_id)
        _log_unanswered(event, await self._closed_gate(project, event) or "there is no such conversation")

    async def _answer(self, work: Work) -> Answer | None:
        event = work.event
        project = await self.projects.get(event.project_id, event.tenant_id)
        closed = await self._closed_gate(project, event)
        chat = await self._chat(work)
        if chat is None:
            _log_unanswered(event, closed or "there is no such conversation")
            return None
        choice = choose(chat, work.policy, work.own, work.is_narrow)
        if not choice.burst:
            return self._found(work, project, chat)
        if not closed and not chat.ai_enabled:
            closed = "the conversation has ai_enabled off"
        if closed or project is None:
            _log_unanswered(event, closed)
            await self._save(work, Change(_outcomes(choice, "unanswered"), fence=work.turn.fence))
            return None
        if project.deliver is not None:
            self.app.runtime.handler(project.deliver)  # raises for an unknown handler before any agent is asked
        history = history_of(chat, choice, self.history, work.is_narrow)
        if work.turn.attempt > 1:
            await self._note_deaths(work, choice)
        try:
            return await self._speak(work, project, chat, choice, history)
        except _OURS:
            raise
        except Exception as error:
            await self._note(work, Change(tried=_ids(choice.burst), fence=work.turn.fence))
            others = suspects(chat, (*choice.burst, *history), work.own)
            is_worth_it = not isinstance(error, _PASSING) or (
                isinstance(error, _AWAY) and any(other.has_failed for other in others)
            )
            if work.is_narrow or not others or not is_worth_it:
                raise
            # another message may be at fault, and must not cost this one its answer
            log.warning("conversation=%s: answering its own messages alone: %s", event.conversation_id, error)
            Speaker(work.turn, event.conversation_id).restart()
            return await self._answer(replace(work, is_narrow=True, left_out=_ids(others)))

    async def _note_deaths(self, work: Work, choice: Choice) -> None:
        """Notes what a process that dies cannot note: that an earlier attempt died, and, before the last attempt, that
        its messages have failed. If this attempt ends alive, it overwrites that with the real outcome.
        """
        died_over = _ids(message for message in choice.burst if message.tries == 0)
        outcomes: dict[str, Outcome] = {
            message.id: "failed" for message in choice.burst if work.is_last and message.is_waiting
        }
        if died_over or outcomes:
            await self._note(work, Change(outcomes, fence=work.turn.fence, tried=died_over, left_out=died_over))

    async def _note(self, work: Work, change: Change) -> None:
        """Saves the change if it can. A failure here is only logged, so that it never hides the error of the answer."""
        try:
            await self._save(work, change)
        except Exception as error:  # noqa: BLE001 - another store may raise anything
            log.warning("conversation=%s: a failed attempt was not recorded: %s", work.event.conversation_id, error)

    async def _closed_gate(self, project: ProjectSettings | None, event: VisitorMessage) -> str:
        if project is None or not project.enabled:
            return "AI answers are off for this project"
        if await self.presence.human_online(event.project_id, event.tenant_id):
            return "a human agent is online"
        return ""

    async def _chat(self, work: Work) -> Chat | None:
        """Returns the chat with the work's own messages in it: under `reject` they are added only now, and old ones
        may have left.
        """
        event = work.event
        chat = await self.conversations.get(event.conversation_id, event.tenant_id)
        if chat is None or not chat.is_of(event.project_id, event.visitor_uid):
            return None
        missing = [event for event in work.events if chat.known(event.message_id) is None]
        for event in missing:
            if await self.conversations.add(event.conversation_id, event, work.policy) is None:
                return None
        return await self.conversations.get(event.conversation_id, event.tenant_id) if missing else chat

    async def _speak(
        self, work: Work, project: ProjectSettings, chat: Chat, choice: Choice, history: Sequence[ChatMessage]
    ) -> Answer | None:
        event, metadata, before = work.event, deepcopy(chat.metadata), said_of(history)
        speaker = Speaker(work.turn, event.conversation_id)
        speaker.typing()

        async def ask(instructions: str) -> str:
            kept = metadata.get(MEMORY)
            memory = kept if isinstance(kept, dict) else {}
            told = "\n\n".join(text for text in (project.instructions, instructions) if text)
            question = Ask(
                conversation_id=event.conversation_id,
                query=choice.text,
                text=choice.text,
                history=before,
                instructions=told,
                memory=memory,
            )
            words = await ask_agent(self.agent, question, speaker)
            if memory:
                metadata[MEMORY] = memory
            return words

        if project.graph is None:
            text, by = await ask(""), self.agent.name
        else:
            walk = Walk(
                graph=project.graph,
                metadata=metadata,
                text=choice.text,
                ask=ask,
                tools=self.tools,
                context=_context_of(work, choice),
            )
            text, by = (await walk.go())[:MAX_ANSWER], self.agent.name if walk.has_asked else GRAPH
        answer = None
        if text.strip():
            answers = tuple(message.id for message in choice.burst)
            answer = NewAnswer(id=uuid.uuid4().hex, text=text, at=iso_time(self.app), answers=answers, agent=by)
        outcomes = _outcomes(choice, "answered" if answer is not None else "unanswered")
        # their own turns may never come; if one does, it still answers them
        outcomes |= {message.id: "failed" for message in chat.waiting() if message.id in work.left_out}
        patch = difference(chat.metadata, metadata)
        change = Change(outcomes, answer, patch=patch, fence=work.turn.fence, left_out=work.left_out)
        saved = await self._save(work, change)
        if answer is None:
            _log_unanswered(event, "the answer is empty")
        return self._found(work, project, saved, "" if answer is None else answer.id)

    async def _save(self, work: Work, change: Change) -> Chat:
        return await self.conversations.save(work.event.conversation_id, change, work.event.tenant_id)

    def _found(self, work: Work, project: ProjectSettings | None, chat: Chat, written: str = "") -> Answer | None:
        """Returns the newest answer to the work's own messages, and delivers every answer that concerns them.

        `written`: the id of the answer that was just written. Under `latest` and `rollback` it may answer other
        messages. If the turn was cut off after that write, the next turn finds its own messages superseded by it.
        """
        mine = {answer.seq: answer for answer in map(chat.answer_to, work.own) if answer is not None}
        if project is not None and project.deliver is not None:
            said = (chat.said(message_id) for message_id in work.own)
            by = [chat.superseding(message) for message in said if message and message.outcome == "superseded"]
            new = [message for message in chat.messages if written and message.id == written and message.answers]
            related = mine | {answer.seq: answer for answer in (*by, *new) if answer is not None}
            for seq in sorted(related):
                self._deliver(work, project.deliver, related[seq])
        return read_answer(chat, mine[max(mine)]) if mine else None

    def _deliver(self, work: Work, handler: str, answer: ChatMessage) -> None:
        """Sends the answer to the project's handler, with the commit of the turn or not at all.

        It is sent again whenever it is found, because a turn that was cut off after `save` has sent nothing. The
        handler takes it once per id. An answer older than the handler's duplicate window is not sent: it was committed
        long ago.
        """
        age_s = self.app.runtime.now_s() - datetime.fromisoformat(answer.at).timestamp()
        if age_s * 1000 >= self.app.runtime.handler(handler).timing.window_ms:
            return
        event = work.event
        body = {
            "conversation_id": event.conversation_id,
            "project_id": event.project_id,
            "visitor_uid": event.visitor_uid,
            "tenant_id": event.tenant_id,
            "message_id": answer.id,
            "text": answer.text,
            "answers": answer.answers,
            "agent": answer.agent,
            "at": answer.at,
        }
        work.turn.send(handler, body, message_id=f"{event.conversation_id}/{answer.id}")


class Speaker:
    """Streams what one turn writes in one conversation to its watchers."""

    def __init__(self, turn: Turn[Any], conversation_id: str) -> None:
        self._turn = turn
        self._conversation_id = conversation_id

    def typing(self) -> None:
        self._say(TYPING)

    def restart(self) -> None:
        """The pieces streamed so far are not part of the answer."""
        self._say(RESTART)

    def piece(self, text: str) -> None:
        text = storable.text(text, MAX_TEXT)
        for start in range(0, len(text), MAX_PIECE):
            self._say(token(text[start : start + MAX_PIECE]))

    def _say(self, event: AnswerEvent) -> None:
        try:
            self._turn.stream({"conversation_id": self._conversation_id, **event.chunk})
        except BadMessage as error:  # chunks are hints: a bad one must not cost the answer
            log.debug("conversation=%s: a chunk was not streamed: %s", self._conversation_id, error)


async def ask_agent(agent: Agent, ask: Ask, speaker: Speaker) -> str:
    """Returns the agent's words ('' if there are none) and streams them as they come. Reduces `ask.memory` to what can
    be stored.
    """
    said: list[str] = []
    async with aclosing(activities_of(agent, ask)) as activities:
        async for activity in activities:
            if activity.is_restart:
                said.clear()
                speaker.restart()
            elif activity.type == "typing" and activity.text:
                speaker.piece(activity.text)
            elif activity.type == "message" and activity.text.strip() and activity.sender.get("role") != "user":
                said.append(activity.text.strip())
    kept = kept_memory(agent, ask)
    ask.memory.clear()
    ask.memory.update(kept)
    answer = storable.text("\n\n".join(said), 2 * MAX_TEXT)
    if len(answer) > MAX_ANSWER:
        log.warning("the answer of agent %s has %d characters and was cut", agent.name, len(answer))
    return answer[:MAX_ANSWER]


def read_answer(chat: Chat, message: ChatMessage) -> Answer:
    return Answer(
        conversation_id=chat.conversation_id,
        id=message.id,
        seq=message.seq,
        text=message.text,
        answers=tuple(message.answers),
        agent=message.agent,
        at=message.at,
    )


def _ids(messages: Iterable[ChatMessage]) -> tuple[str, ...]:
    return tuple(message.id for message in messages)


def _outcomes(choice: Choice, outcome: Outcome) -> dict[str, Outcome]:
    superseded: dict[str, Outcome] = {message.id: "superseded" for message in choice.superseded}
    return superseded | {message.id: outcome for message in choice.burst}


def _context_of(work: Work, choice: Choice) -> Callable[[dict[str, Any]], ToolContext]:
    event, texts = work.event, tuple(message.text for message in choice.burst)
    ids = tuple(message.id for message in choice.burst)

    def make(fields: dict[str, Any]) -> ToolContext:
        return ToolContext(
            conversation_id=event.conversation_id,
            project_id=event.project_id,
            visitor_uid=event.visitor_uid,
            tenant_id=event.tenant_id,
            fence=work.turn.fence,
            texts=texts,
            message_ids=ids,
            fields=fields,
        )

    return make


def _log_unanswered(event: VisitorMessage, why: str) -> None:
    log.info(
        "unanswered conversation=%s visitor=%s message=%s: %s",
        event.conversation_id, event.visitor_uid, event.message_id, why,
    )  # fmt: skip
