"""A chat as it is stored: what was said, what became of it, and its metadata. All chats of a visitor are one state.

Nothing here is written by itself: a turn of the visitor's lane changes the state, and commits it with all else.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field
from pydantic_core import to_json

from inturn.app import InTurn
from inturn.errors import TooLarge
from inturn.lanes import codec
from inturn.visitors.message import Note, VisitorMessage
from inturn.visitors.patch import largest_change, merged

log = logging.getLogger("inturn.visitors")

MAX_MESSAGES = 500
MAX_BYTES = 512 * 1024
"""Of the messages. Together with the metadata, the ids of messages that left and one long answer, a chat still fits
into the state of a lane.
"""
MAX_METADATA = 256 * 1024
MAX_ALL_MESSAGES = 2000
MAX_CHATS = 2000
MAX_CHATS_BYTES = codec.MAX_STATE - 16 * 1024
"""Of all chats of a visitor together. They are one state, which every turn reads and writes as a whole: with so many
messages and chats that takes some tens of milliseconds.
"""
GONE_FOR_S = 86400.0
MAX_GONE_BYTES = 48 * 1024
MAX_ALL_GONE = 1000
"""Ids of messages that left: for how long and how many bytes of them a chat remembers, and how many all chats do."""

Outcome = Literal["answered", "unanswered", "superseded", "dropped", "failed"]


class ChatMessage(BaseModel):
    """Only visitors' messages have an `outcome`; only assistants' have `answers` and `agent`.

    `is_left_out`: only its own turns try it. An answer failed with it and succeeded without it, or a process may have
    died over it.
    """

    seq: int
    id: str
    role: Literal["visitor", "assistant"]
    text: str
    at: str
    outcome: Outcome | None = None
    answers: list[str] = Field(default_factory=list)
    agent: str = ""
    is_left_out: bool = False

    @property
    def may_be_answered(self) -> bool:
        """Whether its own turn may answer it. A failed message may be replayed or repeated."""
        return self.role == "visitor" and self.outcome in (None, "failed")


class Gone(BaseModel):
    """What is remembered of a message that made room for others. `at`: when it left, in Unix time."""

    outcome: Outcome
    at: float


class Waiting(NamedTuple):
    """A message that waits in the lane. It gets its number, `seq`, when its turn has come.

    `outcome`: `dropped` if it will get no answer, and that is known already.
    """

    id: str
    text: str
    at: str
    outcome: Outcome | None = None


class NewAnswer(NamedTuple):
    id: str
    text: str
    at: str
    answers: tuple[str, ...]
    agent: str


class Chat(BaseModel):
    """`changed_at`: when it was last written to, in Unix time. `waiting` is not stored: the lane has those messages.

    Its messages make room for those of newer chats. The switch, the metadata and the next number stay.
    """

    conversation_id: str
    project_id: str
    visitor_uid: str
    tenant_id: str = ""
    ai_enabled: bool = True
    metadata: dict[str, Any] = Field(default_factory=dict)
    messages: list[ChatMessage] = Field(default_factory=list)
    gone: dict[str, Gone] = Field(default_factory=dict)
    next_seq: int = 1
    changed_at: float = 0.0
    waiting: list[Waiting] = Field(default_factory=list, exclude=True)

    def is_of(self, project_id: str, visitor_uid: str) -> bool:
        return (self.project_id, self.visitor_uid) == (project_id, visitor_uid)

    @property
    def is_plain(self) -> bool:
        """Whether a new chat would be the same, but for what was said and its numbers."""
        return self.ai_enabled and not self.metadata

    def said(self, message_id: str) -> ChatMessage | None:
        """Returns the visitor's message with this id."""
        return next((m for m in reversed(self.messages) if m.role == "visitor" and m.id == message_id), None)

    def answer_to(self, message_id: str) -> ChatMessage | None:
        return next((m for m in reversed(self.messages) if message_id in m.answers), None)

    def take_in(self, message: VisitorMessage, at: str) -> ChatMessage | None:
        """Adds the message, once per id, and returns it. `None`: it was settled here, and has made room since. One that
        failed may come again.
        """
        found, gone = self.said(message.message_id), self.gone.get(message.message_id)
        if found is None and (gone is None or gone.outcome == "failed"):
            self.gone.pop(message.message_id, None)
            found = ChatMessage(seq=0, id=message.message_id, role="visitor", text=message.text, at=at)
            self._append(found)
        return found

    def settle(self, outcomes: Mapping[str, Outcome], at: str, answer: NewAnswer | None = None) -> None:
        """Gives messages their outcomes, adds the answer, and makes room."""
        for message_id, outcome in outcomes.items():
            found = self.said(message_id)
            if found is not None:
                found.outcome = outcome
        if answer is not None:
            self._append(
                ChatMessage(
                    seq=0, id=answer.id, role="assistant", text=answer.text, at=answer.at,
                    answers=list(answer.answers), agent=answer.agent,
                )
            )  # fmt: skip
        self.changed_at = datetime.fromisoformat(at).timestamp()
        self.make_room(len(self.messages) - MAX_MESSAGES, self._size() - MAX_BYTES, self.changed_at)

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Raises `TooLarge`, which names the field, and changes nothing."""
        try:
            codec.write_json(metadata, "metadata", MAX_METADATA)
        except TooLarge as error:
            field = largest_change(self.metadata, metadata)
            raise TooLarge(f"metadata, with what was written to {field!r},", error.size, error.limit) from None
        self.metadata = metadata

    def _append(self, message: ChatMessage) -> None:
        message.seq, self.next_seq = self.next_seq, self.next_seq + 1
        self.messages.append(message)

    def make_room(self, count: int, size: int, now_s: float, *, is_in_use: bool = True) -> None:
        """Removes so many of the oldest messages, and of so many bytes, and remembers their ids. The last one of a chat
        in use stays: it is what a turn has just written.
        """
        keep_from = self.next_seq - 1 if is_in_use else self.next_seq
        kept = []
        for message in self.messages:
            if message.seq < keep_from and (count > 0 or size > 0):
                count -= 1
                size -= len(to_json(message)) + 1
                if message.outcome is not None:
                    self.gone[message.id] = Gone(outcome=message.outcome, at=now_s)
            else:
                kept.append(message)
        self.messages = kept
        self.forget(now_s)

    def forget(self, now_s: float) -> None:
        """Forgets the ids of messages that left, oldest first. After that time nobody repeats them."""
        size = sum(map(_gone_size, self.gone))
        for message_id, gone in list(self.gone.items()):
            if size <= MAX_GONE_BYTES and gone.at + GONE_FOR_S > now_s:
                break
            size -= _gone_size(message_id)
            del self.gone[message_id]

    def change(self, note: Note) -> None:
        """Makes the change that the note describes, unless the conversation is someone else's."""
        if not self.is_of(note.project_id, note.visitor_uid):
            return
        if note.ai_enabled is not None:
            self.ai_enabled = note.ai_enabled
        if note.metadata is not None:
            try:
                self.set_metadata(merged(self.metadata, note.metadata))
            except TooLarge as error:  # it fitted when it came; what was written since took the room
                log.warning("conversation=%s: a change of its metadata was left out: %s", self.conversation_id, error)

    def for_reader(self) -> Chat:
        """Returns a copy. The reader may change it, and others still read this one."""
        return self.model_copy(
            update={
                "messages": [message.model_copy() for message in self.messages],
                "metadata": deepcopy(self.metadata),
                "gone": dict(self.gone),
                "waiting": [],
            }
        )

    def _size(self) -> int:
        # a character takes at most six bytes, so most chats are known to be small without writing them
        most = sum(
            6 * (len(message.text) + len(message.id) + sum(map(len, message.answers))) + 3 * len(message.answers) + 300
            for message in self.messages
        )
        return most if most <= MAX_BYTES else len(to_json(self.messages))


