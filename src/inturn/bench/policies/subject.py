"""All figures of the policies, and which of them are drawn."""

from __future__ import annotations

from benchmarks.figures import Figure
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.policies.cluster import cluster_vs_single
from benchmarks.policies.interrupt import interrupts
from benchmarks.policies.merge import merge_overhead
from benchmarks.policies.watchers import watched
from inturn.bench.server import ServerCounts
from inturn.bench.subject import Drawn, Subject

DRAWN = (
    Drawn("interrupt_ms", "From a message to the cancellation in another process, ms", "less is better"),
    Drawn("merge_overhead_vs_queue", "A worker's turn, µs", "equal is better"),
    Drawn("turn_slowdown_with_watchers", "A turn that streams five chunks, µs", "equal is better"),
    Drawn("cluster_vs_single", "Turns per second, 64 callers on 64 lanes, one machine", "more is better"),
)


async def measure(place: Place, counts: ServerCounts, plan: Plan) -> list[Figure]:
    return [
        *await interrupts(place, plan),
        await merge_overhead(place, plan),
        *await watched(place, plan),
        await cluster_vs_single(place, plan),
    ]


POLICIES = Subject("policies", DRAWN, measure)
