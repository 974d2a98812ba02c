"""The figures: what each has to reach, and what was measured for it; and the times between bodies."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, Literal, NamedTuple

Rounds = dict[str, list[float]]
"""By side, one value for each round."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach. `value` None: it is only reported."""

    sense: Literal["<=", ">=", "=="]
    value: float | None

    def is_reached_by(self, measured: float) -> bool | None:
        if self.value is None:
            return None
        if self.sense == "==":
            return measured == self.value
        return measured >= self.value if self.sense == ">=" else measured <= self.value

    def __str__(self) -> str:
        return "reported" if self.value is None else f"{self.sense} {self.value:g}"


LOCKS = {
    "round_trips_uncontended": Bar("==", 2),
    "throughput_vs_redis_py": Bar(">=", 4),
    "latency_vs_redis_py": Bar("<=", 1.0),
    "handoff_vs_redis_py": Bar(">=", 25),
    "handoff_vs_python_redis_lock": Bar(">=", 2),
    "handoff_across_processes_ms": Bar("<=", 1),
    "renew_round_trips_10k": Bar("<=", 2),
    "sqlite_vs_bare_loop": Bar(">=", 1),
    "sqlite_vs_bare_loop_one_caller": Bar(">=", None),
}
TURNS = {
    "round_trips_per_turn": Bar("==", 2),
    "throughput_vs_recipe": Bar(">=", 5),
    "throughput_vs_plain_pool": Bar(">=", 2),
    "throughput_with_send_vs_recipe": Bar(">=", 4),
    "latency_vs_recipe": Bar("<=", 0.5),
    "burst_handover_ms": Bar("<=", 1),
    "submit_to_start_ms": Bar("<=", 5),
    "growth_lanes": Bar("<=", 1.25),
    "growth_mailbox": Bar("<=", 1.25),
    "bytes_per_idle_lane": Bar("<=", 550),
    "bytes_per_mark": Bar("<=", 200),
    "sqlite_vs_bare_loop": Bar(">=", 1),
}
POLICIES = {
    "interrupt_ms": Bar("<=", 20),
    "interrupt_p99_ms": Bar("<=", 100),
    "merge_overhead_vs_queue": Bar("<=", 2),
    "stream_chunks_per_s": Bar(">=", None),
    "turn_slowdown_with_watchers": Bar("<=", 1.1),
    "cluster_vs_single": Bar(">=", None),
}
CONVERSATIONS = {
    "overhead_ms": Bar("<=", 3),
    "http_turns_per_s": Bar(">=", None),
    "http_vs_unguarded": Bar(">=", None),
}
JOBS = {
    "jobs_per_s": Bar(">=", None),
    "job_p50_ms": Bar("<=", None),
    "job_p99_ms": Bar("<=", None),
    "jobs_per_s_embedded": Bar(">=", None),
    "job_p50_ms_embedded": Bar("<=", None),
    "job_p99_ms_embedded": Bar("<=", None),
    "queue_vs_celery": Bar(">=", 1),
    "queue_vs_dramatiq": Bar(">=", 1),
    "queue_vs_taskiq": Bar(">=", 1),
    "queue_vs_faststream": Bar(">=", 1),
}
TASKS = {
    "tasks_per_s": Bar(">=", None),
    "tasks_p50_ms": Bar("<=", None),
    "tasks_p99_ms": Bar("<=", None),
    "tasks_per_s_embedded": Bar(">=", None),
    "tasks_p50_ms_embedded": Bar("<=", None),
    "tasks_p99_ms_embedded": Bar("<=", None),
    "reserve_per_s": Bar(">=", None),
    "reserve_per_s_64": Bar(">=", None),
    "reserve_per_s_embedded": Bar(">=", None),
    "reserve_per_s_64_embedded": Bar(">=", None),
    "reserve_vs_bare": Bar(">=", 0.5),
    "reserve_vs_bare_1": Bar(">=", None),
    "reserve_vs_bare_64": Bar(">=", None),
    "reserve_vs_bare_1_embedded": Bar(">=", None),
    "reserve_vs_bare_64_embedded": Bar(">=", None),
}
BOT = {
    "guard_overhead_ms": Bar("<=", 2),
    "guard_overhead_ms_sync": Bar("<=", None),
    "guard_overhead_ms_embedded": Bar("<=", None),
    "users_at_once": Bar(">=", 1000),
    "answer_p50_ms": Bar("<=", None),
    "answer_p99_ms": Bar("<=", None),
    "peak_mb": Bar("<=", None),
    "users_at_once_embedded": Bar(">=", None),
    "answer_p50_ms_embedded": Bar("<=", None),
    "answer_p99_ms_embedded": Bar("<=", None),
    "peak_mb_embedded": Bar("<=", None),
    "faults": Bar("==", 0),
    "faults_unguarded": Bar(">=", None),
}
BARS = {**LOCKS, **TURNS, **POLICIES, **CONVERSATIONS, **JOBS, **TASKS, **BOT}
"""A name that two subjects have means the same, and has the same bar."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` is the number, or an object of numbers whose `median` is held against the bar.

    `reported` are further numbers, which have no bar; `more` is what helps to judge them all.
    """

    name: str
    value: float | dict[str, float]
    unit: str
    rounds: Rounds
    more: dict[str, Any] = field(default_factory=dict)
    reported: dict[str, float] = field(default_factory=dict)

    @property
    def bar(self) -> Bar:
        return BARS[self.name]

    @property
    def is_reached(self) -> bool | None:
        return self.bar.is_reached_by(self.value["median"] if isinstance(self.value, dict) else self.value)

    def details(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "bar": str(self.bar),
            "reached": self.is_reached,
            "unit": self.unit,
            "medians_by_round": {side: [rounded(value) for value in values] for side, values in self.rounds.items()},
            **self.reported,
            **self.more,
        }


class Drawn(NamedTuple):
    """A figure whose sides are drawn as bars."""

    figure: str
    title: str
    sense: str


def ratio(name: str, unit: str, rounds: Rounds, above: str, below: str, **more: Any) -> Figure:
    """The median over the rounds of `above` ÷ `below`: sides of one round saw the same machine."""
    return Figure(name, rounded(median_ratio(rounds[above], rounds[below])), unit, rounds, more)


def median_ratio(above: list[float], below: list[float]) -> float:
    return median(one / other for one, other in zip(above, below, strict=True))


def rounded(value: float) -> float:
    """Four digits that mean something; a number that is whole stays whole."""
    return float(f"{value:.4g}") if abs(value) < 1000 else float(round(value))


class Ran(NamedTuple):
    """One body that ran. `process` tells hand-overs within a process from those between two."""

    began_at: float
    ended_at: float
    process: int = 0


def gaps(bodies: list[Ran], *, between_processes: bool = False) -> list[float]:
    """Returns the seconds from each body's end to the next one's start. How long a body took does not matter."""
    return [
        new.began_at - old.ended_at
        for old, new in pairwise(sorted(bodies))
        if not between_processes or old.process != new.process
    ]
