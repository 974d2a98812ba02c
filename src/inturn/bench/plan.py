"""How much is measured. What a figure means (64 tasks, 50 waiters, 10,000 leases) does not change with the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inturn.errors import SettingsError

TASKS = 64
WAITERS = 50
BODY_S = 0.001
PROCESSES = 5
LEASES = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """`scale` makes slices and counts smaller, down to a run that only shows that everything works."""

    rounds: int
    scale: float
    tell: Callable[[str], None]

    @classmethod
    def of(cls, *, quick: bool, rounds: int | None, scale: float | None, tell: Callable[[str], None]) -> Plan:
        plan = cls(rounds or (3 if quick else 5), scale or (0.4 if quick else 1.0), tell)
        if plan.rounds < 1 or not 0 < plan.scale <= 1:
            raise SettingsError(f"rounds={plan.rounds} scale={plan.scale}: at least 1 round, and a scale of 0 to 1")
        return plan

    def seconds(self, whole: float) -> float:
        return max(0.02, whole * self.scale)

    def count(self, whole: int) -> int:
        return max(1, round(whole * self.scale))
