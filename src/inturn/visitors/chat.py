"""A chat is a visitor's conversation as it is stored: its newest messages with their outcomes, its metadata, and the
highest fence that wrote. `LaneConversations`, the default place for chats, keeps each as the state of its own lane.

A chat is bounded: the oldest settled messages go first, and a message that waits for its answer is never dropped.
A write is one short turn of the chat's lane: all of a change, or none of it. Reading needs no turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, Field
from pydantic_core import to_json

from inturn import arguments
from inturn.app import InTurn
from inturn.errors import ChatMoved, LeaseLost, MailboxFull, TooLarge, UnknownConversation
from inturn.lanes import codec
from inturn.lanes.inline import InlineTurn
from inturn.visitors.message import WRITE_WAIT_S, BusyPolicy, VisitorMessage, lane_name
from inturn.visitors.patch import Patch, apply, largest

CHAT_TTL_S = 30 * 86400.0
MAX_MESSAGES = 500
MAX_BYTES = 512 * 1024
"""Of the messages. Together with the metadata, the ids of messages that left and one long answer, the chat still fits
into the state of a lane.
"""
MAX_METADATA = 256 * 1024
GONE_FOR_S = 86400.0
MAX_GONE_BYTES = 48 * 1024

Outcome = Literal["answered", "unanswered", "superseded", "dropped", "failed"]


class ChatMessage(BaseModel):
    """Only visitors' messages have an `outcome` (`None`: it waits); only assistants' have `answers` and `agent`.

    `policy` is the first policy that it came under (`None`: unknown). `tries` counts the failed attempts to answer it.
    `is_left_out`: only its own turns try it. An answer failed with it and succeeded without it, or a process may have
    died over it. `settled_at`: the `seq` of the next message at the time when it got its outcome.
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
        """Whether its own turn may answer it. A failed message may be replayed or repeated. A dropped one may be the
        message that is being answered right now: a repeat of it found the visitor busy.
        """
        return self.role == "visitor" and self.outcome in (None, "failed", "dropped")

    @property
    def is_open(self) -> bool:
        """It waits or has failed: the next answer should take it into account."""
        return self.role == "visitor" and self.outcome in (None, "failed")

    @property
    def has_failed(self) -> bool:
        return self.outcome == "failed" or self.tries > 0


class Gone(BaseModel):
    """What is remembered of a message that made room for others. `at`: when it left, in Unix time."""

    outcome: Outcome
    at: float


class Known(NamedTuple):
    """What a chat knows about a visitor's message. Not `is_new`: it was already there, and may be being answered.

    `outcome` `None`: it waits. `policy`: the first policy that it came under. `is_gone`: it left and is remembered.
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
    """One write to a chat. `fence` is the fence of the turn that writes; `None` for a write outside of any turn.

    `tried`: ids of messages whose answer has failed once more. `left_out`: ids of messages that only their own turns
    try from now on. `retracted`: ids of waiting messages that no lane has taken.
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
        """Returns the visitor's message with this id."""
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
        """Returns the first answer to a message that is newer than this one."""
        newer = {m.id for m in self.messages if m.role == "visitor" and m.seq > message.seq}
        return next((m for m in self.messages if m.seq > message.seq and not newer.isdisjoint(m.answers)), None)

    def waiting(self) -> list[ChatMessage]:
        return [message for message in self.messages if message.is_waiting]

    def add(self, message: VisitorMessage, at: str, policy: BusyPolicy | None = None) -> Known:
        """Adds the message, once per id. Raises `MailboxFull` if too many wait already."""
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
        """Makes the change, or raises and changes nothing: `LeaseLost` for an older fence than the one that wrote last,
        `ChatMoved` if one of the messages is already settled, `TooLarge` for metadata over its limit.
        """
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
                if tried.outcome == "dropped":  # by a repeat that came while its turn ran: it was not given up
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
        """Removes the oldest settled messages and remembers their ids. What was just written (`keep_from`) stays."""
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
        """Forgets ids, oldest first. After that time nobody repeats them."""
        size = sum(map(_gone_size, self.gone))
        for message_id, gone in list(self.gone.items()):
            if size <= MAX_GONE_BYTES and gone.at + GONE_FOR_S > now_s:
                break
            size -= _gone_size(message_id)
            del self.gone[message_id]

    def _size(self) -> int:
        # a character takes at most six bytes, so most chats are known to be small without writing them
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
        codec.write_json(patched, "metadata", MAX_METADATA)
    except TooLarge as error:
        raise TooLarge(f"metadata, with what was written to {largest(patch)!r},", error.size, error.limit) from None
    return patched


