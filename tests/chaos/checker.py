"""Judges a history in O(n log n): the fences give the order of the grants, so nothing has to be searched for.

A hold is certain until its body was over. Only a holder that could not act (stopped, its loop stalled, its store wiped)
and whose release was not confirmed may have outlived its lease: it is certain only until that began, provided that its
body was over at most `grace_s` after it ended. All else that is found here is a broken promise.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.chaos.history import Fault, History, Hold

KINDS = ("overlap", "late release", "fence", "order", "needless loss", "outlived", "stuck")


@dataclass(frozen=True, slots=True)
class Violation:
    kind: str
    what: str
    """The hold, or the name, that is wrong."""
    text: str


@dataclass(frozen=True, slots=True)
class Rules:
    ttl_s: float
    grace_s: float = 1.0
    may_lose: bool = True
    """False: nothing in this run is a reason to lose a lease."""


def check(history: History, rules: Rules) -> list[Violation]:
    holds = history.holds
    excuses = Excuses(history.faults, rules)
    by_name: dict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        by_name[hold.name].append(hold)
    found: list[Violation] = []
    for group in by_name.values():
        found += exclusion(group, excuses)
        found += order(group)
        if group[0].capacity == 1:
            found += bodies_follow_fences(group, excuses)
    found += fences(holds)
    found += after_wipes(holds, history.faults_of("wipe"), history.faults_of("stall"), rules)
    if not rules.may_lose:
        found += needless_losses(holds, excuses)
    return found


def count(violations: Iterable[Violation]) -> Counter[str]:
    """How many holds (or names) are wrong, by kind."""
    return Counter(kind for kind, _ in {(violation.kind, violation.what) for violation in violations})


class Excuses:
    """When each process could not act, each time with the moment by which its body must have stopped after it."""

    def __init__(self, faults: Sequence[Fault], rules: Rules) -> None:
        grace_s = {"stop": rules.grace_s, "stall": rules.grace_s / 3, "wipe": rules.ttl_s + rules.grace_s}
        self._by_pid: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for fault in sorted(faults, key=lambda fault: fault.began):
            if fault.kind not in grace_s:
                continue
            intervals, stopped_by = self._by_pid[fault.pid], fault.ended + grace_s[fault.kind]
            if intervals and fault.began <= intervals[-1][1]:
                intervals[-1] = (intervals[-1][0], max(intervals[-1][1], stopped_by))
            else:
                intervals.append((fault.began, stopped_by))

    def certain_until(self, hold: Hold) -> float:
        """Until when nobody else may have begun: the end of the body, or the fault that explains what came after."""
        return min(hold.over, self._reason(hold, hold.pid), self._reason(hold, 0))

    def _reason(self, hold: Hold, pid: int) -> float:
        intervals = self._by_pid.get(pid, [])
        at = bisect_right(intervals, (hold.over, math.inf)) - 1
        if at < 0 or hold.over > intervals[at][1]:
            return math.inf
        return max(intervals[at][0], hold.began)


def exclusion(group: list[Hold], excuses: Excuses) -> list[Violation]:
    """At most `capacity` holds of a name at a time. A sweep over the beginnings, with the open holds in a heap."""
    found = []
    open_holds: list[tuple[float, str, Hold]] = []
    for hold in sorted(group, key=lambda hold: hold.began):
        while open_holds and open_holds[0][0] <= hold.began:
            heapq.heappop(open_holds)
        if len(open_holds) >= hold.capacity:
            other = open_holds[0][2]
            late = other.outcome == "released" and excuses.certain_until(other) <= hold.began
            kind = "late release" if late else "overlap"
            text = f"{_told(hold)} began {(other.over - hold.began) * 1000:.1f} ms before {_told(other)} was over"
            found.append(Violation(kind, hold.id, text))
        # a confirmed release says that the store itself counted it as held until then
        until = hold.over if hold.outcome == "released" else excuses.certain_until(hold)
        heapq.heappush(open_holds, (until, hold.id, hold))
    return found


def bodies_follow_fences(group: list[Hold], excuses: Excuses) -> list[Violation]:
    """No body begins after the body of a later grant has begun."""
    found = []
    first_later: Hold | None = None
    for hold in sorted(group, key=lambda hold: hold.fence, reverse=True):
        if first_later is None or hold.began <= first_later.began:
            first_later = hold
        elif hold.outcome == "released" or excuses.certain_until(hold) > hold.began:
            text = f"{_told(hold)} began after {_told(first_later)}, which was granted later"
            found.append(Violation("fence", hold.id, text))
    return found


def fences(holds: list[Hold]) -> list[Violation]:
    """Every fence is unique, and a request made after a grant was seen gets a later arrival and a later fence."""
    found = []
    seen: dict[int, Hold] = {}
    for hold in holds:
        other = seen.setdefault(hold.fence, hold)
        if other is not hold:
            found.append(Violation("fence", hold.id, f"{_told(hold)} and {_told(other)} have the same fence"))
    begun = iter(sorted(holds, key=lambda hold: hold.began))
    upcoming = next(begun, None)
    highest: Hold | None = None
    for hold in sorted(holds, key=lambda hold: hold.requested):
        while upcoming is not None and upcoming.began < hold.requested:
            if highest is None or upcoming.fence > highest.fence:
                highest = upcoming
            upcoming = next(begun, None)
        if highest is not None and min(hold.fence, hold.arrival or hold.fence) <= highest.fence:
            text = f"{_told(hold)} was asked for after {_told(highest)} was granted, and has no later number"
            found.append(Violation("fence", hold.id, text))
    return found


def order(group: list[Hold]) -> list[Violation]:
    """Arrivals and fences come from one counter, so the queue can be replayed: each grant is for its head.

    A place that the store dropped comes back with a new arrival, so an arrival stands for one uninterrupted wait.
    """
    moments: list[tuple[int, bool, Hold]] = []
    for hold in group:
        if hold.arrival:
            moments += ((hold.arrival, False, hold), (hold.fence, True, hold))
    moments.sort(key=lambda moment: moment[:2])
    found = []
    queue: list[tuple[int, int, str, Hold]] = []
    gone: set[str] = set()
    for _, is_grant, hold in moments:
        if not is_grant:
            heapq.heappush(queue, (-hold.priority, hold.arrival, hold.id, hold))
            continue
        gone.add(hold.id)
        while queue and queue[0][2] in gone:
            heapq.heappop(queue)
        if queue and queue[0][:2] < (-hold.priority, hold.arrival):
            text = f"{_told(hold)} was granted while {_told(queue[0][3])} waited ahead of it"
            found.append(Violation("order", hold.id, text))
    return found


def after_wipes(holds: list[Hold], wipes: list[Fault], stalls: list[Fault], rules: Rules) -> list[Violation]:
    """A lease from before the store lost its memory cannot be released after it, and its body is told so.

    A process that does not run then is told when it does.
    """
    found = []
    stalls = sorted(stalls, key=lambda stall: stall.began)
    for wipe in wipes:
        for hold in holds:
            # one that was seen while the server came back may be of the new memory already
            if hold.began >= wipe.began or hold.over <= wipe.began:
                continue
            if hold.outcome == "released":
                found.append(Violation("late release", hold.id, f"{_told(hold)} was released after the wipe"))
            late_s, stopped_by = hold.over - wipe.began, wipe.began + rules.ttl_s + rules.grace_s
            for stall in stalls:
                if stall.pid == hold.pid and wipe.began <= stall.ended and stall.began <= stopped_by:
                    stopped_by = max(stopped_by, stall.ended + rules.grace_s / 3)
            if hold.over > stopped_by:
                found.append(Violation("outlived", hold.id, f"{_told(hold)} ran on for {late_s:.1f} s after the wipe"))
    return found


def needless_losses(holds: list[Hold], excuses: Excuses) -> list[Violation]:
    return [
        Violation("needless loss", hold.id, f"{_told(hold)} lost its lease after {hold.over - hold.began:.2f} s")
        for hold in holds
        if hold.outcome == "refused" and excuses.certain_until(hold) == hold.over
    ]


def _told(hold: Hold) -> str:
    return f"{hold.name}[fence {hold.fence}, arrival {hold.arrival}, pid {hold.pid}, {hold.outcome}]"
