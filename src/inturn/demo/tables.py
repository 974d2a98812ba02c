"""A policy as a time line: what arrives and how long a turn takes, and which turns and endings follow from it.

Times are in units; who plays a table says how long one is. Messages are single letters, and several of them in a turn
are a word: "BC".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from inturn.lanes.policy import Busy

How = Literal["runs", "committed", "newer", "interrupted", "failed", "dead"]
"""`runs`: it is not over. `newer`: newer messages waited, so it was not committed, and begins again with them."""


FATES = {
    "superseded": "superseded", "cancelled": "cancelled", "dropped": "dropped", "LaneBusy": "LaneBusy",
    "LaneTimeout": "LaneTimeout", "dead": "a dead letter",
}  # fmt: skip
"""What becomes of a message that is not answered."""


def receipts(ends: Mapping[str, str]) -> list[str]:
    """What became of the messages: those that share an answer, or a fate, are named together."""
    groups: dict[str, list[str]] = {}
    for name, end in ends.items():
        groups.setdefault("alone" if end == name else end, []).append(name)
    alone = "an answer each" if len(groups.get("alone", ())) > 1 else "an answer"
    words = FATES | {"alone": alone}
    return [f"{', '.join(names)}: {words.get(end, 'one answer')}" for end, names in groups.items()]


@dataclass(frozen=True, slots=True)
class Handles:
    """A handler: every run of it takes so long. A turn over one of the messages in `fails` fails at its end."""

    takes: float
    busy: Busy = "queue"
    name: str = "chat"
    quiet: float | None = None
    max_quiet: float | None = None
    max_burst: int | None = None
    cut: Callable[[Any], bool] | None = None
    wait: float | None = None
    priority: int = 0
    interruptible: bool = False
    unless_newer: bool = False
    steers: bool = False
    """Before it ends it takes what arrived meanwhile, and works on for as long again."""
    fails: str = ""
    attempts: int = 5


@dataclass(frozen=True, slots=True)
class At:
    """A message arrives. `says`: what its receipt must say at once."""

    at: float
    name: str
    to: str = "chat"
    priority: int | None = None
    delay: float = 0
    text: str = ""
    says: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Someone calls `receipt.cancel()`, in time or too late."""

    at: float
    name: str
    works: bool = True


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a handler: from when to when, over which messages."""

    since: float
    until: float
    messages: str
    how: How = "committed"


@dataclass(frozen=True, slots=True)
class Note:
    """A span of time that the picture names."""

    since: float
    until: float
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    title: str
    handlers: tuple[Handles, ...]
    arrivals: tuple[At | Cancel, ...]
    turns: tuple[Ran, ...]
    ends: Mapping[str, str]
    """By message: its result, which is the word of the turn that answered it; or superseded, cancelled, dropped,
    LaneBusy, LaneTimeout, dead.
    """
    notes: tuple[Note, ...] = field(default=())

    @property
    def messages(self) -> tuple[At, ...]:
        return tuple(arrival for arrival in self.arrivals if isinstance(arrival, At))

    @property
    def length(self) -> float:
        return max([turn.until for turn in self.turns] + [arrival.at for arrival in self.arrivals])