class ConversationStore(Protocol):
    async def get(self, conversation_id: str, tenant_id: str = "") -> Chat | None: ...

    async def open(self, conversation_id: str, project_id: str, visitor_uid: str, tenant_id: str = "") -> Chat:
        """Returns the chat, made if it is missing. Raises `UnknownConversation` if the id belongs to another visitor or
        project.
        """
        ...

    async def add(
        self, conversation_id: str, message: VisitorMessage, policy: BusyPolicy | None = None
    ) -> Known | None:
        """Adds a message, once per id, with the policy that it came under. Returns `None` if this visitor has no such
        conversation.
        """
        ...

    async def save(self, conversation_id: str, change: Change, tenant_id: str = "") -> Chat:
        """Writes the change and returns the chat. Raises what `Chat.change` raises."""
        ...

    async def set_ai_enabled(self, conversation_id: str, ai_enabled: bool, tenant_id: str = "") -> Chat: ...


class LaneConversations:
    """Keeps a chat for `ttl` seconds after its last write."""

    def __init__(self, app: InTurn, ttl: arguments.Seconds = CHAT_TTL_S) -> None:
        self._app = app
        self._ttl = ttl

    async def get(self, conversation_id: str, tenant_id: str = "") -> Chat | None:
        chat = await self._app.lanes.state(lane_name("chat", conversation_id, tenant_id), Chat)
        return _of(tenant_id, chat)

    async def open(self, conversation_id: str, project_id: str, visitor_uid: str, tenant_id: str = "") -> Chat:
        chat = await self.get(conversation_id, tenant_id)
        if chat is None:
            async with self._turn(conversation_id, tenant_id) as turn:
                if turn.state is None:
                    turn.state = Chat(
                        conversation_id=conversation_id, project_id=project_id, visitor_uid=visitor_uid,
                        tenant_id=tenant_id,
                    )  # fmt: skip
                chat = _of(tenant_id, turn.state)
        if chat is None or not chat.is_of(project_id, visitor_uid):
            raise UnknownConversation(conversation_id)
        return chat

    async def add(
        self, conversation_id: str, message: VisitorMessage, policy: BusyPolicy | None = None
    ) -> Known | None:
        async with self._turn(conversation_id, message.tenant_id) as turn:
            chat = _of(message.tenant_id, turn.state)
            if chat is None or not chat.is_of(message.project_id, message.visitor_uid):
                return None
            return chat.add(message, iso_time(self._app), policy)

    async def save(self, conversation_id: str, change: Change, tenant_id: str = "") -> Chat:
        async with self._turn(conversation_id, tenant_id) as turn:
            chat = _must_be(conversation_id, _of(tenant_id, turn.state))
            chat.change(change, iso_time(self._app))
            return chat

    async def set_ai_enabled(self, conversation_id: str, ai_enabled: bool, tenant_id: str = "") -> Chat:
        async with self._turn(conversation_id, tenant_id) as turn:
            chat = _must_be(conversation_id, _of(tenant_id, turn.state))
            chat.ai_enabled = ai_enabled
            return chat

    def _turn(self, conversation_id: str, tenant_id: str) -> InlineTurn[Chat | None]:
        key = lane_name("chat", conversation_id, tenant_id)
        return self._app.turn(key, wait=WRITE_WAIT_S, state=Chat, initial=NoneType, state_ttl=self._ttl)


def _of(tenant_id: str, chat: Chat | None) -> Chat | None:
    """The lane of the chat `a:b` without a tenant is also that of chat `b` of tenant `a`: each sees only its own."""
    return chat if chat is not None and chat.tenant_id == tenant_id else None


def _must_be(conversation_id: str, chat: Chat | None) -> Chat:
    if chat is None:
        raise UnknownConversation(conversation_id)
    return chat


def iso_time(app: InTurn) -> str:
    return datetime.fromtimestamp(app.runtime.now_s(), UTC).isoformat(timespec="milliseconds")
