"""`app.lanes`: what runs, what waits, what is stopped; and stopping, resuming and clearing it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from inturn.lanes import text
from inturn import arguments
from inturn.process.identity import read_token
from inturn.process.process import Process
from inturn.store.lane import read_ident
from inturn.store.views import LaneRow, LaneView, MessageView


@dataclass(frozen=True, slots=True)
class MessageInfo:
    handler: str
    id: str
    priority: int
    attempts: int
    age_s: float
    due_in_s: float
    """0: now; else it waits for its next attempt, or is delayed."""
    is_inline: bool
    body: Any
    errors: tuple[dict[str, Any], ...]
    lead: str = ""
    """The id of the message that leads its burst; '' for one that leads, or is alone."""


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """One lane in use. `status`: running, ready (for a worker), waiting (for a time), paused or parked."""

    key: str
    status: str
    handler: str
    """Of the turn that runs, or that comes next."""
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
    """The first of those that wait; the others of a burst follow the one that leads it."""
    why: str
    state: Any
    version: int
    state_expires_in_s: float | None
    """`None`: there is none, or it does not expire while messages wait."""
    burst: tuple[MessageInfo, ...] = ()
    """What the turn that runs has besides `running`."""
    delayed: tuple[MessageInfo, ...] = ()
    """The first of those whose time has not come."""


class Lanes:
    def __init__(self, process: Process) -> None:
        self._process = process

    async def list(self, limit: int = 1000) -> list[LaneSummary]:
        """Every lane that runs, waits or is stopped, by key. An idle one is not among them."""
        await self._process.ready()
        found = await self._process.store.lanes(arguments.whole(limit, "limit", 1, 1_000_000))
        unhandled = {handler.name for handler in found.handlers if not handler.workers}
        return [_summary(row, unhandled) for row in found.lanes]

    async def inspect(self, key: str, limit: int = 100) -> LaneInfo:
        """All there is to see of one lane, with the first `limit` waiting messages."""
        await self._process.ready()
        most = arguments.whole(limit, "limit", 1, 100_000)
        return _info(await self._process.store.lane(arguments.name(key, "key"), most))

    async def pause(self, key: str, why: str = "paused by hand") -> None:
        """What runs may finish; nothing else begins until `resume`. Messages are still accepted."""
        await self._process.ready()
        await self._process.store.stop(arguments.name(key, "key"), "paused", why)

    async def resume(self, key: str) -> bool:
        """Let a paused or parked lane go on; `False` if it was neither."""
        await self._process.ready()
        return await self._process.store.resume(arguments.name(key, "key"))

    async def clear(self, key: str) -> int:
        """Remove its messages and its state, for good; answers how many messages. A running turn cannot commit."""
        await self._process.ready()
        return await self._process.store.clear(arguments.name(key, "key"))


def _summary(row: LaneRow, unhandled: set[str]) -> LaneSummary:
    status = "running" if row.token else row.stopped or ("ready" if row.ready else "waiting")
    handler = read_ident(row.ident)[0] if row.ident else row.ready
    since_s = row.since_ms / 1000
    is_unhandled = bool(row.ready) and row.ready in unhandled
    return LaneSummary(row.key, status, handler, _place(row.token), since_s, row.waiting, row.why, is_unhandled)


def _info(view: LaneView) -> LaneInfo:
    is_running = bool(view.token)
    status = "running" if is_running else view.stopped or ("ready" if view.ready else "waiting")
    if status == "waiting" and not view.waiting:
        status = "idle"
    by_place: dict[str, list[MessageInfo]] = {"running": [], "waiting": [], "delayed": []}
    for message in view.messages:
        by_place[message.place].append(_message(message))
    running = by_place["running"].pop(0) if by_place["running"] else None
    if is_running and running is None:  # inline: the store has nothing of it but the lease
        running = MessageInfo(*read_ident(view.ident), 0, 1, view.since_ms / 1000, 0.0, True, None, ())
    version, _, state = (view.state or b"0 null").partition(b" ")
    version, _, _ = version.partition(b"@")
    expires_in_s = view.state_ttl_ms / 1000 if view.state_ttl_ms >= 0 else None
    return LaneInfo(
        view.key, status, _place(view.token), view.since_ms / 1000, view.fence, running, view.waiting,
        tuple(by_place["waiting"]), view.why, text.read(state), int(version), expires_in_s,
        tuple(by_place["running"]), tuple(by_place["delayed"]),
    )  # fmt: skip


def _message(view: MessageView) -> MessageInfo:
    return MessageInfo(
        view.handler, view.id, view.priority, view.attempts, view.age_ms / 1000, view.due_in_ms / 1000,
        view.is_inline, text.read(view.body) if view.body else None, tuple(json.loads(error) for error in view.errors),
        view.lead,
    )  # fmt: skip


def _place(token: str) -> str | None:
    return "{}:{}".format(*read_token(token)) if token else None
