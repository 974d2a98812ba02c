"""Facts about a run: the machine, the versions, how busy other programs kept it, and the server's own counts."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import redis
from prometheus_client import REGISTRY

from benchmarks.plan import Plan
from inturn.errors import SettingsError

REDIS_PY = ("redis", "hiredis")
PEERS = {
    "locks": (*REDIS_PY, "python-redis-lock", "pottery"),
    "turns": REDIS_PY,
    "policies": REDIS_PY,
    "conversations": (*REDIS_PY, "fastapi", "uvicorn"),
    "dates": ("dateparser",),
    "guard": (),
    "jobs": (
        *REDIS_PY,
        "fastapi",
        "uvicorn",
        "aio-pika",
        "celery",
        "dramatiq",
        "taskiq",
        "taskiq-aio-pika",
        "faststream",
    ),
    "tasks": (*REDIS_PY, "fastapi", "uvicorn", "aio-pika", "sqlalchemy", "aiosqlite", "asyncpg"),
    "bot": (*REDIS_PY, "aiogram", "aiohttp"),
}
"""By subject: the packages that it needs beside inturn."""


def versions(subject: str) -> dict[str, str]:
    """Returns the versions of the subject's peers. A missing one is an error that says how to get it."""
    found = {}
    for package in PEERS[subject]:
        try:
            found[package] = version(package)
        except PackageNotFoundError as error:
            raise SettingsError(f"this benchmark needs the package {package}; `make setup` installs it") from error
    return found


class Watch:
    """Made before the run. `facts` is called after it, when the processes of the run have ended and are counted."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._busy_s = _busy_s()
        self._own_s = _own_s()

    def facts(self, plan: Plan, versions: dict[str, str]) -> dict[str, Any]:
        seconds = time.monotonic() - self._began_at
        return {
            "versions": {
                "inturn": version("inturn"),
                "python": platform.python_version(),
                "sqlite": sqlite3.sqlite_version,
                **versions,
            },
            "machine": {
                "cpus": os.cpu_count(),
                "cpus_taken_by_others": self._others(seconds),
                "system": platform.platform(),
            },
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "rounds": plan.rounds,
            "seconds": round(seconds, 1),
        }

    def _others(self, seconds: float) -> float | None:
        """How many CPUs other programs used, on average; None if the system does not tell."""
        busy_s = _busy_s()
        if busy_s is None or self._busy_s is None:
            return None
        return round(max(0.0, busy_s - self._busy_s - (_own_s() - self._own_s)) / seconds, 2)


def _busy_s() -> float | None:
    """Seconds for which the CPUs of this machine were not idle, since it was started."""
    try:
        words = Path("/proc/stat").read_text().splitlines()[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _waiting, *interrupts = map(int, words[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Seconds of CPU of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def beats() -> int:
    """How often the heartbeat of this process was answered; its calls are not part of what a lock costs."""
    return int(REGISTRY.get_sample_value("inturn_renewals_total", {"outcome": "confirmed"}) or 0)


class Counted(NamedTuple):
    """`scripts`: EVALSHA and EVAL. `reads`: reads from sockets, which for a lone caller are its round trips."""

    scripts: int
    reads: int


class ServerCounts:
    """The server's own statistics. Asking for them costs one read, which `since` leaves out."""

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
        """Removes what a run has left on a server that is not private."""
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
