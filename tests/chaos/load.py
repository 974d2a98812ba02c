"""What the worker processes of one run are told to do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from inturn.store.sqlite.connection import Address

NAMES = (("m0", 1), ("m1", 1), ("m2", 1), ("m3", 1), ("s0", 3))
"""Names and capacities: four locks and a semaphore."""


@dataclass(frozen=True, slots=True)
class Load:
    lock: str
    """`inturn` or `naive`."""
    url: str
    namespace: str
    folder: str
    """Where the history is written."""
    seed: int = 0
    ttl_s: float = 1.2
    store_timeout_s: float = 2.0
    tasks: int = 4
    pause_s: float = 0.01
    cancels: float = 0.02
    """The share of holds that is cancelled at a random await."""
    blocks: bool = False
    """Whether bodies block their event loop for longer than the ttl now and then."""
    names: tuple[tuple[str, int], ...] = NAMES

    @property
    def file(self) -> str:
        """The database, if it is one."""
        if self.lock == "inturn":
            return str(Address.from_url(self.url, self.namespace))
        return self.url.removeprefix("sqlite:///")

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Load:
        facts: dict[str, Any] = json.loads(text)
        facts["names"] = tuple((name, capacity) for name, capacity in facts["names"])
        return cls(**facts)

    def of_worker(self, number: int) -> Load:
        return replace(self, seed=self.seed * 1000 + number)
