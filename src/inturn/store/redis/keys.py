"""Builds every key name that inturn uses on Redis (the scripts build some of the same names from the prefix).

All keys of one partition carry its hash tag, so that they live on one node of a cluster.
"""

from __future__ import annotations

import zlib
from functools import lru_cache


class Keys:
    """The keys of one partition of a namespace."""

    __slots__ = (
        "alarms", "dead", "due", "era", "fence", "forwards", "handlers", "lane", "lanes", "letters", "lock", "names",
        "prefix", "processes", "taken", "waits", "workers",
    )  # fmt: skip

    def __init__(self, namespace: str, partition: int) -> None:
        self.prefix = f"{namespace}:{{{partition}}}:"
        self.fence = f"{self.prefix}fence"
        self.processes = f"{self.prefix}processes"
        self.names = f"{self.prefix}names"
        self.waits = f"{self.prefix}waits"
        self.due = f"{self.prefix}due"
        self.era = f"{self.prefix}era"
        self.lanes = f"{self.prefix}lanes"
        self.alarms = f"{self.prefix}alarms"
        self.handlers = f"{self.prefix}handlers"
        self.workers = f"{self.prefix}workers"
        self.dead = f"{self.prefix}dead"
        self.letters = f"{self.prefix}letters"
        self.forwards = f"{self.prefix}forwards"
        self.taken = f"{self.prefix}taken"
        self.lock = lru_cache(10_000)(self._lock)
        """What a verb on one lock may touch, in the order in which the scripts declare it."""
        self.lane = lru_cache(10_000)(self._lane)
        """The same for a lane."""

    def inbox(self, process: str) -> str:
        return f"{self.prefix}inbox:{process}"

    def push(self, process: str) -> str:
        return f"{self.prefix}push:{process}"

    def watch(self, key: str) -> str:
        return f"{self.prefix}watch:{key}"

    def forward(self, partition: int) -> str:
        return f"{self.prefix}forward:{partition}"

    def note(self, call: str) -> str:
        return f"{self.prefix}note:{call}"

    def mark(self, key: str, ident: str) -> str:
        return f"{self.prefix}mark:{key}\0{ident}"

    def _lane(self, key: str) -> tuple[str, ...]:
        prefix = self.prefix
        return (
            self.lanes,
            f"{prefix}state:{key}",
            f"{prefix}mail:{key}",
            f"{prefix}msgs:{key}",
            self.fence,
            self.processes,
            self.alarms,
            self.era,
        )

    def _lock(self, name: str) -> tuple[str, ...]:
        prefix = self.prefix
        return (
            f"{prefix}lock:{name}",
            f"{prefix}queue:{name}",
            f"{prefix}places:{name}",
            self.fence,
            self.processes,
            self.names,
            self.waits,
            self.due,
            self.era,
        )


def never(prefix: str) -> str:
    """A key that never exists, so that no call has all its keys in a slot that is being moved: see `wire.py`."""
    return f"{prefix}never"


def copied(prefix: str) -> str:
    """What is written so that replicas can be waited for: see `replicas.py`."""
    return f"{prefix}copied"


def divided(namespace: str) -> str:
    """Into how many partitions the namespace is divided. All of them have a partition 0, where this is."""
    return f"{namespace}:{{0}}:partitions"


def partition_of(name: str, partitions: int) -> int:
    """The lane `<key>><handler>`, where sends of `<key>` go by default, lives in the partition of `<key>`."""
    return zlib.crc32(name.partition(">")[0].encode()) % partitions if partitions > 1 else 0
