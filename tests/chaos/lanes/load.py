"""What the processes of one run are told, and what each message is like: the same for every side, by the seed alone."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from inturn.store.sqlite.address import Address


@dataclass(frozen=True, slots=True)
class LaneLoad:
    side: str
    """`inturn` or `naive`."""
    url: str
    namespace: str
    folder: str
    """Where the history is written."""
    seed: int = 0
    until: float = 0.0
    """When nothing new is begun any more, by the machine's own clock."""
    number: int = 0
    """Of this process among those of its crew, from 1 on."""
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
        is_submitted = handler in ("say", "act")
        seconds = chance.choices((0.0, 0.002, 0.02, 0.1, self.ttl_s * 1.5), (500, 400, 80, 20, 2))[0]
        return Nature(
            is_poison=is_submitted and chance.random() < 0.01,
            failures=chance.choice((1, 2)) if handler != "act" and chance.random() < 0.05 else 0,
            seconds=seconds if is_submitted else min(seconds, 0.002),
            to=chance.choice(self.keys) if handler in ("say", "act", "inline") and chance.random() < 0.3 else "",
        )

    def handler_of(self, message_id: str) -> str:
        return "say" if random.Random(f"{self.seed}/{message_id}").random() < 0.6 else "act"


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


class Fails(Exception):
    """A handler's own error."""


def apply(
    state: dict[str, Any], message_id: str, by: str, fence: int, number: int = 0, to: str = "", sender: str = ""
) -> dict[str, Any]:
    """The effect of a turn on its lane. Everything that the checker knows of a lane's past is in these entries."""
    state["count"] += 1
    entry = {"id": message_id, "by": by, "n": state["count"], "fence": fence}
    entry |= {name: value for name, value in (("number", number), ("to", to), ("from", sender)) if value}
    state["list"].append(entry)
    return entry


def fresh_state() -> dict[str, Any]:
    return {"count": 0, "list": []}
