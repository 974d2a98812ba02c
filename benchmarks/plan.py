"""Where to measure, and how much. What a figure means (64 tasks, 50 waiters, 10,000 leases) does not change with the
plan, unless the plan is so small that it only shows that everything works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inturn.errors import SettingsError
from tests.servers import PrivatePostgres
from tests.servers.broker import Broker

TASKS = 64
WAITERS = 50
BODY_S = 0.001
PROCESSES = 5
LEASES = 10_000
FEW_LANES, MANY_LANES, ALL_LANES = 1_000, 200_000, 1_000_000
FEW_WAITING, MANY_WAITING = 10, 10_000


@dataclass(frozen=True, slots=True)
class Target:
    """A store to measure on, and a RabbitMQ and a private PostgreSQL for what needs them. All names begin with
    `prefix`, so that nobody else's keys and virtual hosts are touched."""

    url: str
    prefix: str
    broker: Broker | None = None
    postgres: PrivatePostgres | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """`scale` makes slices and counts smaller, `is_full` makes sizes larger where there is more to see."""

    rounds: int
    scale: float
    tell: Callable[[str], None]
    is_full: bool = False

    @classmethod
    def of(
        cls,
        *,
        quick: bool,
        rounds: int | None,
        scale: float | None,
        tell: Callable[[str], None],
        full: bool = False,
    ) -> Plan:
        plan = cls(rounds or (3 if quick else 5), scale or (0.4 if quick else 1.0), tell, full)
        if plan.rounds < 1 or not 0 < plan.scale <= 1:
            raise SettingsError(f"rounds={plan.rounds} scale={plan.scale}: at least 1 round, and a scale of 0 to 1")
        return plan

    def seconds(self, whole: float) -> float:
        return max(0.02, whole * self.scale)

    def count(self, whole: int) -> int:
        return max(1, round(whole * self.scale))

    def size(self, whole: int) -> int:
        """How many there are of the thing that a figure is about."""
        return whole if self.scale > 0.1 else self.count(whole)
