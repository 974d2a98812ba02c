"""The events of a chat, as its watchers get them. The chat itself is the truth: it is read after every turn, and what
is new in it is sent.

New means: since the chat was first read, which is before the watch began. So nothing falls between the two.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from inturn.errors import InTurnError, MissingExtra, UnknownConversation
from inturn.http.answer_events import RESTART, read_chunk
from inturn.http.problems import Problem
from inturn.lanes.watch import Event, Watch
from inturn.visitors.bodies import MessageOut
from inturn.visitors.chat import Chat, ChatMessage, ConversationStore

try:
    from fastapi.sse import ServerSentEvent
except ImportError as error:
    raise MissingExtra("inturn.visitors.routes", "server") from error

log = logging.getLogger("inturn.visitors")

LEFT = "left"
"""The reason of a `back` event whose caller failed or went away. A worker's turn that is `back` goes on elsewhere."""


@dataclass(slots=True)
class ChatEvents:
    """`chat`: as it was read before the watch began. `after`: the `seq` of the last answer that the client has. With
    `None`, or a number that the chat has not reached, the client gets only what is new.
    """

    conversations: ConversationStore
    chat: Chat
    watch: Watch
    after: int | None
    _is_ours: bool = False
    """Whether the running turn has streamed something for this chat."""
    _has_pieces: bool = False
    _chunk_number: int = 0
    """The number of the last chunk of the running turn."""
    _seen: int = 0
    """Visitors' messages up to this `seq` are known; those in `_waiting` had no outcome yet."""
    _waiting: set[int] = field(default_factory=set)

    async def stream(self) -> AsyncIterator[ServerSentEvent]:
        last = self.chat.next_seq - 1
        is_fresh = self.after is None or self.after > last
        self.after = self._seen = last if self.after is None else min(self.after, last)
        self._waiting = {
            message.seq
            for message in self.chat.messages
            if message.role == "visitor"
            and message.seq <= self._seen
            # a client that comes back may have missed what was settled after the last answer it saw
            and (message.is_waiting or (not is_fresh and message.settled_at > self.after))
        }
        try:
            for told in await self._news():
                yield told
            async for event in self.watch:
                for told in self._tell(event):
                    yield told
                if event.what not in ("begin", "chunk"):
                    for told in await self._news():
                        yield told
        except InTurnError as failure:
            # the stream has begun, so no status can be sent any more; a client that connects again gets one
            log.info("the events of conversation %r ended: %s", self.chat.conversation_id, failure)
            yield self._event("problem", **Problem("stream-ended").document())

    def _tell(self, event: Event) -> Iterator[ServerSentEvent]:
        if event.what == "chunk":
            yield from self._chunk(event)
            return
        if event.what == "missed":  # the turn may go on, and the next chunk is not the beginning of its answer
            if self._has_pieces:
                yield self._event(RESTART.name)
            self._has_pieces = False
            return
        if self._has_pieces and event.what != "commit":  # the pieces belong to an answer that was not saved
            yield self._event(RESTART.name)
        if self._is_ours and (event.what in ("fail", "lost") or (event.what, event.why) == ("back", LEFT)):
            yield self._event("problem", **Problem("answer-failed").document())
        self._is_ours, self._has_pieces, self._chunk_number = False, False, 0

    def _chunk(self, event: Event) -> Iterator[ServerSentEvent]:
        """Passes on the chunks of this chat. A visitor's lane may carry several chats, and chunks of other handlers."""
        is_gap, self._chunk_number = event.number != self._chunk_number + 1, event.number
        if is_gap and self._has_pieces:
            self._has_pieces = False
            yield self._event(RESTART.name)
        data = event.data
        if not isinstance(data, dict) or data.get("conversation_id") != self.chat.conversation_id:
            return
        told = read_chunk(data)
        if told is not None:
            self._is_ours = True
            self._has_pieces = told.name == "token" or (self._has_pieces and told != RESTART)
            yield self._event(told.name, **told.data)

    async def _news(self) -> list[ServerSentEvent]:
        """Returns new answers, and messages that will get none, in the order of the chat."""
        chat = await self.conversations.get(self.chat.conversation_id, self.chat.tenant_id)
        if chat is None:
            raise UnknownConversation(self.chat.conversation_id)
        told = []
        for message in chat.messages:
            if message.role == "assistant" and message.seq > (self.after or 0):
                self.after = message.seq
                data = MessageOut.of(message).model_dump(mode="json")
                told.append(ServerSentEvent(event="answer", id=str(message.seq), data=data))
            elif message.role == "visitor" and self._is_newly_settled(message):
                told.append(self._event("outcome", message_id=message.id, outcome=message.outcome))
        self._seen = chat.next_seq - 1
        return told

    def _is_newly_settled(self, message: ChatMessage) -> bool:
        """Whether the message was settled without an answer, and this was not sent before."""
        if message.seq <= self._seen and message.seq not in self._waiting:
            return False
        if message.is_waiting:
            self._waiting.add(message.seq)
            return False
        self._waiting.discard(message.seq)
        return message.outcome != "answered"

    def _event(self, name: str, **data: Any) -> ServerSentEvent:
        return ServerSentEvent(event=name, data={"conversation_id": self.chat.conversation_id, **data})
