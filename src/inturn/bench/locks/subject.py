"""All figures of the locks, and which of them are drawn."""

from __future__ import annotations

from benchmarks.figures import Figure
from inturn.bench.locks.across import across_processes
from inturn.bench.locks.embedded import embedded
from benchmarks.locks.handover import handovers
from inturn.bench.locks.renewals import renewals
from benchmarks.locks.uncontended import latency, round_trips, throughput
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.server import ServerCounts
from inturn.bench.subject import Drawn, Subject

DRAWN = (
    Drawn("round_trips_uncontended", "Round trips of an acquire + release", "fewer is better"),
    Drawn("throughput_vs_redis_py", "Acquire + release per second, 64 tasks on 64 names", "more is better"),
    Drawn("latency_vs_redis_py", "Acquire + release by one task, µs", "less is better"),
    Drawn("handoff_vs_redis_py", "Hand-over with 50 waiters, ms from body to body", "less is better"),
    Drawn("sqlite_vs_bare_loop", "SQLite: acquire + release per second, 64 callers", "more is better"),
)


async def measure(place: Place, counts: ServerCounts, plan: Plan) -> list[Figure]:
    return [
        await round_trips(place, counts, plan),
        await throughput(place, plan),
        await latency(place, plan),
        *await handovers(place, plan),
        await across_processes(place, plan),
        await renewals(place, counts, plan),
        *await embedded(plan),
    ]


LOCKS = Subject("locks", DRAWN, measure)
