"""Where chats are found: whose a conversation is, what is said in it, and changes from outside of its answers.

A conversation's owner is the state of the lane `chat:{id}`, written once when it is opened. The chat itself is part of
the state of its visitor's lane. A change goes there as a message of its own, so that it waits for no answer, and an
answer that is being written does not undo it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from types import NoneType
from typing import Any

from pydantic import BaseModel

from inturn import arguments
from inturn.app import InTurn
from inturn.errors import UnknownConversation
from inturn.lanes.inline import InlineTurn
from inturn.lanes.own_work import OwnWork
from inturn.lanes.turn import Turn
from inturn.store.limits import MAX_PRIORITY
from inturn.visitors.chat import MAX_MESSAGES, Chat, Outcome, VisitorState, Waiting, iso, iso_time
from inturn.visitors.message import WRITE_WAIT_S, Note, Posted, VisitorMessage, lane_name
from inturn.visitors.patch import merged
from inturn.visitors.reader import LaneReader, VisitorLane

CHAT_TTL_S = 30 * 86400.0
OWNER_TTL_S = 366 * 86400.0
MAX_OWNERS = 10_000
"""Owners that a process keeps in memory. They do not change, so they are not read again for each message."""
READ_AGAIN_S = 300.0
"""Then they are, so that one which is used lives on, and one that was deleted elsewhere is forgotten."""
MAX_IN_LANE = MAX_MESSAGES + 100
"""Messages and changes of a visitor that may wait. More changes are refused, so that readers can be shown all of them;
messages are refused earlier, so that a change finds room.
"""
MAX_SHOWN = 100
"""Waiting messages that a reader of a chat is shown."""

MESSAGES, NOTES = "visitor", "visitor.note"
"""The handlers of visitors' messages and of changes to their chats."""


class Owner(BaseModel):
    """Whose a conversation is."""

    project_id: str
    visitor_uid: str
    tenant_id: str = ""

    def is_of(self, project_id: str, visitor_uid: str) -> bool:
        return (self.project_id, self.visitor_uid) == (project_id, visitor_uid)


