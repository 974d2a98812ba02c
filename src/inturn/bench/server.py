"""The server's own statistics: what it counted itself between two moments."""

from __future__ import annotations

from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple

import redis
from prometheus_client import REGISTRY


def beats() -> int:
    """How often the heartbeat of this process was answered: its calls are no part of what a lock costs."""
    return int(REGISTRY.get_sample_value("inturn_renewals_total", {"outcome": "confirmed"}) or 0)


class Counted(NamedTuple):
    """`scripts`: EVALSHA and EVAL. `reads`: reads from sockets, which for a lone caller are its round trips."""

    scripts: int
    reads: int


class ServerCounts:
    """Asking costs one read each time; `since` leaves it out."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url)

    @property
    def version(self) -> str:
        facts = self._info("server")
        return str(facts.get("valkey_version") or facts["redis_version"])

    def now(self) -> Counted:
        commands = self._info("commandstats")
        scripts = sum(commands.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))
        return Counted(scripts, int(self._info("stats")["total_reads_processed"]))

    def since(self, before: Counted) -> Counted:
        after = self.now()
        return Counted(after.scripts - before.scripts, after.reads - before.reads - 2)

    def remove(self, prefix: str) -> None:
        """What a run on a server that is not ours has left there."""
        found = self._client.scan_iter(match=f"*{prefix}*", count=1000)
        while keys := list(islice(found, 1000)):
            self._client.unlink(*keys)

    def _info(self, section: str) -> dict[str, Any]:
        return self._client.info(section)

    def __enter__(self) -> ServerCounts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
