"""What happened, as the processes themselves saw it: one file per process, one JSON line per event.

A line is one unbuffered `write`, so that `kill -9` loses at most the line it cut. Times are the machine's own clock
(suspend-proof), the same in every process. A hold is written down as begun *after* it was granted and as over *before*
its release is sent: what is recorded lies inside of what was, so an overlap of records is an overlap of bodies.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from inturn.store import clock

Outcome = Literal["released", "refused", "unknown", "killed"]
"""How a hold ended. `unknown`: its release was cancelled, or never answered. `killed`: its process was, during it."""

Event = dict[str, Any]
now = clock.now


class Recorder:
    """Appends the events of this process to its own file."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._pid = os.getpid()

    def write(self, event: str, **facts: Any) -> None:
        os.write(self._file, json.dumps({"event": event, "pid": self._pid, "at": now(), **facts}).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


@dataclass(slots=True)
class Hold:
    """One grant, from the request to how it ended. `arrival` 0: the lock gives no such number."""

    id: str
    pid: int
    name: str
    capacity: int
    priority: int
    arrival: int
    fence: int
    requested: float
    began: float
    over: float = math.inf
    answered: float = math.inf
    outcome: Outcome = "killed"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that kept a process (or all: pid 0) from doing what it should, for a time."""

    kind: str
    pid: int
    began: float
    ended: float


@dataclass(slots=True)
class History:
    holds: list[Hold] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """How often anything else happened: timeouts, cancellations, errors."""

    def faults_of(self, *kinds: str) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind in kinds]


def read(folder: Path) -> History:
    """Every history file of a folder, as one. An unfinished last line is the mark of a kill, and is left out."""
    events: list[Event] = []
    for file in sorted(folder.glob("*.jsonl")):
        lines = file.read_bytes().split(b"\n")
        events += (json.loads(line) for line in lines[:-1])
    return gather(events)


def gather(events: Iterable[Event]) -> History:
    history = History()
    holds: dict[str, Hold] = {}
    killed: dict[int, float] = {}
    for event in sorted(events, key=lambda event: float(event["at"])):
        kind, pid, at = event["event"], int(event["pid"]), float(event["at"])
        if kind == "granted":
            facts = {key: event[key] for key in ("name", "capacity", "priority", "arrival", "fence", "requested")}
            holds[event["id"]] = Hold(event["id"], pid, began=at, **facts)
        elif kind == "over":
            holds[event["id"]].over = at
            holds[event["id"]].outcome = "unknown"
        elif kind in ("released", "refused", "unknown"):
            holds[event["id"]].outcome = kind
            holds[event["id"]].answered = at
        elif kind == "fault":
            history.faults.append(Fault(event["kind"], event["target"], event["began"], event["ended"]))
            history.counts[event["kind"]] += 1
            if event["kind"] == "kill":
                killed.setdefault(event["target"], event["began"])
        else:
            history.counts[kind] += 1
    for hold in holds.values():
        # a body that was not over when its process was killed ended with it
        if hold.pid in killed and hold.began < killed[hold.pid]:
            hold.over = min(hold.over, killed[hold.pid])
    history.holds = sorted(holds.values(), key=lambda hold: hold.began)
    return history