def _gone_size(message_id: str) -> int:
    return len(to_json(message_id)) + 60


def _name(conversation_id: str, tenant_id: str) -> str:
    """The lane of visitor `a:b` without a tenant is also that of visitor `b` of tenant `a`. Each has its own chats."""
    return f"{tenant_id}:{conversation_id}"


class VisitorState(BaseModel):
    """The state of a visitor's lane. `next_seq`: the first number of chats that begin from here on. A chat of which
    nothing is left may begin once more, and its readers know numbers of it.
    """

    chats: dict[str, Chat] = Field(default_factory=dict)
    next_seq: int = 1

    def find(self, conversation_id: str, tenant_id: str) -> Chat | None:
        return self.chats.get(_name(conversation_id, tenant_id))

    def find_or_begin(self, *, conversation_id: str, project_id: str, visitor_uid: str, tenant_id: str) -> Chat:
        """Returns the chat, or a new one, which is no part of the state yet."""
        return self.find(conversation_id, tenant_id) or Chat(
            conversation_id=conversation_id, project_id=project_id, visitor_uid=visitor_uid, tenant_id=tenant_id,
            next_seq=self.next_seq,
        )  # fmt: skip

    def keep(self, chat: Chat) -> None:
        """The chat is part of the state from here on, and the newest."""
        name = _name(chat.conversation_id, chat.tenant_id)
        self.chats.pop(name, None)
        self.chats[name] = chat

    def remove(self, conversation_id: str, tenant_id: str) -> None:
        self.chats.pop(_name(conversation_id, tenant_id), None)

    def apply(self, note: Note) -> None:
        """Makes the change that the note describes. A conversation that is someone else's is left alone."""
        if note.is_deleted:
            self.remove(note.conversation_id, note.tenant_id)
            return
        chat = self.find_or_begin(**note.chat)
        if chat.is_of(note.project_id, note.visitor_uid):
            chat.change(note)
            chat.settle({}, note.at)
            self.keep(chat)

    def make_room(self, in_use: Collection[str], now_s: float, ttl_s: float) -> None:
        """Removes chats that are too old, and makes the others fit. Of those of `in_use` only messages leave: raises
        `TooLarge` if they are too much by themselves.
        """
        for chat in list(self.chats.values()):
            chat.forget(now_s)
            if chat.changed_at + ttl_s < now_s and chat.conversation_id not in in_use:
                self._drop(chat, "nothing was said in it for too long", logging.INFO)
        size = _Size(self)
        oldest = sorted(self.chats.values(), key=lambda chat: (chat.conversation_id in in_use, chat.changed_at))
        for chat in oldest:
            while size.needs_messages and size.let_messages_go(chat, now_s, chat.conversation_id in in_use):
                pass
        for chat in oldest:
            if chat.gone and (size.bytes_over > 0 or size.ids_over > 0):
                size.forget_ids(chat)
        others = [chat for chat in oldest if chat.conversation_id not in in_use]
        self._drop_while(size, [chat for chat in others if chat.is_plain])
        for chat in others:
            if size.bytes_over > 0 and chat.metadata:
                log.warning("conversation=%s: its metadata was forgotten, to make room", chat.conversation_id)
                chat.metadata = {}
                size.measure(chat)
        self._drop_while(size, sorted(others, key=lambda chat: not chat.ai_enabled))
        if size.bytes_over > 0:
            whole = size.bytes_over + MAX_CHATS_BYTES
            raise TooLarge("what the chats of one turn hold together", whole, MAX_CHATS_BYTES)

    def _drop_while(self, size: _Size, chats: list[Chat]) -> None:
        for chat in chats:
            if (size.bytes_over > 0 or size.chats_over > 0) and size.leaves(chat):
                self._drop(chat, "newer ones need the room", logging.INFO if chat.is_plain else logging.WARNING)

    def _drop(self, chat: Chat, why: str, level: int) -> None:
        self.next_seq = max(self.next_seq, chat.next_seq)
        self.remove(chat.conversation_id, chat.tenant_id)
        log.log(
            level, "conversation=%s visitor=%s: all of it was forgotten (ai_enabled=%s): %s",
            chat.conversation_id, chat.visitor_uid, chat.ai_enabled, why,
        )  # fmt: skip


