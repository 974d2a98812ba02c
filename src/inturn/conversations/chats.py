"""Where chats are kept. `LaneConversations`, the default, keeps each as the state of a lane of its own.

It is written by short turns of that lane and read without any. A write is all of a change, or nothing of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from inturn.app import InTurn
from inturn.visitors.chat import Change, Chat, Known
from inturn.visitors.message import WRITE_WAIT_S, BusyPolicy, VisitorMessage, lane_name, nothing
from inturn.conversations.looking import look
from inturn.errors import UnknownConversation
from inturn.lanes.inline import InlineTurn
from inturn import arguments

CHAT_TTL_S = 30 * 86400.0


class ConversationStore(Protocol):
    async def get(self, conversation_id: str, tenant_id: str = "") -> Chat | None: ...

    async def open(self, conversation_id: str, project_id: str, visitor_uid: str, tenant_id: str = "") -> Chat:
        """The chat, made if it is missing. `UnknownConversation` if it is another visitor's, or of another project."""
        ...

    async def add(
        self, conversation_id: str, message: VisitorMessage, policy: BusyPolicy | None = None
    ) -> Known | None:
        """Adds a message, once by its id, with the policy that it came under. `None`: this visitor has no such
        conversation.
        """
        ...

    async def save(self, conversation_id: str, change: Change, tenant_id: str = "") -> Chat:
        """One write. `LeaseLost` for an older fence than one that has written, `ChatMoved` for what is settled,
        `TooLarge` for metadata over its limit.
        """
        ...

    async def set_ai_enabled(self, conversation_id: str, ai_enabled: bool, tenant_id: str = "") -> Chat: ...


class LaneConversations:
    """A chat lives for `ttl` seconds after it was last written."""

    def __init__(self, app: InTurn, ttl: arguments.Seconds = CHAT_TTL_S) -> None:
        self._app = app
        self._ttl = ttl

    async def get(self, conversation_id: str, tenant_id: str = "") -> Chat | None:
        chat, _ = await look(self._app, lane_name("chat", conversation_id, tenant_id), Chat)
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
        return self._app.turn(key, wait=WRITE_WAIT_S, state=Chat, initial=nothing, state_ttl=self._ttl)


def _of(tenant_id: str, chat: Chat | None) -> Chat | None:
    """Where some callers have tenants and others have none, a chat of `a:b` is not the chat `b` of tenant `a`."""
    return chat if chat is not None and chat.tenant_id == tenant_id else None


def _must_be(conversation_id: str, chat: Chat | None) -> Chat:
    if chat is None:
        raise UnknownConversation(conversation_id)
    return chat


def iso_time(app: InTurn) -> str:
    return datetime.fromtimestamp(app.runtime.now_s(), UTC).isoformat(timespec="milliseconds")
