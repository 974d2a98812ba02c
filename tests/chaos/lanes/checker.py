"""Judges a run by what the lanes hold in the end, against what was acknowledged. No fault is an excuse here.

A message that was acknowledged is applied once, or is a dead letter, or was superseded or cancelled; one whose
acknowledgement never came is applied at most once. Turns that were interrupted leave no trace. Sends are judged by the
states too: what a lane's entries say that they sent is what must have arrived.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tests.chaos.checker import Violation
from tests.chaos.lanes.history import Found, Name, Told
from tests.chaos.lanes.load import SUPERSEDES
from tests.chaos.lanes.sides import Entry

KINDS = (
    "lost", "applied twice", "out of order", "lost update", "zombie commit", "wrong result", "send lost", "send twice",
    "send out of order", "ghost", "came back to life", "written off", "stuck", "bad exit", "logged error",
)  # fmt: skip


def check(told: Told, found: Found) -> list[Violation]:
    entries = {
        key: [(Name(key, entry["by"], entry["id"]), entry) for entry in state["list"]]
        for key, state in found.lanes.items()
    }
    applied = Counter(name for lane in entries.values() for name, _ in lane)
    violations = lost(told, found, applied) + twice(found, applied) + ghosts(told, applied)
    violations += written_off(told, found, applied)
    for key, lane in entries.items():
        violations += order(key, lane)
        violations += updates(key, found.lanes[key]["count"], [entry for _, entry in lane])
        violations += zombies(key, [entry for _, entry in lane])
        violations += audits(key, [entry for _, entry in lane], found.audits.get(key, []))
    violations += inline_turns(told, applied)
    violations += results(told, found, {name: entry for lane in entries.values() for name, entry in lane})
    violations += hops(found)
    violations += [Violation("stuck", what.partition(" ")[0], f"did not drain: {what}") for what in found.left]
    violations += [Violation("bad exit", what, what) for what in found.bad_exits]
    violations += [Violation("logged error", what, what) for what in found.errors]
    return violations


def lost(told: Told, found: Found, applied: Counter[Name]) -> list[Violation]:
    violations = [
        Violation("lost", _told(name), f"{_told(name)} was acknowledged, and has come to no end")
        for name in sorted(told.acked)
        if not applied[name] and name not in found.dead and name not in found.results and name not in found.written_off
    ]
    return violations + [
        Violation("lost", _told(name), f"{_told(name)} was acknowledged, and then the store did not know it")
        for name in sorted(told.expired & told.acked)
    ]


def twice(found: Found, applied: Counter[Name]) -> list[Violation]:
    often = [
        Violation("applied twice", _told(name), f"{_told(name)} was applied {times} times")
        for name, times in applied.items()
        if times > 1 and name.by != "hop"
    ]
    return often + [
        Violation("applied twice", _told(name), f"{_told(name)} was applied, and is a dead letter too")
        for name in sorted(found.dead)
        if applied[name]
    ]


def ghosts(told: Told, applied: Counter[Name]) -> list[Violation]:
    """What nobody has ever asked for. Sends that nobody sent are found with the sends."""
    return [
        Violation("ghost", _told(name), f"{_told(name)} is applied, and nobody asked for it")
        for name in applied
        if name.by != "hop" and name not in told.asked and name not in told.inline
    ]


def written_off(told: Told, found: Found, applied: Counter[Name]) -> list[Violation]:
    """What was superseded or cancelled, or was said to be, is not applied; and there was a reason for it."""
    said = dict.fromkeys(told.superseded, "superseded") | dict.fromkeys(told.cancelled, "cancelled")
    violations = [
        Violation("came back to life", _told(name), f"{_told(name)} was {why}, and is applied or a dead letter")
        for name, why in sorted({**said, **found.written_off}.items())
        if applied[name] or name in found.dead
    ]
    for name, why in sorted(found.written_off.items()):
        is_asked_for = name in told.cancel if why == "cancelled" else name.by in SUPERSEDES
        if not is_asked_for:
            violations.append(
                Violation("written off", _told(name), f"{_told(name)} was {why}, and nothing asked for it")
            )
        if name in said and said[name] != why:
            text = f"{_told(name)} was said to be {said[name]}, and is {why}"
            violations.append(Violation("written off", _told(name), text))
    return violations + [
        Violation("written off", _told(name), f"{_told(name)} was said to be {why}, and then was not")
        for name, why in sorted(said.items())
        if name not in found.written_off
    ]


def order(key: str, lane: Sequence[tuple[Name, Entry]]) -> list[Violation]:
    """One client brought new messages to a lane, and waited for each: so they are numbered as they were accepted.

    Those that queue are in one order, and those of every policy in one of its own; of each priority, too.
    """
    violations, seen = [], set()
    highest: Counter[tuple[str, int]] = Counter()
    for name, entry in lane:
        if not entry.get("number") or name.by == "hop" or name in seen:
            continue
        seen.add(name)
        sequence = "queue" if name.by in ("say", "act") else name.by, entry.get("priority", 0)
        if entry["number"] < highest[sequence]:
            text = f"{key}: number {entry['number']} was applied after number {highest[sequence]}"
            violations.append(Violation("out of order", _told(name), text))
        highest[sequence] = max(highest[sequence], entry["number"])
    return violations


def updates(key: str, count: int, entries: Sequence[Entry]) -> list[Violation]:
    """Every turn saw what the turn before it had left."""
    violations = []
    if count != len(entries):
        text = f"{key}: counted {count} turns, and {len(entries)} are there"
        violations.append(Violation("lost update", key, text))
    for at, entry in enumerate(entries, 1):
        if entry["n"] != at:
            text = f"{key}: turn {at} ({entry['by']} {entry['id']}) counted itself as {entry['n']}"
            violations.append(Violation("lost update", f"{key} {at}", text))
    return violations


def zombies(key: str, entries: Sequence[Entry]) -> list[Violation]:
    return [
        Violation(
            "zombie commit",
            f"{key} {after['n']}",
            f"{key}: {after['by']} {after['id']} (fence {after['fence']}) is committed after fence {before['fence']}",
        )
        for before, after in pairwise(entries)
        if after["fence"] < before["fence"] + ("lead" not in after)  # those of a burst have one fence
    ]


def inline_turns(told: Told, applied: Counter[Name]) -> list[Violation]:
    violations = []
    for name, outcome in told.inline.items():
        if outcome == "committed" and not applied[name]:
            text = f"{_told(name)} said that it was committed, and is not applied"
            violations.append(Violation("lost update", _told(name), text))
        if outcome == "refused" and applied[name]:
            text = f"{_told(name)} said that nothing was done, and is applied"
            violations.append(Violation("zombie commit", _told(name), text))
    return violations


def results(told: Told, found: Found, applied: dict[Name, Entry]) -> list[Violation]:
    """A result, whenever it was told, is the entry in the state; and what is applied has a result.

    Of a burst, all have the result of the message that led it, which was applied by the same turn.
    """
    violations = []
    for name, own in applied.items():
        if name.by == "hop":
            continue
        entry = applied.get(name._replace(id=own["lead"]), {}) if "lead" in own else own
        if entry.get("fence") != own["fence"]:
            text = f"{_told(name)} was in a burst of {own['lead']}, which another turn has applied"
            violations.append(Violation("wrong result", _told(name), text))
        if name not in found.results:
            violations.append(Violation("wrong result", _told(name), f"{_told(name)} is applied, and has no result"))
        elif found.results[name] != entry:
            text = f"{_told(name)} has the result {found.results[name]}, and {entry} is in the state"
            violations.append(Violation("wrong result", _told(name), text))
        for result in told.results.get(name, ()):
            if result != entry:
                text = f"{_told(name)}: the client was told {result}, and {entry} is in the state"
                violations.append(Violation("wrong result", _told(name), text))
    for name in sorted({*found.results, *told.results} - set(applied)):
        text = f"{_told(name)} has a result, and is not in the state"
        violations.append(Violation("lost update", _told(name), text))
    return violations


def audits(key: str, entries: Sequence[Entry], received: Sequence[Entry]) -> list[Violation]:
    """Every turn of a lane sends to `<key>>audit`: that lane must have received the very list of its turns."""
    sent = [{name: entry[name] for name in ("id", "by", "n", "fence")} for entry in entries]
    return _arrived(f"{key}>audit", map(_audit, sent), map(_audit, received))


def hops(found: Found) -> list[Violation]:
    """What arrived in a lane from another one, in its order, is what that one's entries say that they sent there."""
    sent: dict[tuple[str, str], list[str]] = defaultdict(list)
    arrived: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, state in found.lanes.items():
        for entry in state["list"]:
            if entry.get("to"):
                sent[key, entry["to"]].append(f"{entry['id']} #{entry['n']}")
            if entry["by"] == "hop":
                arrived[entry["from"], key].append(f"{entry['id']} #{entry['number']}")
    return [
        violation
        for pair in sorted({*sent, *arrived})
        for violation in _arrived(f"{pair[0]} to {pair[1]}", sent[pair], arrived[pair])
    ]


