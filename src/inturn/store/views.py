"""What locks, lanes and dead letters look like from outside, at one moment: what the verbs that only look return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True, slots=True)
class Holder:
    token: str
    owner: str
    weight: int
    fence: int
    arrival: int
    held_ms: int
    ends_in_ms: int


@dataclass(frozen=True, slots=True)
class Waiter:
    token: str
    owner: str
    weight: int
    priority: int
    arrival: int
    waited_ms: int


@dataclass(frozen=True, slots=True)
class LockView:
    """One lock as it is now."""

    name: str
    capacity: int
    holders: tuple[Holder, ...]
    waiters: tuple[Waiter, ...]


@dataclass(frozen=True, slots=True)
class MessageView:
    """`lead`: the id of the message that leads its burst; '' for one that leads a burst or is alone."""

    handler: str
    id: str
    priority: int
    attempts: int
    age_ms: int
    due_in_ms: int
    is_inline: bool
    body: bytes
    errors: tuple[str, ...]
    place: Literal["running", "waiting", "delayed"] = "waiting"
    lead: str = ""


@dataclass(frozen=True, slots=True)
class LaneView:
    """One lane as it is now. `token` '': nothing runs; `state_ttl_ms` -1: the state does not expire now."""

    key: str
    token: str
    fence: int
    since_ms: int
    ident: str
    stopped: str
    why: str
    ready: str
    waiting: int
    state: bytes | None
    state_ttl_ms: int
    messages: tuple[MessageView, ...]


class LaneRow(NamedTuple):
    key: str
    token: str
    since_ms: int
    ident: str
    stopped: str
    why: str
    ready: str
    waiting: int


class HandlerRow(NamedTuple):
    """A handler with lanes that are ready for it, and how many living workers run it."""

    name: str
    ready: int
    workers: int


class LaneList(NamedTuple):
    in_use: int
    dead: int
    lanes: list[LaneRow]
    handlers: list[HandlerRow]


@dataclass(frozen=True, slots=True)
class DeadView:
    """`until_ms`: when it expires, by the store's clock."""

    key: str
    handler: str
    id: str
    body: bytes
    attempts: int
    accepted_ms: int
    died_ms: int
    until_ms: int
    errors: tuple[str, ...]