class LaneConversations:
    """Keeps a chat for `ttl` seconds after its last write."""

    def __init__(self, app: InTurn, ttl: arguments.Seconds = CHAT_TTL_S) -> None:
        self._app = app
        self.ttl_s = arguments.seconds(ttl, "ttl", maximum=OWNER_TTL_S)
        self.work = OwnWork(app.runtime)
        self._reader = LaneReader(app)
        self._owners: OrderedDict[tuple[str, str], tuple[Owner, float]] = OrderedDict()
        self._looked_after: set[asyncio.Task[None]] = set()
        """Work after whose end someone looks whether a change waits."""
        if NOTES not in app.runtime.handlers:
            app.handler(
                NOTES, key=lambda note: note.lane, body=Note, state=VisitorState, state_ttl=self.ttl_s,
                max_waiting=MAX_IN_LANE, priority=MAX_PRIORITY, group="{tenant_id}",
            )(self._note)  # fmt: skip

    async def _note(self, turn: Turn[VisitorState]) -> None:
        turn.state.apply(turn.body)
        self.make_room(turn, [turn.body.conversation_id])

    def make_room(self, turn: Turn[VisitorState], in_use: list[str]) -> None:
        turn.state.make_room(in_use, self._app.runtime.now_s(), self.ttl_s)

    async def owner(self, conversation_id: str, tenant_id: str = "", *, is_fresh: bool = False) -> Owner | None:
        """Returns whose the conversation is; `None` if there is none. `is_fresh`: as it is now."""
        name, now_s = (tenant_id, conversation_id), self._app.runtime.now_s()
        owner, read_at = self._owners.get(name, (None, 0.0))
        if owner is not None and now_s - read_at < READ_AGAIN_S and not is_fresh:
            return owner
        lane = await self._app.lanes.inspect(lane_name("chat", conversation_id, tenant_id), limit=1)
        owner = _of(tenant_id, lane.state_as(Owner))
        if owner is not None and lane.state_expires_in_s is not None and lane.state_expires_in_s < OWNER_TTL_S / 2:
            async with self._turn(conversation_id, tenant_id):
                pass  # the commit writes the state unchanged, and its lifetime starts again
        return self._remember(name, owner)

    def _remember(self, name: tuple[str, str], owner: Owner | None) -> Owner | None:
        self._owners.pop(name, None)
        if owner is not None:
            self._owners[name] = owner, self._app.runtime.now_s()
            if len(self._owners) > MAX_OWNERS:
                self._owners.popitem(last=False)
        return owner

    async def open(self, conversation_id: str, project_id: str, visitor_uid: str, tenant_id: str = "") -> Owner:
        """Opens the conversation if there is none. Raises `UnknownConversation` if the id belongs to another visitor or
        project.
        """
        owner = await self.owner(conversation_id, tenant_id)
        if owner is None:
            async with self._turn(conversation_id, tenant_id) as turn:
                if turn.state is None:
                    turn.state = Owner(project_id=project_id, visitor_uid=visitor_uid, tenant_id=tenant_id)
                owner = _of(tenant_id, turn.state)
            self._remember((tenant_id, conversation_id), owner)
        if owner is None or not owner.is_of(project_id, visitor_uid):
            raise UnknownConversation(conversation_id)
        return owner

    async def get(self, conversation_id: str, tenant_id: str = "") -> Chat | None:
        """Returns the chat with what waits in it (the first 100 messages); `None` if there is no such conversation."""
        owner = await self.owner(conversation_id, tenant_id)
        if owner is None:
            return None
        lane = await self._read(owner)
        names = {"conversation_id": conversation_id, **owner.model_dump()}
        chat = lane.state.find_or_begin(**names).for_reader()
        for message in lane.messages:
            if message.handler == NOTES:
                note = Note.model_validate_json(message.body)
                if note.chat != names:
                    continue
                if note.is_deleted:
                    chat = VisitorState().find_or_begin(**names)
                else:
                    chat.change(note)
        self._show_waiting(chat, lane)
        return chat

    def _show_waiting(self, chat: Chat, lane: VisitorLane) -> None:
        settled = {message.id for message in chat.messages if message.role == "visitor" and not message.may_be_answered}
        now_s = self._app.runtime.now_s()
        for message in lane.messages:
            if len(chat.waiting) >= MAX_SHOWN:
                return
            if message.handler != MESSAGES or not message.id.startswith(f"{chat.conversation_id}/"):
                continue
            posted = Posted.model_validate_json(message.body)
            is_of_chat = posted.tenant_id == chat.tenant_id and chat.is_of(posted.project_id, posted.visitor_uid)
            if is_of_chat and posted.message_id not in settled:
                at = iso(now_s - message.age_ms / 1000)
                outcome: Outcome | None = "dropped" if posted.is_dropped else None
                chat.waiting.append(Waiting(posted.message_id, posted.text, at, outcome))

    async def watched(self, conversation_id: str, tenant_id: str = "") -> Chat:
        """Returns the chat without what waits. It is shared by all who watch it: do not change it."""
        owner = await self.owner(conversation_id, tenant_id)
        if owner is None:
            raise UnknownConversation(conversation_id)
        lane = await self._reader.read(lane_name("visitor", owner.visitor_uid, tenant_id), 1)
        return lane.state.find_or_begin(conversation_id=conversation_id, **owner.model_dump())

    async def waits_as_dropped(self, message: VisitorMessage) -> bool:
        """Returns whether this message waits in the lane, and will get no answer."""
        lane = await self._reader.read(message.lane, MAX_IN_LANE)
        found = [each for each in lane.messages if (each.handler, each.id) == (MESSAGES, message.lane_message_id)]
        return any(Posted.model_validate_json(each.body).is_dropped for each in found)

    async def _read(self, owner: Owner) -> VisitorLane:
        return await self._reader.read(lane_name("visitor", owner.visitor_uid, owner.tenant_id), MAX_IN_LANE)

    async def set_ai_enabled(self, conversation_id: str, ai_enabled: bool, tenant_id: str = "") -> Chat:
        return await self._change(conversation_id, tenant_id, ai_enabled=ai_enabled)

    async def merge_metadata(self, conversation_id: str, fields: Mapping[str, Any], tenant_id: str = "") -> Chat:
        """Merges these fields into the metadata; `None` removes one. Raises `TooLarge`, and then changes nothing."""
        chat = await self._must_be(conversation_id, tenant_id)
        chat.set_metadata(merged(chat.metadata, fields))
        return await self._change(conversation_id, tenant_id, metadata=dict(fields))

    async def delete(self, conversation_id: str, tenant_id: str = "") -> None:
        """Deletes the conversation with all that was said in it."""
        await self._change(conversation_id, tenant_id, is_deleted=True)
        async with self._turn(conversation_id, tenant_id) as turn:
            if _of(tenant_id, turn.state) is not None:
                turn.state = None
        self._remember((tenant_id, conversation_id), None)

    async def _must_be(self, conversation_id: str, tenant_id: str) -> Chat:
        chat = await self.get(conversation_id, tenant_id)
        if chat is None:
            raise UnknownConversation(conversation_id)
        return chat

    async def _change(self, conversation_id: str, tenant_id: str, **changes: Any) -> Chat:
        owner = await self.owner(conversation_id, tenant_id)
        if owner is None:
            raise UnknownConversation(conversation_id)
        await self._submit(Note(conversation_id=conversation_id, **owner.model_dump(), **changes))
        return await self._must_be(conversation_id, tenant_id)

    async def _submit(self, note: Note) -> None:
        note = note.model_copy(update={"at": iso_time(self._app)})
        await self._app.submit(NOTES, note, message_id=uuid.uuid4().hex)
        self._work_on(note.lane)

    def _work_on(self, lane: str) -> None:
        """Perhaps no worker runs, and what waits here would stand in the way of the next message."""
        running = self.work.running(lane)
        if running is None:
            self.work.start(lane, can=[NOTES])
        elif running not in self._looked_after:  # it may have looked for the last time
            self._looked_after.add(running)
            running.add_done_callback(lambda done: self._look_again(lane, done))

    def _look_again(self, lane: str, done: asyncio.Task[None]) -> None:
        self._looked_after.discard(done)
        if not done.cancelled():
            self._work_on(lane)

    def _turn(self, conversation_id: str, tenant_id: str) -> InlineTurn[Owner | None]:
        key = lane_name("chat", conversation_id, tenant_id)
        return self._app.turn(key, wait=WRITE_WAIT_S, state=Owner, initial=NoneType, state_ttl=OWNER_TTL_S)


def _of(tenant_id: str, owner: Owner | None) -> Owner | None:
    """Each tenant sees only its own, whatever the lane is called."""
    return owner if owner is not None and owner.tenant_id == tenant_id else None