def _arrived(where: str, sent: Iterable[str], arrived: Iterable[str]) -> list[Violation]:
    expected, actual = list(sent), list(arrived)
    if expected == actual:
        return []
    wanted, times = set(expected), Counter(actual)
    violations = [
        Violation("send lost", f"{where} {what}", f"{where}: {what} was sent, and did not arrive")
        for what in dict.fromkeys(expected)
        if not times[what]
    ]
    for what, number in times.items():
        if what not in wanted:
            violations.append(Violation("ghost", f"{where} {what}", f"{where}: {what} arrived, and no turn sent it"))
        elif number > 1:
            text = f"{where}: {what} arrived {number} times"
            violations.append(Violation("send twice", f"{where} {what}", text))
    there = [what for what in dict.fromkeys(actual) if what in wanted]
    due = [what for what in dict.fromkeys(expected) if times[what]]
    for is_there, is_due in zip(there, due, strict=True):
        if is_there != is_due:
            text = f"{where}: {is_there} arrived where {is_due} was due"
            violations.append(Violation("send out of order", f"{where} {is_there}", text))
    return violations


def _audit(entry: Entry) -> str:
    return f"{entry['by']} {entry['id']} #{entry['n']} fence {entry['fence']}"


def _told(name: Name) -> str:
    return f"{name.key} {name.by} {name.id}"
