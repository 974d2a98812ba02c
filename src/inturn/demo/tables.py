"""A policy as a table: what arrives and how long a turn takes, and which turns and endings follow from it.

These are the tables that the demo plays. Times are in units, whose length the player chooses. Events at different times
are half a unit apart at least, so that a play in real time has one outcome. A message is a letter, and several messages
in a turn are a word: "BC".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inturn.lanes.policy import Busy

How = Literal["runs", "committed", "newer", "interrupted", "failed", "dead"]
"""`runs`: it is not over yet. `newer`: newer messages waited, so it was not committed, and begins again with them."""

FATES = {
    "superseded": "superseded", "cancelled": "cancelled", "dropped": "dropped", "LaneBusy": "LaneBusy",
    "LaneTimeout": "LaneTimeout", "dead": "a dead letter",
}  # fmt: skip
"""What happens to a message that is not answered."""


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

    @property
    def messages(self) -> tuple[At, ...]:
        return tuple(arrival for arrival in self.arrivals if isinstance(arrival, At))

    @property
    def length(self) -> float:
        return max([turn.until for turn in self.turns] + [arrival.at for arrival in self.arrivals])


BURST = (At(0, "A"), At(1, "B"), At(2, "C"), At(5.5, "D"))
"""Three messages in a row, and a fourth one later: the same for every policy. A turn takes three units."""

QUEUE = Table(
    "queue",
    "queue: one after the other",
    (Handles(3),),
    BURST,
    (Ran(0, 3, "A"), Ran(3, 6, "B"), Ran(6, 9, "C"), Ran(9, 12, "D")),
    {"A": "A", "B": "B", "C": "C", "D": "D"},
)

WAIT = Table(
    "wait",
    "wait: one after the other, but not too late",
    (Handles(3, "wait", wait=2.5),),
    BURST,
    (Ran(0, 3, "A"), Ran(3, 6, "B"), Ran(6, 9, "D")),
    {"A": "A", "B": "B", "C": "LaneTimeout", "D": "D"},
)

REJECT = Table(
    "reject",
    "reject: the caller gets an error",
    (Handles(3, "reject"),),
    BURST,
    (Ran(0, 3, "A"), Ran(5.5, 8.5, "D")),
    {"A": "A", "B": "LaneBusy", "C": "LaneBusy", "D": "D"},
)

DROP = Table(
    "drop",
    "drop: the message is gone",
    (Handles(3, "drop"),),
    BURST,
    (Ran(0, 3, "A"), Ran(5.5, 8.5, "D")),
    {"A": "A", "B": "dropped", "C": "dropped", "D": "D"},
)

MERGE = Table(
    "merge",
    "merge: what waited is answered together",
    (Handles(3, "merge"),),
    BURST,
    (Ran(0, 3, "A"), Ran(3, 6, "BC"), Ran(6, 9, "D")),
    {"A": "A", "B": "BC", "C": "BC", "D": "D"},
)

MERGE_QUIET = Table(
    "merge-quiet",
    "merge with a quiet time: the turn begins when no more comes",
    (Handles(3, "merge", quiet=1.5),),
    BURST,
    (Ran(3.5, 6.5, "ABC"), Ran(7, 10, "D")),
    {"A": "ABC", "B": "ABC", "C": "ABC", "D": "D"},
)

INTERRUPT = Table(
    "interrupt",
    "interrupt: the turn begins again, with the new message",
    (Handles(3, "interrupt"),),
    BURST,
    (Ran(0, 1, "A", "interrupted"), Ran(1, 2, "AB", "interrupted"), Ran(2, 5, "ABC"), Ran(5.5, 8.5, "D")),
    {"A": "ABC", "B": "ABC", "C": "ABC", "D": "D"},
)

ROLLBACK = Table(
    "rollback",
    "rollback: only the newest message counts, and it begins at once",
    (Handles(3, "rollback"),),
    BURST,
    (Ran(0, 1, "A", "interrupted"), Ran(1, 2, "B", "interrupted"), Ran(2, 5, "C"), Ran(5.5, 8.5, "D")),
    {"A": "superseded", "B": "superseded", "C": "C", "D": "D"},
)

LATEST = Table(
    "latest",
    "latest: the turn that runs may finish; of what waits, only the newest stays",
    (Handles(3, "latest"),),
    BURST,
    (Ran(0, 3, "A"), Ran(3, 6, "C"), Ran(6, 9, "D")),
    {"A": "A", "B": "superseded", "C": "C", "D": "D"},
)

STEER = Table(
    "steer",
    "steer: before it ends, the handler takes what arrived meanwhile",
    (Handles(3, steers=True),),
    BURST,
    (Ran(0, 9, "ABCD"),),
    {"A": "ABCD", "B": "ABCD", "C": "ABCD", "D": "ABCD"},
)

UNLESS_NEWER = Table(
    "unless-newer",
    "commit unless newer: an answer that knows less than it could is not committed",
    (Handles(3, unless_newer=True),),
    BURST,
    (Ran(0, 3, "A", "newer"), Ran(3, 6, "ABC", "newer"), Ran(6, 9, "ABCD")),
    {"A": "ABCD", "B": "ABCD", "C": "ABCD", "D": "ABCD"},
)

SAME_BURST = (
    QUEUE, WAIT, REJECT, DROP, MERGE, MERGE_QUIET, INTERRUPT, ROLLBACK, LATEST, STEER, UNLESS_NEWER,
)  # fmt: skip
"""What `inturn demo policies` plays, side by side."""
