"""A chat as it is stored: its newest messages with their outcomes, its metadata, and the highest fence that wrote.

It is bounded: the oldest messages that are settled go first, and what waits for its answer is never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field
from pydantic_core import to_json

from inturn.visitors.message import BusyPolicy, VisitorMessage
from inturn.visitors.patch import Patch, apply, largest
from inturn.errors import ConversationError, LeaseLost, MailboxFull, TooLarge
from inturn.lanes import text

MAX_MESSAGES = 500
MAX_BYTES = 512 * 1024
"""Of its messages. With the metadata, the ids of those that left and one long answer it is still a state of a lane."""
MAX_METADATA = 256 * 1024
GONE_FOR_S = 86400.0
MAX_GONE_BYTES = 48 * 1024

Outcome = Literal["answered", "unanswered", "superseded", "dropped", "failed"]


class ChatMoved(ConversationError):
    """A message that was to be settled has been settled by someone else meanwhile: look again, and decide anew."""

    def __init__(self, conversation_id: str, message_id: str) -> None:
        super().__init__(f"message {message_id!r} of conversation {conversation_id!r} has been settled meanwhile")
        self.conversation_id = conversation_id
        self.message_id = message_id


class ChatMessage(BaseModel):
    """`outcome` is of visitors' messages (`None`: it waits), `answers` and `agent` are of assistants'.

    `policy` is the one that it came under first (`None`: nobody said), `tries` are the failed attempts to answer it.
    `is_left_out`: only turns of its own try it. An answer failed with it and came through without it, or a process may
    have died over it. `settled_at`: the number that the next message was to have when it got its outcome.
    """

    seq: int
    id: str
    role: Literal["visitor", "assistant"]
    text: str
    at: str
    outcome: Outcome | None = None
    answers: list[str] = Field(default_factory=list)
    agent: str = ""
    policy: BusyPolicy | None = None
    tries: int = 0
    is_left_out: bool = False
    settled_at: int = 0

    @property
    def is_waiting(self) -> bool:
        return self.role == "visitor" and self.outcome is None

    @property
    def may_be_answered(self) -> bool:
        """By a turn of its own. What failed for good may be replayed, or repeated; and a repeat that found the visitor
        busy may have dropped the very message that is being answered.
        """
        return self.role == "visitor" and self.outcome in (None, "failed", "dropped")

    @property
    def is_open(self) -> bool:
        """It waits, or has failed: whoever answers next should have seen it."""
        return self.role == "visitor" and self.outcome in (None, "failed")

    @property
    def has_failed(self) -> bool:
        return self.outcome == "failed" or self.tries > 0


class Gone(BaseModel):
    """What is left of a message that made room for others. `at`: when it did, in Unix time."""

    outcome: Outcome
    at: float


class Known(NamedTuple):
    """What a chat knows of a visitor's message. Not `is_new`: it was there, and someone may be answering it now.

    `outcome` `None`: it waits. `policy`: the one that it came under first. `is_gone`: it has left, and is remembered.
    """

    outcome: Outcome | None
    policy: BusyPolicy | None = None
    is_new: bool = False
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class NewAnswer:
    id: str
    text: str
    at: str
    answers: tuple[str, ...]
    agent: str


@dataclass(frozen=True, slots=True)
class Change:
    """One write to a chat. `fence`: of the turn that makes it; `None` for one that is made outside of any turn.

    `tried`: ids of messages whose answer has failed once more. `left_out`: of those that only their own turns try from
    now on. `retracted`: of waiting ones that no lane has taken.
    """

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    answer: NewAnswer | None = None
    patch: Patch = ()
    fence: int | None = None
    tried: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()


class Chat(BaseModel):
    conversation_id: str
    project_id: str
    visitor_uid: str
    tenant_id: str = ""
    ai_enabled: bool = True
    metadata: dict[str, Any] = Field(default_factory=dict)
    messages: list[ChatMessage] = Field(default_factory=list)
    gone: dict[str, Gone] = Field(default_factory=dict)
    next_seq: int = 1
    fence: int = 0

    def is_of(self, project_id: str, visitor_uid: str) -> bool:
        return (self.project_id, self.visitor_uid) == (project_id, visitor_uid)

    def said(self, message_id: str) -> ChatMessage | None:
        """The visitor's message of this id."""
        return next((m for m in reversed(self.messages) if m.role == "visitor" and m.id == message_id), None)

    def known(self, message_id: str) -> Known | None:
        found = self.said(message_id)
        if found is not None:
            return Known(found.outcome, found.policy)
        gone = self.gone.get(message_id)
        return None if gone is None else Known(gone.outcome, is_gone=True)

    def answer_to(self, message_id: str) -> ChatMessage | None:
        return next((m for m in reversed(self.messages) if message_id in m.answers), None)

    def superseding(self, message: ChatMessage) -> ChatMessage | None:
        """The first answer to a message that is newer than this one."""
        newer = {m.id for m in self.messages if m.role == "visitor" and m.seq > message.seq}
        return next((m for m in self.messages if m.seq > message.seq and not newer.isdisjoint(m.answers)), None)

    def waiting(self) -> list[ChatMessage]:
        return [message for message in self.messages if message.is_waiting]

    def add(self, message: VisitorMessage, at: str, policy: BusyPolicy | None = None) -> Known:
        """Once by its id. `MailboxFull` if too many wait already."""
        known = self.known(message.message_id)
        if known is not None:
            return known
        added = ChatMessage(seq=0, id=message.message_id, role="visitor", text=message.text, at=at, policy=policy)
        self._append(added)
        self._make_room(at)
        if len(self.messages) > MAX_MESSAGES or self._size() > MAX_BYTES:
            self.messages.remove(added)
            raise MailboxFull(f"chat:{self.conversation_id}", len(self.waiting()))
        return Known(None, policy, is_new=True)

    def change(self, change: Change, at: str) -> None:
        """Nothing is changed if the fence is old, one of the messages has been settled meanwhile, or it is too much."""
        if change.fence is not None and change.fence < self.fence:
            raise LeaseLost(f"chat:{self.conversation_id}", change.fence, f"fence {self.fence} has written since")
        settled = {message_id: self._to_settle(message_id, change) for message_id in change.outcomes}
        metadata = _patched(change.patch, self.metadata)
        for message_id, found in settled.items():
            found.outcome, found.settled_at = change.outcomes[message_id], self.next_seq
        for message_id in change.tried:
            tried = self.said(message_id)
            if tried is not None:
                tried.tries += 1
                if tried.outcome == "dropped":  # by a repeat that found its own turn running: it was never given up
                    tried.outcome = None
        for message_id in change.left_out:
            left_out = self.said(message_id)
            if left_out is not None:
                left_out.is_left_out = True
        self.messages = [m for m in self.messages if not (m.is_waiting and m.id in change.retracted)]
        answer = change.answer
        if answer is not None:
            self._append(
                ChatMessage(
                    seq=0, id=answer.id, role="assistant", text=answer.text, at=answer.at,
                    answers=list(answer.answers), agent=answer.agent,
                )
            )  # fmt: skip
        self.metadata = metadata
        self.fence = max(self.fence, change.fence or 0)
        self._make_room(at, keep_from=self.next_seq - 1 if answer is not None else None)

    def _to_settle(self, message_id: str, change: Change) -> ChatMessage:
        found = self.said(message_id)
        is_turn = change.fence is not None
        if found is None or not (found.is_waiting or (is_turn and found.may_be_answered)):
            raise ChatMoved(self.conversation_id, message_id)
        return found

    def _append(self, message: ChatMessage) -> None:
        message.seq, self.next_seq = self.next_seq, self.next_seq + 1
        self.messages.append(message)

    def _make_room(self, at: str, keep_from: int | None = None) -> None:
        """The oldest settled ones go, and their ids are remembered; what was just written stays."""
        over = max(0, len(self.messages) - MAX_MESSAGES)
        bytes_over = self._size() - MAX_BYTES
        kept = []
        now_s = datetime.fromisoformat(at).timestamp()
        for message in self.messages:
            may_go = not message.is_waiting and (keep_from is None or message.seq < keep_from)
            if may_go and (over > 0 or bytes_over > 0):
                over -= 1
                bytes_over -= len(to_json(message)) + 1
                if message.outcome is not None:
                    self.gone[message.id] = Gone(outcome=message.outcome, at=now_s)
            else:
                kept.append(message)
        self.messages = kept
        self._forget(now_s)

    def _forget(self, now_s: float) -> None:
        """Oldest first: by then nobody repeats them any more."""
        size = sum(map(_gone_size, self.gone))
        for message_id, gone in list(self.gone.items()):
            if size <= MAX_GONE_BYTES and gone.at + GONE_FOR_S > now_s:
                break
            size -= _gone_size(message_id)
            del self.gone[message_id]

    def _size(self) -> int:
        # a character takes six bytes at most: most chats need not be written to know that they are small
        most = sum(
            6 * (len(message.text) + len(message.id) + sum(map(len, message.answers))) + 3 * len(message.answers) + 300
            for message in self.messages
        )
        return most if most <= MAX_BYTES else len(to_json(self.messages))


def _gone_size(message_id: str) -> int:
    return len(to_json(message_id)) + 60


def _patched(patch: Patch, metadata: Mapping[str, Any]) -> dict[str, Any]:
    if not patch:
        return dict(metadata)
    patched = apply(patch, metadata)
    try:
        text.write(patched, "metadata", MAX_METADATA)
    except TooLarge as error:
        raise TooLarge(f"metadata, with what was written to {largest(patch)!r},", error.size, error.limit) from None
    return patched
