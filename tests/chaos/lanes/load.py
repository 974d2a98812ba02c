"""What the processes of one run are told, and what each message is like: the same for every side, by the seed alone."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from inturn.store.sqlite.connection import Address

HANDLERS = {"say": 30, "act": 15, "gather": 10, "cut": 12, "undo": 8, "last": 8, "take": 8, "fresh": 5, "idle": 4}
"""Those that clients submit to, and how often: two that queue, then one for each policy.

gather merges, cut interrupts, undo rolls back, last is the latest, take steers, fresh commits unless there is newer,
and idle lets others interrupt it.
"""
SUPERSEDES = ("undo", "last")


@dataclass(frozen=True, slots=True)
class LaneLoad:
    side: str
    """`inturn` or `naive`."""
    url: str
    namespace: str
    folder: str
    """Where the history is written."""
    seed: int = 0
    number: int = 0
    """Of this process among those of its workers, from 1 on."""
    lanes: int = 100
    clients: int = 2
    partitions: int = 1
    ttl_s: float = 2.0
    store_timeout_s: float = 2.0
    pause_s: float = 0.4
    """Between two messages of a lane, on average."""
    most: int = 250
    """Messages of one lane, at most: a state must not grow without end."""

    @property
    def keys(self) -> list[str]:
        return [f"lane:{number}" for number in range(self.lanes)]

    @property
    def until(self) -> float:
        """When nothing new is begun any more, by the machine's own clock. Nobody knows it before all have started."""
        try:
            return float((Path(self.folder) / "until").read_text())
        except FileNotFoundError:
            return math.inf

    def end_at(self, until: float) -> None:
        """All processes find it at once, and whole."""
        written = Path(self.folder) / "until.new"
        written.write_text(str(until))
        written.rename(Path(self.folder) / "until")

    @property
    def file(self) -> str:
        """The database, if it is one."""
        return str(Address.from_url(self.url, self.namespace))

    @property
    def chance(self) -> random.Random:
        return random.Random(f"{self.seed}/{self.number}")

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LaneLoad:
        facts: dict[str, Any] = json.loads(text)
        return cls(**facts)

    def of_worker(self, number: int) -> LaneLoad:
        return replace(self, number=number)

    def nature(self, handler: str, message_id: str) -> Nature:
        chance = random.Random(f"{self.seed}/{handler}/{message_id}")
        is_submitted = handler in HANDLERS
        weights = (500, 400, 80, 20, 2) if handler in ("say", "act") else (200, 200, 400, 200, 2)
        seconds = chance.choices((0.0, 0.002, 0.02, 0.1, self.ttl_s * 1.5), weights)[0]
        return Nature(
            is_poison=is_submitted and chance.random() < 0.01,
            failures=chance.choice((1, 2)) if handler != "act" and chance.random() < 0.05 else 0,
            seconds=seconds if is_submitted else min(seconds, 0.002),
            to=chance.choice(self.keys) if (is_submitted or handler == "inline") and chance.random() < 0.3 else "",
            priority=1 if is_submitted and chance.random() < 0.05 else 0,
            delay_s=chance.uniform(0.01, 0.5) if is_submitted and chance.random() < 0.05 else 0.0,
            is_cancelled=is_submitted and chance.random() < 0.05,
            is_interruptible=handler == "idle" or (handler == "inline" and chance.random() < 0.3),
        )

    def handler_of(self, message_id: str) -> str:
        """Three in a row of a lane are for the same one: people write more than once."""
        key, _, number = message_id.rpartition(".")
        chance = random.Random(f"{self.seed}/{key}/{int(number) // 3}")
        return chance.choices(list(HANDLERS), list(HANDLERS.values()))[0]


class Nature(NamedTuple):
    """What becomes of a message, whoever runs it."""

    is_poison: bool
    """Every attempt fails."""
    failures: int
    """So many attempts fail before one does not."""
    seconds: float
    """How long its body takes."""
    to: str
    """The other lane that its turn sends to, if any."""
    priority: int = 0
    delay_s: float = 0.0
    is_cancelled: bool = False
    """Its client tries to."""
    is_interruptible: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether it comes in the order of acceptance: a delayed one does not, nor one that goes behind another."""
        return not self.delay_s and not self.is_interruptible


class Fails(Exception):
    """A handler's own error."""


def apply(
    state: dict[str, Any],
    message_id: str,
    by: str,
    fence: int,
    number: int = 0,
    to: str = "",
    sender: str = "",
    priority: int = 0,
    lead: str = "",
) -> dict[str, Any]:
    """The effect of a message on its lane. Everything that the checker knows of a lane's past is in these entries.

    `number`: of those that come in order. `lead`: the message that led the burst which this one was in, if another did.
    """
    state["count"] += 1
    entry = {"id": message_id, "by": by, "n": state["count"], "fence": fence}
    facts = (("number", number), ("to", to), ("from", sender), ("priority", priority), ("lead", lead))
    entry |= {name: value for name, value in facts if value}
    state["list"].append(entry)
    return entry


def fresh_state() -> dict[str, Any]:
    return {"count": 0, "list": []}
