"""The verbs of a store. Each is one atomic transition, and each may be repeated: a repeat changes nothing more.

A *token* names one request of one process (`<process>#<number>`), from its acquire to its release. Times are the
store's own. `sent_at` is the caller's suspend-proof clock when the answered call left, so that a lease counted from
there never lasts longer here than in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from inturn.store.lane import LaneStore
from inturn.store.views import LockView


class Request(NamedTuple):
    """What an acquire asks for. `ttl_ms` 0: not tied to the process; `life_ms` 0: no fixed end."""

    name: str
    token: str
    owner: str
    capacity: int
    weight: int
    ttl_ms: int
    life_ms: int
    priority: int
    wait: bool


class Grant(NamedTuple):
    """A lock was given to a token. `life_left_ms` 0: no fixed end."""

    token: str
    fence: int
    arrival: int
    life_left_ms: int


class Acquired(NamedTuple):
    """What an acquire returns. `other` is the token of a holder (`busy`, `own`) or a capacity (`mismatch`).

    `doubt_until`: until then (our clock) bytes of an earlier attempt may still arrive, and ask for the lock again.
    """

    status: Literal["granted", "waiting", "busy", "own", "mismatch"]
    fence: int = 0
    arrival: int = 0
    life_left_ms: int = 0
    other: str = ""
    sent_at: float = 0.0
    doubt_until: float = 0.0


class Released(NamedTuple):
    """`left`: it only waited; `gone`: nothing was there (a repeat); `lost`: it was taken away before."""

    status: Literal["released", "left", "gone", "lost"]


class Extended(NamedTuple):
    status: Literal["extended", "lost"]
    life_left_ms: int
    sent_at: float


Kind = Literal["granted", "lost", "turn", "settled", "ready"]


class Notice(NamedTuple):
    """What a process is told: a lock was granted to one of its waiting tokens, or a lease was taken away.

    Of lanes it is told that an inline caller's `turn` has come, that a message is `settled` (its result is known, and
    `name` is the key, NUL and the ident) and that there is a `ready` lane: `name` is its partition and the handler.

    A grant that carries its fence is complete. One without is provisional: the process confirms it by repeating its
    acquire. The fence of a loss tells which grant was lost: the token may have got another since.
    """

    kind: Kind
    name: str
    token: str
    why: str = ""
    fence: int = 0
    grant: Grant | None = None
    sent_at: float = 0.0


class Beat(NamedTuple):
    """What a beat returns. `is_known`: the store has seen the process before.

    `era` is the first number that this memory gave out: a grant with a smaller fence was lost with another memory.
    """

    now_us: int
    era: int
    away_ms: int
    is_known: bool
    due_in_ms: int
    notices: list[Notice]
    sent_at: float
    forwards: tuple[int, ...] = ()
    """The partitions that sends of this one wait for."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One wait: `owner` (of locks, or the token of a turn) waits for `name`; the blockers hold it or wait ahead.

    `needs_all`: all blockers must go first (a mutex, a writer, a lane). Otherwise it may be enough if one of them goes.
    `reported`: when its process last said so (the store's clock; 0: the store knows it by itself).
    """

    owner: str
    name: str
    token: str
    arrival: int
    age_ms: int
    needs_all: bool
    blockers: tuple[str, ...]
    reported: int = 0


class Wait(NamedTuple):
    """What a process reports of a node (an owner of locks, or the token of a turn): it cannot go on before this ends.

    An `ident` of '' is a wait for a lock, else for that message of a lane. A `token` of '' says that the node waits for
    nothing in this partition. `arrival` 0: it began `age_ms` ago.
    """

    node: str
    token: str = ""
    name: str = ""
    ident: str = ""
    arrival: int = 0
    age_ms: int = 0


Listener = Callable[[Notice], None]
"""Called for every notice, in the thread (and on the loop) in which the store learnt of it. Must not block."""

HowToExtend = Literal["add", "set", "at_least"]


class Store(LaneStore, Protocol):
    """Every failure is `StoreUnavailable`, or is retried where repeating is safe, until the call's deadline."""

    url: str
    process: str
    partitions: int
    timeout_s: float

    def listen(self, listener: Listener, reopened: Callable[[], None]) -> None:
        """Sets who hears notices. `reopened` is called on a loop whose connection came back: pushes may be missing."""
        ...

    def partition_of(self, name: str) -> int: ...

    def must_share(self) -> None:
        """Raises `SettingsError` if turns cannot hold plain keys as well (`shares=`)."""
        ...

    async def check(self) -> list[str]:
        """Refuses a server that cannot keep the promises. Returns what its owner should be warned about."""
        ...

    async def check_partitions(self, pushes: bool = True) -> None:
        """Refuses a namespace that others divide into another number of partitions: `SettingsError`.

        Part of `check`; also for a process that beats, when a memory has answered that it has not seen before.
        """
        ...

    async def acquire(self, request: Request) -> Acquired: ...

    async def release(self, name: str, token: str, fence: int = 0) -> Released:
        """`fence` tells a lease that the store forgot from a repeated release (0: not held, or unknown)."""
        ...

    async def extend(self, name: str, token: str, how: HowToExtend, ms: int) -> Extended: ...

    async def beat(self, partition: int, noted: Sequence[Notice]) -> Beat: ...

    async def depart(self) -> None: ...

    async def edges(self, owners: Sequence[str]) -> list[Edge]: ...

    async def report(self, partition: int, waits: Sequence[Wait]) -> int:
        """Says what each node waits for in this partition, for three beats. Returns the store's time (µs)."""
        ...

    async def names(self, limit: int) -> list[str]: ...

    async def inspect(self, name: str) -> LockView | None: ...

    async def force_release(self, name: str, owner: str = "") -> int:
        """Takes the lock away from all its holders, or gives back the oldest hold of this owner. Returns how many."""
        ...

    def forget(self) -> None:
        """After a fork: drops every connection and thread without touching what the parent owns."""
        ...

    async def close(self) -> None: ...
