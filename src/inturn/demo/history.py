"""What happened in a run, and what follows from it. All is computed from the times that the processes recorded.

The clock is CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median


@dataclass(frozen=True, slots=True)
class Body:
    """One increment: asked for, then run from `began_at` to `ended_at`."""

    worker: int
    asked_at: float
    began_at: float
    ended_at: float


@dataclass(slots=True)
class History:
    """One run. It grows while the run goes on."""

    start_at: float
    asked: int
    bodies: list[Body] = field(default_factory=list)
    counter: int = 0

    @property
    def lost(self) -> int:
        return len(self.bodies) - self.counter

    @property
    def seconds(self) -> float:
        return max((body.ended_at for body in self.bodies), default=self.start_at) - self.start_at

    def overlaps(self) -> tuple[int, int]:
        """How many pairs of bodies ran at the same time, and how many ran at once at most."""
        pairs = at_once = most = 0
        for _, change in self.edges():
            pairs += at_once if change > 0 else 0
            at_once += change
            most = max(most, at_once)
        return pairs, most

    def edges(self) -> list[tuple[float, int]]:
        """+1 where a body begins, -1 where one ends; of two at the same moment the end comes first."""
        began = [(body.began_at, 1) for body in self.bodies]
        return sorted(began + [(body.ended_at, -1) for body in self.bodies])

    def together(self) -> list[tuple[float, float]]:
        """The spans of time in which two or more bodies ran at once."""
        spans, at_once, since = [], 0, 0.0
        for at, change in self.edges():
            at_once += change
            if at_once == 2 and change > 0:
                since = at
            elif at_once == 1 and change < 0:
                spans.append((since, at))
        return spans

    def hand_overs(self) -> list[float]:
        """Seconds from the end of a body to the next one's beginning, where another process came next."""
        in_order = sorted(self.bodies, key=lambda body: body.began_at)
        pairs = pairwise(in_order)
        return [new.began_at - old.ended_at for old, new in pairs if new.worker != old.worker]

    def hand_over_ms(self) -> float:
        return median(self.hand_overs() or [0.0]) * 1000
