"""Every key name that inturn uses on Redis is built here (the scripts end the same prefixes).

All keys of one partition carry its hash tag, so that they live on one node of a cluster.
"""

from __future__ import annotations

import zlib
from functools import lru_cache


class Keys:
    """The keys of one partition of a namespace."""

    __slots__ = ("due", "era", "fence", "lock", "names", "prefix", "processes", "waits")

    def __init__(self, namespace: str, partition: int) -> None:
        self.prefix = f"{namespace}:{{{partition}}}:"
        self.fence = f"{self.prefix}fence"
        self.processes = f"{self.prefix}processes"
        self.names = f"{self.prefix}names"
        self.waits = f"{self.prefix}waits"
        self.due = f"{self.prefix}due"
        self.era = f"{self.prefix}era"
        self.lock = lru_cache(10_000)(self._lock)
        """What a verb on one lock may touch, in the order in which the scripts declare it."""

    def inbox(self, process: str) -> str:
        return f"{self.prefix}inbox:{process}"

    def push(self, process: str) -> str:
        return f"{self.prefix}push:{process}"

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


def partition_of(name: str, partitions: int) -> int:
    return zlib.crc32(name.encode()) % partitions if partitions > 1 else 0
