"""One answer under a visitor's turn: gates -> choice -> graph or agent -> save -> deliver.

Nothing is written before `save`, which is one write. If the process dies between it and the commit of the turn, the
next turn finds the messages answered, asks nobody, and only sees to it that the answer is delivered.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from inturn.agents.protocol import Agent, Ask
from inturn.app import InTurn
from inturn.visitors.chat import Change, Chat, ChatMessage, ChatMoved, NewAnswer, Outcome
from inturn.conversations.chats import ConversationStore, iso_time
from inturn.visitors.selection import WORKFLOW, Choice, choose, history_of, said_of, suspects
from inturn.conversations.delivering import deliver
from inturn.visitors.message import BusyPolicy, VisitorMessage
from inturn.visitors.graph.walk import Tool, ToolContext, Walk
from inturn.visitors.patch import difference
from inturn.visitors.presence import Presence
from inturn.visitors.projects import Projects, ProjectSettings
from inturn.conversations.speaking import MAX_ANSWER, Speaker, ask_agent
from inturn.errors import (
    AgentTimeout,
    AgentUnavailable,
    CommitUnknown,
    HandlerSignal,
    HandlerTimeout,
    LaneTimeout,
    LockError,
    StoreUnavailable,
)
from inturn.lanes.turn import Turn

log = logging.getLogger("inturn.conversations")

_OURS = (StoreUnavailable, LockError, LaneTimeout, CommitUnknown, ChatMoved)
"""Errors that have nothing to do with what was asked."""
_PASSING = (*_OURS, AgentTimeout, AgentUnavailable, HandlerTimeout, HandlerSignal)
"""Errors after which asking at once for less would hardly help."""
_AWAY = (AgentTimeout, AgentUnavailable)
"""But these may come from what has failed before: a question that no agent comes to an end with."""

MEMORY = "agent_memory"
MOST_LOOKS = 5


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
    """What one turn is to answer in one conversation. `is_last`: it gets no other attempt.

    `is_narrow`: nothing but its own messages, after an answer with those of `left_out` has failed.
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
class Answering:
    app: InTurn
    agent: Agent
    projects: Projects
    presence: Presence
    conversations: ConversationStore
    tools: Mapping[str, Tool]
    history: int

    async def answer(self, work: Work) -> Answer | None:
        """The answer to the work's own messages; `None` if there is none, and the chat says why."""
        for look in range(1, MOST_LOOKS + 1):
            try:
                return await self._answer(work)
            except ChatMoved as moved:
                # a turn that was cut short while it saved has come through after all
                if look == MOST_LOOKS:
                    raise
                log.info("%s: deciding anew", moved)
                Speaker(work.turn, work.event.conversation_id).restart()
        raise AssertionError("the last look returns or raises")

    async def absent(self, event: VisitorMessage) -> None:
        """There is no such conversation: that is a gate like the others, and the last but one."""
        project = await self.projects.get(event.project_id, event.tenant_id)
        _tell_unanswered(event, await self._closed_gate(project, event) or "there is no such conversation")

    async def _answer(self, work: Work) -> Answer | None:
        event = work.event
        project = await self.projects.get(event.project_id, event.tenant_id)
        closed = await self._closed_gate(project, event)
        chat = await self._chat(work)
        if chat is None:
            _tell_unanswered(event, closed or "there is no such conversation")
            return None
        choice = choose(chat, work.policy, work.own, work.is_narrow)
        if not choice.burst:
            return self._found(work, project, chat)
        if not closed and not chat.ai_enabled:
            closed = "the conversation has ai_enabled off"
        if closed or project is None:
            _tell_unanswered(event, closed)
            await self._save(work, Change(_outcomes(choice, "unanswered"), fence=work.turn.fence))
            return None
        if project.deliver is not None:
            self.app.runtime.handler(project.deliver)  # before anybody is asked: an unknown one could not be sent to
        history = history_of(chat, choice, self.history, work.is_narrow)
        if work.turn.attempt > 1:
            await self._foresee(work, choice)
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
            # another message may be at fault: it must not cost this one its answer, now and for ever
            log.warning("conversation=%s: answering its own messages alone: %s", event.conversation_id, error)
            Speaker(work.turn, event.conversation_id).restart()
            return await self._answer(replace(work, is_narrow=True, left_out=_ids(others)))

    async def _foresee(self, work: Work, choice: Choice) -> None:
        """A process that died while it answered has counted nothing, and one that dies in the last attempt will say
        nothing: if we get that far, we say it better.
        """
        died_over = _ids(message for message in choice.burst if message.tries == 0)
        outcomes: dict[str, Outcome] = {
            message.id: "failed" for message in choice.burst if work.is_last and message.is_waiting
        }
        if died_over or outcomes:
            await self._note(work, Change(outcomes, fence=work.turn.fence, tried=died_over, left_out=died_over))

    async def _note(self, work: Work, change: Change) -> None:
        """As far as it can be written: an error must not be hidden."""
        try:
            await self._save(work, change)
        except Exception as error:  # noqa: BLE001 - also that of someone else's store
            log.warning("conversation=%s: a failed try was not noted: %s", work.event.conversation_id, error)

    async def _closed_gate(self, project: ProjectSettings | None, event: VisitorMessage) -> str:
        if project is None or not project.enabled:
            return "the project does not answer by AI"
        if await self.presence.human_online(event.project_id, event.tenant_id):
            return "a human agent is online"
        return ""

    async def _chat(self, work: Work) -> Chat | None:
        """With the work's own messages in it: a rejecting project adds them only here, and old ones may have left."""
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
                event.conversation_id, choice.text, choice.text, history=before, instructions=told, memory=memory
            )  # fmt: skip
            words = await ask_agent(self.agent, question, speaker)
            if memory:
                metadata[MEMORY] = memory
            return words

        if project.graph is None:
            text, by = await ask(""), self.agent.name
        else:
            walk = Walk(project.graph, metadata, choice.text, ask, self.tools, _context_of(work, choice))
            text, by = (await walk.go())[:MAX_ANSWER], self.agent.name if walk.has_asked else WORKFLOW
        answer = None
        if text.strip():
            answers = tuple(message.id for message in choice.burst)
            answer = NewAnswer(uuid.uuid4().hex, text, iso_time(self.app), answers, by)
        outcomes = _outcomes(choice, "answered" if answer is not None else "unanswered")
        # nobody may be there to try them by themselves: if someone is, it answers them all the same
        outcomes |= {message.id: "failed" for message in chat.waiting() if message.id in work.left_out}
        patch = difference(chat.metadata, metadata)
        saved = await self._save(work, Change(outcomes, answer, patch, work.turn.fence, left_out=work.left_out))
        if answer is None:
            _tell_unanswered(event, "the answer is empty")
        return self._found(work, project, saved, "" if answer is None else answer.id)

    async def _save(self, work: Work, change: Change) -> Chat:
        return await self.conversations.save(work.event.conversation_id, change, work.event.tenant_id)

    def _found(self, work: Work, project: ProjectSettings | None, chat: Chat, written: str = "") -> Answer | None:
        """The newest answer to the work's own messages. What has to do with them is delivered, if it has not been.

        `written`: the id of the answer that was just written. With replacing policies it may be to other messages than
        the work's own, and if a turn is cut off after it, the next turn finds its own superseded by it.
        """
        mine = {answer.seq: answer for answer in map(chat.answer_to, work.own) if answer is not None}
        if project is not None and project.deliver is not None:
            said = (chat.said(message_id) for message_id in work.own)
            by = [chat.superseding(message) for message in said if message and message.outcome == "superseded"]
            new = [message for message in chat.messages if written and message.id == written and message.answers]
            related = mine | {answer.seq: answer for answer in (*by, *new) if answer is not None}
            for seq in sorted(related):
                deliver(work.turn, work.event, project.deliver, related[seq])
        return read_answer(chat, mine[max(mine)]) if mine else None


def read_answer(chat: Chat, message: ChatMessage) -> Answer:
    return Answer(
        chat.conversation_id, message.id, message.seq, message.text, tuple(message.answers), message.agent, message.at
    )


def _ids(messages: Iterable[ChatMessage]) -> tuple[str, ...]:
    return tuple(message.id for message in messages)


def _outcomes(choice: Choice, outcome: Outcome) -> dict[str, Outcome]:
    superseded: dict[str, Outcome] = {message.id: "superseded" for message in choice.superseded}
    return superseded | {message.id: outcome for message in choice.burst}


def _context_of(work: Work, choice: Choice) -> Any:
    event, texts = work.event, tuple(message.text for message in choice.burst)
    ids = tuple(message.id for message in choice.burst)

    def make(fields: dict[str, Any]) -> ToolContext:
        return ToolContext(
            event.conversation_id, event.project_id, event.visitor_uid, event.tenant_id, work.turn.fence, texts, ids,
            fields,
        )  # fmt: skip

    return make


def _tell_unanswered(event: VisitorMessage, why: str) -> None:
    log.info(
        "unanswered conversation=%s visitor=%s message=%s: %s",
        event.conversation_id, event.visitor_uid, event.message_id, why,
    )  # fmt: skip
