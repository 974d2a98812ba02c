"""One answer under a visitor's turn: gates -> choice -> graph or agent -> the chat, as it will be committed -> deliver.

Nothing is written here. What was said, what became of it, the metadata and the delivery are part of the turn: they
become real together with its commit, or not at all.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from inturn.agents import storable
from inturn.agents.call import MAX_TEXT, words_of
from inturn.agents.protocol import Agent, Ask
from inturn.app import InTurn
from inturn.errors import (
    AgentTimeout,
    AgentUnavailable,
    BadMessage,
    CommitUnknown,
    HandlerSignal,
    HandlerTimeout,
    LaneTimeout,
    LockError,
    StoreUnavailable,
)
from inturn.http.answer_events import RESTART, TYPING, AnswerEvent, token
from inturn.lanes.turn import Turn
from inturn.visitors.chat import Chat, ChatMessage, NewAnswer, Outcome, VisitorState, iso, iso_time
from inturn.visitors.conversations import LaneConversations
from inturn.visitors.graph.walk import MAX_ANSWER, Tool, ToolContext, Walk
from inturn.visitors.message import BusyPolicy, Posted, VisitorMessage
from inturn.visitors.presence import LanePresence, Presence
from inturn.visitors.projects import LaneProjects, Projects, ProjectSettings
from inturn.visitors.selection import GRAPH, Choice, choose, history_of, said_of, suspects

log = logging.getLogger("inturn.visitors")

_OURS = (StoreUnavailable, LockError, LaneTimeout, CommitUnknown)
"""Errors that have nothing to do with what the agent was asked."""
PASSING = (*_OURS, AgentTimeout, AgentUnavailable, HandlerTimeout, HandlerSignal)
"""Errors after which it hardly helps to ask again at once with fewer messages."""
_AWAY = (AgentTimeout, AgentUnavailable)
"""Of `PASSING`, these are still retried without the other messages if one of those has failed before: it may be a
question that no agent can finish.
"""

MEMORY = "agent_memory"
MAX_PIECE = 8000


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
    """What one turn has to answer in one conversation, with how long each message has waited for it.

    `is_alone`: it is the last attempt, or the lane has set its message apart: other messages are left out.
    """

    turn: Turn[VisitorState]
    events: Sequence[Posted]
    waited_s: Sequence[float]
    is_alone: bool = False

    @property
    def event(self) -> Posted:
        return self.events[0]

    @property
    def policy(self) -> BusyPolicy:
        return self.events[-1].policy


@dataclass(frozen=True, slots=True)
class Answerer:
    app: InTurn
    agent: Agent
    projects: Projects
    presence: Presence
    conversations: LaneConversations
    tools: Mapping[str, Tool]
    history: int

    async def answer(self, work: Work) -> dict[str, Answer | None]:
        """Answers in the turn's state. Returns the answer to each of the work's messages, by id; `None`: there is none,
        and the chat says why. Returns nothing at all if there is no such conversation.
        """
        project, closed = await self._gates(work.event)
        chat = await self._chat(work)
        if chat is None:
            _log_unanswered(work.event, closed or "there is no such conversation")
            return {}
        taken = [message for message in self._take_in(work, chat) if message is not None and message.may_be_answered]
        own = [message for number, message in enumerate(taken) if message not in taken[:number]]
        if own:
            if not closed and not chat.ai_enabled:
                closed = "the conversation has ai_enabled off"
            if closed or project is None:
                _log_unanswered(work.event, closed)
                chat.settle({message.id: "unanswered" for message in own}, iso_time(self.app))
            else:
                await self._speak(work, project, chat, own)
        work.turn.state.keep(chat)
        return {event.message_id: read_answer(chat, chat.answer_to(event.message_id)) for event in work.events}

    async def knows(self, work: Work) -> bool:
        """Returns whether the conversation exists."""
        return await self._chat(work) is not None

    async def settle(self, work: Work, outcome: Outcome, *, is_left_out: bool = False) -> None:
        """Gives all messages of the work this outcome, unless they have one."""
        chat = await self._chat(work)
        if chat is not None:
            self.settle_in(work, chat, outcome, is_left_out=is_left_out)

    def settle_in(self, work: Work, chat: Chat, outcome: Outcome, *, is_left_out: bool = False) -> None:
        own = [message for message in self._take_in(work, chat) if message is not None and message.may_be_answered]
        for message in own:
            message.is_left_out = message.is_left_out or is_left_out
        chat.settle({message.id: outcome for message in own}, iso_time(self.app))
        work.turn.state.keep(chat)

    async def _gates(self, event: VisitorMessage) -> tuple[ProjectSettings | None, str]:
        """Returns the settings of the project, and why it does not answer ('': it does)."""
        projects, presence, names = self.projects, self.presence, (event.project_id, event.tenant_id)
        if type(projects) is LaneProjects and type(presence) is LanePresence:  # a subclass may answer otherwise
            project, is_online = await projects.with_presence(*names)  # one lane has both
        else:
            project = await projects.get(*names)
            is_online = project is not None and project.enabled and await presence.human_online(*names)
        if project is None or not project.enabled:
            return project, "AI answers are off for this project"
        return project, "a human agent is online" if is_online else ""

    async def _chat(self, work: Work) -> Chat | None:
        """Returns the chat of the work's messages. The first message of a conversation begins it."""
        event, state = work.event, work.turn.state
        chat = state.find(event.conversation_id, event.tenant_id)
        if chat is None:
            owner = await self.conversations.owner(event.conversation_id, event.tenant_id, is_fresh=True)
            if owner is not None:
                chat = state.find_or_begin(conversation_id=event.conversation_id, **owner.model_dump())
        return chat if chat is not None and chat.is_of(event.project_id, event.visitor_uid) else None

    def _take_in(self, work: Work, chat: Chat) -> list[ChatMessage | None]:
        now_s = self.app.runtime.now_s()
        return [
            chat.take_in(event, iso(now_s - waited_s))
            for event, waited_s in zip(work.events, work.waited_s, strict=True)
        ]

    async def _speak(
        self, work: Work, project: ProjectSettings, chat: Chat, own: Sequence[ChatMessage], is_narrow: bool = False
    ) -> None:
        """Answers, and if that fails because of another message perhaps, once more without the others."""
        if project.deliver is not None:
            self.app.runtime.handler(project.deliver)  # raises for an unknown handler before any agent is asked
        is_narrow = is_narrow or work.is_alone
        choice = choose(chat, work.policy, own, is_narrow)
        history = history_of(chat, choice, self.history, is_narrow)
        try:
            await self._say(work, project, chat, choice, history)
        except _OURS:
            raise
        except Exception as error:
            others = suspects(chat, (*choice.burst, *history), own)
            is_worth_it = not isinstance(error, PASSING) or (
                isinstance(error, _AWAY) and any(other.outcome == "failed" for other in others)
            )
            if is_narrow or not others or not is_worth_it:
                raise
            # another message may be at fault, and must not cost these their answer
            log.warning("conversation=%s: answering its own messages alone: %s", chat.conversation_id, error)
            Speaker(work.turn, chat.conversation_id).restart()
            await self._speak(work, project, chat, own, is_narrow=True)
            for other in others:  # from now on only their own turns try them
                other.is_left_out = True

    async def _say(
        self, work: Work, project: ProjectSettings, chat: Chat, choice: Choice, history: Sequence[ChatMessage]
    ) -> None:
        metadata, before = deepcopy(chat.metadata), said_of(history)
        speaker = Speaker(work.turn, chat.conversation_id)
        speaker.typing()

        async def ask(instructions: str) -> str:
            kept = metadata.get(MEMORY)
            memory = kept if isinstance(kept, dict) else {}
            told = "\n\n".join(text for text in (project.instructions, instructions) if text)
            question = Ask(
                conversation_id=chat.conversation_id,
                query=choice.text,
                text=choice.text,
                history=before,
                instructions=told,
                memory=memory,
            )
            words = await words_of(self.agent, question, MAX_ANSWER, speaker)
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
            text, by = await walk.go(), self.agent.name if walk.has_asked else GRAPH
        chat.set_metadata(metadata)
        at, answer = iso_time(self.app), None
        if text.strip():
            answers = tuple(message.id for message in choice.burst)
            answer = NewAnswer(id=uuid.uuid4().hex, text=text, at=at, answers=answers, agent=by)
        else:
            _log_unanswered(work.event, "the answer is empty")
        outcomes: dict[str, Outcome] = {message.id: "superseded" for message in choice.superseded}
        outcomes |= {message.id: "answered" if answer is not None else "unanswered" for message in choice.burst}
        chat.settle(outcomes, at, answer)
        if answer is not None and project.deliver is not None:
            self._deliver(work, project.deliver, answer)

    def _deliver(self, work: Work, handler: str, answer: NewAnswer) -> None:
        """Sends the answer to the project's handler, with the commit of the turn or not at all."""
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


def read_answer(chat: Chat, message: ChatMessage | None) -> Answer | None:
    if message is None:
        return None
    return Answer(
        conversation_id=chat.conversation_id,
        id=message.id,
        seq=message.seq,
        text=message.text,
        answers=tuple(message.answers),
        agent=message.agent,
        at=message.at,
    )


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
