"""The events of a chat. They are hints over the truth: after every commit the chat is read, and what is new is sent.

The watch is open before the chat is read for the first time, so that nothing falls between the two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from inturn.conversations.chat import Chat, ChatMessage
from inturn.conversations.chats import ConversationStore
from inturn.errors import InTurnError, MissingExtra, UnknownConversation
from inturn.lanes.watch import Event, Watch

try:
    from fastapi.sse import ServerSentEvent
except ImportError as error:
    raise MissingExtra("inturn.conversations.http", "server") from error


@dataclass(slots=True)
class ChatEvents:
    """`after`: the number of the last answer that the client has; `None`: it wants only what is new."""

    conversations: ConversationStore
    chat: Chat
    watch: Watch
    after: int | None
    _is_ours: bool = False
    """The turn that runs has to do with this chat."""
    _has_pieces: bool = False

    async def stream(self) -> AsyncIterator[ServerSentEvent]:
        try:
            if self.after is None:
                self.after = (await self._read()).next_seq - 1
            for answer in await self._new_answers():
                yield _answer(answer)
            async for event in self.watch:
                if event.what in ("commit", "missed"):
                    self._is_ours = self._has_pieces = False
                    for answer in await self._new_answers():
                        yield _answer(answer)
                else:
                    for told in self._tell(event):
                        yield told
        except InTurnError as failure:
            # the stream has begun, so there is no status to tell it by; a client that connects again gets one
            yield self._event("error", code="stream_ended", detail=f"{type(failure).__name__}: connect again.")

    def _tell(self, event: Event) -> Iterator[ServerSentEvent]:
        if event.what == "chunk":
            told = self._chunk(event)
            if told is not None:
                self._is_ours = True
                self._has_pieces = told.event == "token" or (self._has_pieces and told.event != "restart")
                yield told
            return
        if self._has_pieces:  # of an answer that never came to be
            yield self._event("restart", restart=True)
        if self._is_ours and event.what == "fail":
            yield self._event("error", code="answer_failed", detail="The answer failed; it may be tried again.")
        self._is_ours = self._has_pieces = False

    def _chunk(self, event: Event) -> ServerSentEvent | None:
        """A visitor's lane may carry several chats, and chunks of handlers that are not ours."""
        data = event.data
        if not isinstance(data, dict) or data.get("conversation_id") != self.chat.conversation_id:
            return None
        for name in ("typing", "token", "restart"):
            if name in data:
                return self._event(name, **{name: data[name]})
        return None

    async def _read(self) -> Chat:
        chat = await self.conversations.get(self.chat.conversation_id, self.chat.tenant_id)
        if chat is None:
            raise UnknownConversation(self.chat.conversation_id)
        return chat

    async def _new_answers(self) -> list[ChatMessage]:
        last = self.after or 0
        answers = [m for m in (await self._read()).messages if m.role == "assistant" and m.seq > last]
        self.after = answers[-1].seq if answers else last
        return answers

    def _event(self, name: str, **data: Any) -> ServerSentEvent:
        return ServerSentEvent(event=name, data={"conversation_id": self.chat.conversation_id, **data})


def _answer(answer: ChatMessage) -> ServerSentEvent:
    return ServerSentEvent(event="answer", id=str(answer.seq), data=answer.model_dump(mode="json"))
