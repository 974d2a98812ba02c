"""What was said to the clients, and what the store holds in the end: all that the checker judges by."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.history import Event
from tests.chaos.lanes.sides import Entry, WrittenOff


class Name(NamedTuple):
    """A message: by which handler, or `inline`."""

    key: str
    by: str
    id: str


@dataclass(slots=True)
class Told:
    """What the processes of a run were told, by their own account."""

    asked: set[Name] = field(default_factory=set)
    acked: set[Name] = field(default_factory=set)
    expired: set[Name] = field(default_factory=set)
    """Acknowledged, and later the store said that it does not know them."""
    cancel: set[Name] = field(default_factory=set)
    """Those that someone has tried to cancel."""
    cancelled: set[Name] = field(default_factory=set)
    superseded: set[Name] = field(default_factory=set)
    results: dict[Name, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    inline: dict[Name, str] = field(default_factory=dict)
    """Outcome."""
    longest_s: float = 0.0
    """The longest wait for a result that came."""
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Found:
    """What the store holds, once everything has drained."""

    lanes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The states of the lanes, by key."""
    audits: dict[str, list[Entry]] = field(default_factory=dict)
    """What the lane `<key>>audit` received, by key."""
    results: dict[Name, Entry] = field(default_factory=dict)
    dead: set[Name] = field(default_factory=set)
    written_off: dict[Name, WrittenOff] = field(default_factory=dict)
    """Superseded or cancelled, and why."""
    left: list[str] = field(default_factory=list)
    """What did not drain in time."""
    bad_exits: list[str] = field(default_factory=list)
    """Workers that did not end well."""
    errors: list[str] = field(default_factory=list)
    """What was logged and is not explained by the faults."""


def read(folder: Path) -> Told:
    """An unfinished last line is the mark of a kill, and is left out."""
    events: list[Event] = []
    for file in sorted(folder.glob("*.jsonl")):
        events += (json.loads(line) for line in file.read_bytes().split(b"\n")[:-1])
    return gather(events)


def gather(events: Iterable[Event]) -> Told:
    told = Told()
    for event in sorted(events, key=lambda event: float(event["at"])):
        kind = event["event"]
        if kind == "fault":
            told.faults[event["kind"]] += 1
            continue
        told.counts[kind] += 1
        if kind == "inline":
            told.inline[Name(event["key"], "inline", event["id"])] = event["outcome"]
        elif kind in ("asked", "acked", "expired", "result", "cancel", "cancelled", "superseded"):
            name = Name(event["key"], event["by"], event["id"])
            if kind == "result":
                told.results[name].append(event["entry"])
                told.longest_s = max(told.longest_s, event.get("waited_s", 0.0))
            else:
                getattr(told, kind).add(name)
    return told
