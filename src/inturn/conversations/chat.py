"""A chat as it is stored: its newest messages with their outcomes, its metadata, and the highest fence that wrote.

It is bounded: the oldest messages that are settled go first, and what waits for its answer is never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field
from pydantic_core import to_json

from inturn.conversations.event import VisitorMessage
from inturn.conversations.patch import Patch, apply
from inturn.errors import ConversationError, LeaseLost, MailboxFull

MAX_MESSAGES = 500
MAX_BYTES = 512 * 1024

Outcome = Literal["answered", "unanswered", "superseded", "dropped"]


class ChatMoved(ConversationError):
    """A message that was to be settled has been settled by someone else meanwhile: look again, and decide anew."""

    def __init__(self, conversation_id: str, message_id: str) -> None:
        super().__init__(f"message {message_id!r} of conversation {conversation_id!r} has been settled meanwhile")
        self.conversation_id = conversation_id
        self.message_id = message_id


class ChatMessage(BaseModel):
    """`outcome` is of visitors' messages (`None`: it waits), `answers` and `agent` are of assistants'."""

    seq: int
    id: str
    role: Literal["visitor", "assistant"]
    text: str
    at: str
    outcome: Outcome | None = None
    answers: list[str] = Field(default_factory=list)
    agent: str = ""

    @property
    def is_waiting(self) -> bool:
        return self.role == "visitor" and self.outcome is None


class Added(NamedTuple):
    """A visitor's message as it is in the chat. Not `is_new`: it was there, and someone may be answering it now."""

    message: ChatMessage
    is_new: bool


@dataclass(frozen=True, slots=True)
class NewAnswer:
    id: str
    text: str
    at: str
    answers: tuple[str, ...]
    agent: str


@dataclass(frozen=True, slots=True)
class Change:
    """One write to a chat. `fence`: of the turn that makes it; `None` for one that is made outside of any turn."""

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    answer: NewAnswer | None = None
    patch: Patch = ()
    fence: int | None = None


class Chat(BaseModel):
    conversation_id: str
    project_id: str
    visitor_uid: str
    tenant_id: str = ""
    ai_enabled: bool = True
    metadata: dict[str, Any] = Field(default_factory=dict)
    messages: list[ChatMessage] = Field(default_factory=list)
    next_seq: int = 1
    fence: int = 0

    def is_of(self, project_id: str, visitor_uid: str) -> bool:
        return (self.project_id, self.visitor_uid) == (project_id, visitor_uid)

    def said(self, message_id: str) -> ChatMessage | None:
        """The visitor's message of this id."""
        return next((m for m in reversed(self.messages) if m.role == "visitor" and m.id == message_id), None)

    def answer_to(self, message_id: str) -> ChatMessage | None:
        return next((m for m in reversed(self.messages) if message_id in m.answers), None)

    def waiting(self) -> list[ChatMessage]:
        return [message for message in self.messages if message.is_waiting]

    def add(self, message: VisitorMessage, at: str) -> Added:
        """Once by its id. `MailboxFull` if too many wait already."""
        found = self.said(message.message_id)
        if found is not None:
            return Added(found, False)
        added = self._append(ChatMessage(seq=0, id=message.message_id, role="visitor", text=message.text, at=at))
        self._make_room()
        if len(self.messages) > MAX_MESSAGES or self._is_too_large():
            self.messages.remove(added)
            raise MailboxFull(f"chat:{self.conversation_id}", len(self.waiting()))
        return Added(added, True)

    def change(self, change: Change) -> None:
        """Nothing is changed if the fence is old, or one of the messages has been settled meanwhile."""
        if change.fence is not None and change.fence < self.fence:
            raise LeaseLost(f"chat:{self.conversation_id}", change.fence, f"fence {self.fence} has written since")
        settled = {message_id: self.said(message_id) for message_id in change.outcomes}
        for message_id, found in settled.items():
            if found is None or not found.is_waiting:
                raise ChatMoved(self.conversation_id, message_id)
        for message_id, found in settled.items():
            assert found is not None, "looked at above"
            found.outcome = change.outcomes[message_id]
        answer = change.answer
        if answer is not None:
            self._append(
                ChatMessage(
                    seq=0, id=answer.id, role="assistant", text=answer.text, at=answer.at,
                    answers=list(answer.answers), agent=answer.agent,
                )
            )  # fmt: skip
        self.metadata = apply(change.patch, self.metadata)
        self.fence = max(self.fence, change.fence or 0)
        self._make_room(keep_from=self.next_seq - 1 if answer is not None else None)

    def _append(self, message: ChatMessage) -> ChatMessage:
        message.seq, self.next_seq = self.next_seq, self.next_seq + 1
        self.messages.append(message)
        return message

    def _make_room(self, keep_from: int | None = None) -> None:
        """The oldest settled ones go; what was just written stays."""
        over = max(0, len(self.messages) - MAX_MESSAGES)
        bytes_over = self._size() - MAX_BYTES
        kept = []
        for message in self.messages:
            may_go = not message.is_waiting and (keep_from is None or message.seq < keep_from)
            if may_go and (over > 0 or bytes_over > 0):
                over -= 1
                bytes_over -= len(to_json(message)) + 1
            else:
                kept.append(message)
        self.messages = kept

    def _is_too_large(self) -> bool:
        return self._size() > MAX_BYTES

    def _size(self) -> int:
        # a character takes six bytes at most: most chats need not be written to know that they are small
        most = sum(6 * (len(message.text) + len(message.id)) + 300 for message in self.messages)
        return most if most <= MAX_BYTES else len(to_json(self.messages))
