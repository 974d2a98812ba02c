"""`app.lanes` and `app.dead_letters`: what runs, waits, is stopped or has failed for good; and acting on it.

Reading changes nothing. A dead letter is kept with its errors until someone replays or drops it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from inturn import arguments
from inturn.errors import StateMismatch
from inturn.lanes import codec, template
from inturn.process.process import Process, read_token
from inturn.store.lane import ident_of, read_ident
from inturn.store.views import DeadView, LaneRow, LaneView, MessageView

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class MessageInfo:
    handler: str
    id: str
    priority: int
    attempts: int
    age_s: float
    due_in_s: float
    """0: now. Otherwise it waits for its next attempt, or is delayed."""
    is_inline: bool
    body: Any
    errors: tuple[dict[str, Any], ...]
    lead: str = ""
    """The id of the message that leads its burst; '' if it leads one itself, or is alone."""


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """One lane in use. `status`: running, ready (for a worker), waiting (for a time), paused or parked."""

    key: str
    status: str
    handler: str
    """The handler of the turn that runs, or that comes next."""
    holder: str | None
    held_s: float
    waiting: int
    why: str
    is_unhandled: bool
    """Its next message is for a handler that no living worker runs."""


@dataclass(frozen=True, slots=True)
class LaneInfo:
    """One lane, whether it is in use or not."""

    key: str
    status: str
    holder: str | None
    held_s: float
    fence: int
    running: MessageInfo | None
    waiting: int
    messages: tuple[MessageInfo, ...]
    """The first of those that wait; a burst follows the message that leads it."""
    why: str
    state: Any
    version: int
    state_expires_in_s: float | None
    """`None` if there is no state, or while messages wait: then it does not expire."""
    burst: tuple[MessageInfo, ...] = ()
    """The messages of the running turn besides `running`."""
    delayed: tuple[MessageInfo, ...] = ()
    """The first of the delayed messages."""

    def state_as(self, kind: type[M]) -> M | None:
        """The state as a pydantic model or a dataclass; `None` if there is none.

        `StateMismatch` if it does not fit: other code has written it.
        """
        if self.state is None:
            return None
        try:
            return TypeAdapter(kind).validate_python(self.state)
        except ValidationError as error:
            raise StateMismatch(self.key, codec.why_not(error)) from error


class Lanes:
    def __init__(self, process: Process) -> None:
        self._process = process

    async def list(self, limit: int = 1000) -> list[LaneSummary]:
        """Every lane that runs, waits or is stopped, by key. Idle lanes are not listed."""
        await self._process.ready()
        found = await self._process.store.lanes(arguments.whole(limit, "limit", 1, 1_000_000))
        unhandled = {handler.name for handler in found.handlers if not handler.workers}
        return [_summary(row, unhandled) for row in found.lanes]

    async def inspect(self, key: str, limit: int = 100) -> LaneInfo:
        """Everything about one lane, with the first `limit` waiting messages."""
        await self._process.ready()
        count = arguments.whole(limit, "limit", 1, 100_000)
        return _info(await self._process.store.lane(template.lane(key), count))

    async def state(self, key: str, kind: type[M]) -> M | None:
        """The stored state as a pydantic model or a dataclass, read without a turn; `None` if there is none.

        `StateMismatch` if it does not fit. For more than the state, `inspect(key)` has `state_as(kind)`.
        """
        return (await self.inspect(key, limit=1)).state_as(kind)

    async def pause(self, key: str, why: str = "paused by hand") -> None:
        """Let what runs finish, and begin nothing else until `resume`. Messages are still accepted."""
        await self._process.ready()
        await self._process.store.stop(template.lane(key), "paused", why)

    async def resume(self, key: str) -> bool:
        """Let a paused or parked lane go on. `False` if it was neither."""
        await self._process.ready()
        return await self._process.store.resume(template.lane(key))

    async def clear(self, key: str) -> int:
        """Remove its messages and its state for good. Returns how many messages. A running turn cannot commit."""
        await self._process.ready()
        return await self._process.store.clear(template.lane(key))


def _summary(row: LaneRow, unhandled: set[str]) -> LaneSummary:
    status = "running" if row.token else row.stopped or ("ready" if row.ready else "waiting")
    handler = read_ident(row.ident)[0] if row.ident else row.ready
    return LaneSummary(
        key=row.key,
        status=status,
        handler=handler,
        holder=_holder(row.token),
        held_s=row.since_ms / 1000,
        waiting=row.waiting,
        why=row.why,
        is_unhandled=bool(row.ready) and row.ready in unhandled,
    )


def _info(view: LaneView) -> LaneInfo:
    is_running = bool(view.token)
    status = "running" if is_running else view.stopped or ("ready" if view.ready else "waiting")
    if status == "waiting" and not view.waiting:
        status = "idle"
    by_place: dict[str, list[MessageInfo]] = {"running": [], "waiting": [], "delayed": []}
    for message in view.messages:
        by_place[message.place].append(_message(message))
    running = by_place["running"].pop(0) if by_place["running"] else None
    if is_running and running is None:  # an inline turn: the store has only its lease
        handler, message_id = read_ident(view.ident)
        running = MessageInfo(
            handler, message_id, priority=0, attempts=1, age_s=view.since_ms / 1000, due_in_s=0.0, is_inline=True,
            body=None, errors=(),
        )  # fmt: skip
    version, _, state = (view.state or b"0 null").partition(b" ")
    version, _, _ = version.partition(b"@")
    expires_in_s = view.state_ttl_ms / 1000 if view.state_ttl_ms >= 0 else None
    return LaneInfo(
        key=view.key,
        status=status,
        holder=_holder(view.token),
        held_s=view.since_ms / 1000,
        fence=view.fence,
        running=running,
        waiting=view.waiting,
        messages=tuple(by_place["waiting"]),
        why=view.why,
        state=codec.read_json(state),
        version=int(version),
        state_expires_in_s=expires_in_s,
        burst=tuple(by_place["running"]),
        delayed=tuple(by_place["delayed"]),
    )


def _message(view: MessageView) -> MessageInfo:
    return MessageInfo(
        handler=view.handler,
        id=view.id,
        priority=view.priority,
        attempts=view.attempts,
        age_s=view.age_ms / 1000,
        due_in_s=view.due_in_ms / 1000,
        is_inline=view.is_inline,
        body=codec.read_json(view.body) if view.body else None,
        errors=tuple(json.loads(error) for error in view.errors),
        lead=view.lead,
    )


def _holder(token: str) -> str | None:
    return "{}:{}".format(*read_token(token)) if token else None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    key: str
    handler: str
    id: str
    body: Any
    attempts: int
    accepted_at: float
    """Seconds since the epoch, by the store's clock; of its last replay, if it had one."""
    died_at: float
    expires_at: float
    errors: tuple[dict[str, Any], ...]


