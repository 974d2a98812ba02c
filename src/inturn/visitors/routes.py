"""The HTTP routes of the visitor responder. `caller` is a dependency that returns who calls: user and tenant.

Routes raise errors as they are; the app that includes them turns errors into problem documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from inturn.errors import DefinitionError, MissingExtra, UnknownConversation, UnknownHandler
from inturn.http.caller import Caller
from inturn.http.problems import documented
from inturn.lanes.watch import Watch
from inturn.visitors.bodies import (
    ConversationOut,
    ConversationPatch,
    MessageIn,
    MessageOut,
    MessageReceipt,
    MessagesOut,
    OnlineAgent,
    PresenceIn,
    PresenceOut,
    SettingsIn,
    WaitingOut,
)
from inturn.visitors.chat import MAX_MESSAGES, Chat
from inturn.visitors.conversations import MESSAGES, NOTES
from inturn.visitors.events import ChatEvents
from inturn.visitors.graph.model import load_graph
from inturn.visitors.message import SegmentId, VisitorMessage, lane_name
from inturn.visitors.projects import ProjectSettings
from inturn.visitors.responder import VisitorResponder

try:
    from fastapi import APIRouter, Depends, Header, Path, Query, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.sse import EventSourceResponse, ServerSentEvent
except ImportError as error:
    raise MissingExtra("inturn.visitors.routes", "server") from error


_READ = ("store-unavailable", "state-mismatch")
_WRITE = ("conversation-busy", "mailbox-full", *_READ, "outcome-unknown", "turn-lost")


def visitor_routes(responder: VisitorResponder, caller: Callable[..., Caller]) -> APIRouter:
    router = APIRouter(prefix="/api/v1")
    _add_project_routes(router, responder, caller)
    _add_conversation_routes(router, responder, caller)
    return router


def _add_project_routes(router: APIRouter, responder: VisitorResponder, caller: Callable[..., Caller]) -> None:
    projects, presence, calls = responder.projects, responder.presence, Depends(caller)

    @router.put(
        "/projects/{project_id}/ai",
        tags=["projects"],
        summary="Replace the AI settings of a project",
        responses=documented(*_WRITE),
    )
    async def put_settings(
        project_id: Annotated[SegmentId, Path()], given: SettingsIn, who: Caller = calls
    ) -> ProjectSettings:
        _must_deliver(responder, given)
        settings = await asyncio.to_thread(_checked, given)  # a large graph takes long
        await projects.put(project_id, settings, who.tenant_id)
        return settings

    @router.get(
        "/projects/{project_id}/ai",
        tags=["projects"],
        summary="Get the AI settings of a project",
        responses=documented(*_WRITE),  # reading settings may renew them, which is a write
    )
    async def get_settings(project_id: Annotated[SegmentId, Path()], who: Caller = calls) -> ProjectSettings:
        """In a project without settings, the AI does not answer."""
        return await projects.get(project_id, who.tenant_id) or ProjectSettings(enabled=False)

    @router.delete(
        "/projects/{project_id}",
        status_code=204,
        tags=["projects"],
        summary="Delete a project",
        responses=documented(*_WRITE),
    )
    async def delete_project(project_id: Annotated[SegmentId, Path()], who: Caller = calls) -> None:
        """Deletes its settings and presence: the AI does not answer any more. Its conversations stay."""
        await projects.delete(project_id, who.tenant_id)

    @router.put(
        "/projects/{project_id}/presence",
        tags=["projects"],
        summary="Set whether a human is online",
        responses=documented(*_WRITE),
    )
    async def put_presence(
        project_id: Annotated[SegmentId, Path()], given: PresenceIn, who: Caller = calls
    ) -> PresenceOut:
        await presence.set(project_id, given.agent_id, given.online, given.for_s, who.tenant_id)
        return await get_presence(project_id, who)

    @router.get(
        "/projects/{project_id}/presence",
        tags=["projects"],
        summary="List the humans who are online",
        responses=documented(*_READ),
    )
    async def get_presence(project_id: Annotated[SegmentId, Path()], who: Caller = calls) -> PresenceOut:
        online = await presence.online(project_id, who.tenant_id)
        agents = [OnlineAgent(agent_id=agent, until=until) for agent, until in sorted(online.items())]
        return PresenceOut(project_id=project_id, human_online=bool(agents), agents=agents)


def _add_conversation_routes(router: APIRouter, responder: VisitorResponder, caller: Callable[..., Caller]) -> None:
    conversations, calls = responder.conversations, Depends(caller)

    async def chat_of(conversation_id: Annotated[SegmentId, Path()], who: Caller = calls) -> Chat:
        chat = await conversations.get(conversation_id, who.tenant_id)
        if chat is None:
            raise UnknownConversation(conversation_id)
        return chat

    the_chat = Depends(chat_of)

    async def watched_of(conversation_id: Annotated[SegmentId, Path()], who: Caller = calls) -> Chat:
        return await conversations.watched(conversation_id, who.tenant_id)

    the_watched = Depends(watched_of)

    async def watch_of(chat: Chat = the_watched) -> AsyncIterator[Watch]:
        # a dependency, so that the watch ends with the request, whatever the stream was doing
        async with responder.app.watch(lane_name("visitor", chat.visitor_uid, chat.tenant_id)) as watch:
            yield watch

    the_watch = Depends(watch_of)

    @router.post(
        "/visitors/{visitor_uid}/messages",
        status_code=202,
        tags=["visitors"],
        summary="Post a visitor's message",
        responses=documented("unknown-conversation", *_WRITE, "conversation-stopped"),
    )
    async def post_message(
        visitor_uid: Annotated[SegmentId, Path()], given: MessageIn, response: Response, who: Caller = calls
    ) -> MessageReceipt:
        """A worker answers it later: read the messages of the conversation, or its events.

        A repeat of a `message_id` is the same message: it gets the same response, with `Idempotency-Replayed: true`.
        """
        event = VisitorMessage(visitor_uid=visitor_uid, tenant_id=who.tenant_id, **given.model_dump())
        await conversations.open(event.conversation_id, event.project_id, visitor_uid, who.tenant_id)
        receipt, is_repeat = await responder.accept(event)
        if is_repeat:
            response.headers["Idempotency-Replayed"] = "true"
        return MessageReceipt(
            message_id=event.message_id,
            conversation_id=event.conversation_id,
            visitor_uid=visitor_uid,
            status="dropped" if receipt.status == "dropped" else "accepted",
            lane=receipt.key,
        )

    @router.patch(
        "/conversations/{conversation_id}",
        tags=["visitors"],
        summary="Switch the AI on or off in a conversation",
        responses=documented("unknown-conversation", *_WRITE),
    )
    async def patch_conversation(
        conversation_id: Annotated[SegmentId, Path()], given: ConversationPatch, who: Caller = calls
    ) -> ConversationOut:
        chat = await conversations.set_ai_enabled(conversation_id, given.ai_enabled, who.tenant_id)
        return ConversationOut(
            conversation_id=chat.conversation_id,
            project_id=chat.project_id,
            visitor_uid=chat.visitor_uid,
            ai_enabled=chat.ai_enabled,
        )

    @router.delete(
        "/conversations/{conversation_id}",
        status_code=204,
        tags=["visitors"],
        summary="Delete a conversation",
        responses=documented("unknown-conversation", *_WRITE),
    )
    async def delete_conversation(conversation_id: Annotated[SegmentId, Path()], who: Caller = calls) -> None:
        """Deletes it with all that was said in it. A new message with this id begins a new conversation. It needs a
        new `message_id`: those of the deleted one are known as repeats for a day.
        """
        await conversations.delete(conversation_id, who.tenant_id)

    @router.get(
        "/conversations/{conversation_id}/messages",
        tags=["visitors"],
        summary="List the messages of a conversation",
        responses=documented("unknown-conversation", *_READ),
    )
    async def get_messages(
        chat: Chat = the_chat,
        after: Annotated[int, Query(ge=0, description="Only messages with a higher seq.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_MESSAGES, description="At most this many messages.")] = 100,
    ) -> MessagesOut:
        found = [message for message in chat.messages if message.seq > after]
        return MessagesOut(
            conversation_id=chat.conversation_id,
            ai_enabled=chat.ai_enabled,
            messages=[MessageOut.of(message) for message in found[:limit]],
            has_more=len(found) > limit,
            waiting=[WaitingOut(**each._asdict()) for each in chat.waiting],
        )

    @router.get(
        "/conversations/{conversation_id}/events",
        tags=["visitors"],
        summary="Stream a conversation as server-sent events",
        response_class=EventSourceResponse,
        responses=documented("unknown-conversation", "too-many-streams", *_READ),
    )
    async def get_events(
        chat: Chat = the_watched,
        watch: Watch = the_watch,
        after: Annotated[int | None, Query(ge=0, description="Send the answers with a higher seq first.")] = None,
        last_event_id: Annotated[str | None, Header(description="The same as `after`; browsers send it.")] = None,
    ) -> AsyncIterator[ServerSentEvent]:
        """The events are `typing`, `token` (its `text` is the next piece of the answer), `restart` (forget the pieces
        so far), `answer` (its `id` is its seq), `outcome` (a message gets no answer: stop waiting for it) and
        `problem`.
        """
        async for event in ChatEvents(conversations, chat, watch, _resume_after(last_event_id, after)).stream():
            yield event


def _resume_after(last_event_id: str | None, after: int | None) -> int | None:
    """A browser that reconnects sends the last id it saw, to the same URL, which may still carry an old `after`."""
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19:
        return int(last_event_id)
    return after


def _checked(given: SettingsIn) -> ProjectSettings:
    fields = {name: getattr(given, name) for name in given.model_fields_set - {"graph"}}
    if given.graph is None:
        return ProjectSettings(**fields)
    sent: Any = given.graph
    if not isinstance(sent, dict):
        raise RequestValidationError([_wrong("graph", "graph", "Input should be an object")])
    try:
        return ProjectSettings(**fields, graph=load_graph(sent))
    except DefinitionError as error:
        raise RequestValidationError([_wrong("graph", "graph", problem) for problem in error.problems]) from error


def _wrong(field: str, kind: str, why: str, given: Any = None) -> dict[str, Any]:
    return {"type": kind, "loc": ("body", field), "msg": why, "input": given}


def _must_deliver(responder: VisitorResponder, settings: ProjectSettings) -> None:
    if settings.deliver is None:
        return
    try:
        responder.app.runtime.handler(settings.deliver)
        is_ours = settings.deliver in (MESSAGES, NOTES)
        why = "this handler takes visitors' messages; it cannot deliver answers" if is_ours else ""
    except UnknownHandler as unknown:
        why = str(unknown)
    if why:
        raise RequestValidationError([_wrong("deliver", "unknown_handler", why, settings.deliver)])
