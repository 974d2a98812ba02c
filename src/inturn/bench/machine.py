"""Where and when it was measured, and how much of the machine others took meanwhile: that makes figures noisy."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.plan import Plan


class Watch:
    """Made before the run; `facts` are asked for after it, when its processes have ended and are counted."""

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
        """Of all CPUs, on average. None where the system does not tell."""
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
    """Of this process, and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