class DeadLetters:
    def __init__(self, process: Process) -> None:
        self._process = process

    async def list(self, limit: int = 1000) -> list[DeadLetter]:
        """The oldest first. If there are more than `limit`, those that expire first."""
        await self._process.ready()
        found = await self._process.store.dead(arguments.whole(limit, "limit", 1, 1_000_000))
        return [_letter(view) for view in found]

    async def show(self, key: str, handler: str, message_id: str) -> DeadLetter | None:
        await self._process.ready()
        view = await self._process.store.dead_letter(*_address(key, handler, message_id))
        return None if view is None else _letter(view)

    async def replay(self, key: str, handler: str, message_id: str) -> bool:
        """Put it back in its old place in the lane, with all attempts; no duplicate check. `False`: not found."""
        await self._process.ready()
        return await self._process.store.replay(*_address(key, handler, message_id))

    async def drop(self, key: str, handler: str, message_id: str) -> bool:
        """Delete it for good. `False`: not found."""
        await self._process.ready()
        return await self._process.store.drop(*_address(key, handler, message_id))


def _address(key: str, handler: str, message_id: str) -> tuple[str, str]:
    named = arguments.name(handler, "handler"), arguments.name(message_id, "message_id")
    return template.lane(key), ident_of(*named)


def _letter(view: DeadView) -> DeadLetter:
    return DeadLetter(
        key=view.key,
        handler=view.handler,
        id=view.id,
        body=codec.read_json(view.body),
        attempts=view.attempts,
        accepted_at=view.accepted_ms / 1000,
        died_at=view.died_ms / 1000,
        expires_at=view.until_ms / 1000,
        errors=tuple(json.loads(error) for error in view.errors),
    )
