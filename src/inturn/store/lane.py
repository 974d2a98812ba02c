"""The verbs of a lane. Each is one atomic transition, and each may be repeated: a repeat changes nothing more.

An *ident* names a message in its lane: `<handler>` NUL `<id>`. An inline turn has no handler, and without an id of the
application its id is its token. Bodies, states and results are JSON texts that the store does not look into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

ANY_FENCE = 0
"""To give back a turn that may or may not have been given to a token: only together with `back`."""


def ident_of(handler: str, message_id: str) -> str:
    return f"{handler}\0{message_id}"


def read_ident(ident: str) -> tuple[str, str]:
    handler, _, message_id = ident.partition("\0")
    return handler, message_id


class Submission(NamedTuple):
    """A message for a lane. `late_ms` 0: it may begin at any time; `cap` 0: as many as there are may wait.

    `keep_ms` is how long the state lives on once the lane is idle.
    """

    key: str
    ident: str
    body: bytes
    ttl_ms: int
    limit_ms: int
    keep_ms: int
    busy: Literal["queue", "reject"] = "queue"
    late_ms: int = 0
    cap: int = 0
    priority: int = 0


class Submitted(NamedTuple):
    """`pending`: this message waits or runs already. `ahead`: how many come before it (`full`, `busy`: wait)."""

    status: Literal["accepted", "duplicate", "pending", "busy", "full"]
    ahead: int = 0
    result: bytes = b""
    holder: str = ""
    since_ms: int = 0
    stopped: str = ""


class Opening(NamedTuple):
    """What an inline turn asks for. `name` is the lane's key: a place in its mailbox is waited for as for a lock."""

    name: str
    token: str
    owner: str
    ident: str
    has_id: bool
    ttl_ms: int
    limit_ms: int
    keep_ms: int
    busy: Literal["wait", "reject"]
    cap: int = 0


class Begun(NamedTuple):
    """The answer to a begin. `state` is the text that was committed last, `None` if there is none."""

    status: Literal["granted", "waiting", "duplicate", "pending", "busy", "full"]
    fence: int = 0
    state: bytes | None = None
    ahead: int = 0
    result: bytes = b""
    holder: str = ""
    since_ms: int = 0
    stopped: str = ""
    sent_at: float = 0.0
    doubt_until: float = 0.0


class Left(NamedTuple):
    """`left`: it only waited; `gone`: nothing was there (a repeat); `lost`: it was taken away before."""

    status: Literal["released", "left", "gone", "lost"]


class Given(NamedTuple):
    """One turn for a worker. `attempts` counts this one. `state` is only told by `claim`; later the worker knows it."""

    key: str
    token: str
    fence: int
    ident: str
    body: bytes
    attempts: int
    waited_ms: int
    ttl_ms: int
    limit_ms: int
    sent_at: float
    state: bytes | None = None


class Claimed(NamedTuple):
    """`due_in_ms`: when a lane may become ready by itself (-1: none will)."""

    turns: list[Given]
    due_in_ms: int


class Send(NamedTuple):
    """A message to another lane, or to the same. `is_fresh`: its id was made by us, so it cannot be a duplicate."""

    key: str
    ident: str
    body: bytes
    ttl_ms: int
    limit_ms: int
    keep_ms: int
    is_fresh: bool


class Commit(NamedTuple):
    """What a turn has done. `state` is only looked at for `set`; `window_ms` 0: no mark, and so no result.

    `next_token` (with `can`, the handlers that the worker runs): go on with the next message, if there is one.
    """

    key: str
    token: str
    fence: int
    ident: str
    is_submitted: bool
    state_op: Literal["keep", "set", "del"]
    state: bytes
    keep_ms: int
    window_ms: int
    result: bytes
    sends: Sequence[Send] = ()
    next_token: str = ""
    can: Sequence[str] = ()


class Failure(NamedTuple):
    """Why and how a turn of a submitted message ended with nothing done.

    `retry`: again after `delay_ms`, ahead of what came later. `dead`: to the dead letters. `park`: back to its place,
    and the lane stops. `back`: as if it had not been given. Of the last two, the attempt counts if there is an `error`.
    """

    key: str
    token: str
    fence: int
    how: Literal["retry", "dead", "park", "back"]
    delay_ms: int = 0
    error: str = ""
    why: str = ""
    next_token: str = ""
    can: Sequence[str] = ()


class Ended(NamedTuple):
    """`lost`: the lease was not ours any more, and nothing was written. `gone`: a repeat finds neither of them."""

    status: Literal["committed", "failed", "lost", "gone"]
    next: Given | None
    attempts: int


class Outcome(NamedTuple):
    """What became of a message."""

    status: Literal["done", "dead", "pending", "unknown"]
    result: bytes = b""
    attempts: int = 0
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageView:
    handler: str
    id: str
    priority: int
    attempts: int
    age_ms: int
    due_in_ms: int
    is_inline: bool
    body: bytes
    errors: tuple[str, ...]


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
    key: str
    handler: str
    id: str
    body: bytes
    attempts: int
    accepted_ms: int
    died_ms: int
    errors: tuple[str, ...]


class LaneStore(Protocol):
    """The part of a store that lanes use."""

    async def submit(self, message: Submission) -> Submitted: ...

    async def begin(self, opening: Opening) -> Begun:
        """An inline turn: also to ask again after a lost reply, and to confirm a turn that was offered."""
        ...

    async def leave(self, key: str, token: str, ident: str, fence: int = 0) -> Left:
        """An inline caller gives its turn back with nothing done, or stops waiting for it."""
        ...

    async def claim(self, call: str, can: Sequence[str], count: int) -> Claimed:
        """Up to `count` turns for a worker; when there are fewer, it is told `ready` when there is more to do."""
        ...

    async def unclaim(self, partition: int, call: str) -> int:
        """Give back whatever that claim was given and nobody took."""
        ...

    async def unwork(self) -> None:
        """This process works no more."""
        ...

    async def commit(self, commit: Commit) -> Ended: ...

    async def fail(self, failure: Failure) -> Ended: ...

    async def confirm(self, key: str, token: str) -> bool:
        """Whether the lease of a turn is still known."""
        ...

    async def attend(self, key: str, ident: str) -> Outcome:
        """If it is still open, this process is told `settled` when it is not."""
        ...

    async def forward(self, source: int, target: int) -> int:
        """Bring the sends of one partition to another; answers how many are left. Any process may do it."""
        ...

    async def lanes(self, limit: int) -> LaneList: ...

    async def lane(self, key: str, limit: int) -> LaneView: ...

    async def stop(self, key: str, how: Literal["paused", "parked"], why: str) -> None: ...

    async def resume(self, key: str) -> bool: ...

    async def clear(self, key: str) -> int: ...

    async def dead(self, limit: int) -> list[DeadView]: ...

    async def dead_letter(self, key: str, ident: str) -> DeadView | None: ...

    async def replay(self, key: str, ident: str) -> bool: ...

    async def drop(self, key: str, ident: str) -> bool: ...
