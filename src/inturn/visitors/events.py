"""The events of a chat, as its watchers get them. The chat itself is the truth: it is read after every turn, and what
is new in it is sent.

New means: since the chat was first read, which is before the watch began. So nothing falls between the two.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from inturn.errors import InTurnError, MissingExtra
from inturn.http.answer_events import RESTART, read_chunk
from inturn.http.problems import Problem
from inturn.lanes.watch import Event, Watch
from inturn.visitors.bodies import MessageOut
from inturn.visitors.chat import Chat
from inturn.visitors.conversations import LaneConversations

try:
    from fastapi.sse import ServerSentEvent
except ImportError as error:
    raise MissingExtra("inturn.visitors.routes", "server") from error

log = logging.getLogger("inturn.visitors")


@dataclass(slots=True)
class ChatEvents:
    """`chat`: as it was read before the watch began. `after`: the `seq` of the last answer that the client has. With
    `None`, or a number that the chat has not reached, the client gets only what is new.
    """

    conversations: LaneConversations
    chat: Chat
    watch: Watch
    after: int | None
    _is_ours: bool = False
    """Whether the running turn has streamed something for this chat."""
    _has_pieces: bool = False
    _chunk_number: int = 0
    """The number of the last chunk of the running turn."""
    _seen: int = 0
    """What the chat has up to this `seq` was sent."""

    async def stream(self) -> AsyncIterator[ServerSentEvent]:
        last = self.chat.next_seq - 1
        self._seen = last if self.after is None else min(self.after, last)
        try:
            for told in await self._news([]):
                yield told
            async for event in self.watch:
                failed = self._failure_events() if event.what == "commit" else []
                for told in self._tell(event):
                    yield told
                if event.what not in ("begin", "chunk"):
                    for told in await self._news(failed):
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
        if self._is_ours and event.what in ("fail", "lost"):
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

    def _failure_events(self) -> list[ServerSentEvent]:
        """What is told if the turn that has just been committed has committed that its answer failed."""
        restart = [self._event(RESTART.name)] if self._has_pieces else []
        return [*restart, self._event("problem", **Problem("answer-failed").document())] if self._is_ours else []

    async def _news(self, failed: list[ServerSentEvent]) -> list[ServerSentEvent]:
        """Returns new answers, and messages that got none, in the order of the chat. `failed` precedes a failure."""
        chat = await self.conversations.watched(self.chat.conversation_id, self.chat.tenant_id)
        told: list[ServerSentEvent] = []
        if chat.next_seq <= self._seen:
            self._seen = 0  # it was deleted or has expired, and began anew
        first_new = bisect_right(chat.messages, self._seen, key=lambda message: message.seq)
        for message in chat.messages[first_new:]:
            if message.role == "assistant":
                data = MessageOut.of(message).model_dump(mode="json")
                told.append(ServerSentEvent(event="answer", id=str(message.seq), data=data))
            elif message.outcome != "answered":
                if message.outcome == "failed":
                    told += failed
                    failed = []
                told.append(self._event("outcome", message_id=message.id, outcome=message.outcome))
        self._seen = chat.next_seq - 1
        return told

    def _event(self, name: str, **data: Any) -> ServerSentEvent:
        return ServerSentEvent(event=name, data={"conversation_id": self.chat.conversation_id, **data})