class _Size:
    """By how much the chats of a visitor are over their bounds."""

    def __init__(self, state: VisitorState) -> None:
        self._bytes = {name: _bytes_of(name, chat) for name, chat in state.chats.items()}
        self.bytes_over = sum(self._bytes.values()) - MAX_CHATS_BYTES
        self.messages_over = sum(len(chat.messages) for chat in state.chats.values()) - MAX_ALL_MESSAGES
        self.ids_over = sum(len(chat.gone) for chat in state.chats.values()) - MAX_ALL_GONE
        self.chats_over = len(state.chats) - MAX_CHATS

    @property
    def needs_messages(self) -> bool:
        return self.messages_over > 0 or self.bytes_over > 0

    def let_messages_go(self, chat: Chat, now_s: float, is_in_use: bool) -> bool:
        """Returns whether any could go. Their ids stay, so there may still be too many bytes."""
        messages, ids = len(chat.messages), len(chat.gone)
        chat.make_room(self.messages_over, self.bytes_over, now_s, is_in_use=is_in_use)
        if len(chat.messages) == messages:
            return False
        self.messages_over -= messages - len(chat.messages)
        self.ids_over += len(chat.gone) - ids
        self.measure(chat)
        return True

    def forget_ids(self, chat: Chat) -> None:
        self.ids_over -= len(chat.gone)
        chat.gone = {}
        self.measure(chat)

    def measure(self, chat: Chat) -> None:
        """The chat has become smaller."""
        name = _name(chat.conversation_id, chat.tenant_id)
        before, self._bytes[name] = self._bytes[name], _bytes_of(name, chat)
        self.bytes_over += self._bytes[name] - before

    def leaves(self, chat: Chat) -> bool:
        """Returns `False` if it has left before."""
        before = self._bytes.pop(_name(chat.conversation_id, chat.tenant_id), None)
        if before is not None:
            self.bytes_over -= before
            self.chats_over -= 1
        return before is not None


def _bytes_of(name: str, chat: Chat) -> int:
    return len(to_json(chat)) + len(to_json(name)) + 2


def iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")


def iso_time(app: InTurn) -> str:
    return iso(app.runtime.now_s())
