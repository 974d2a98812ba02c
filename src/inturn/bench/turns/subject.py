"""All figures of the turns, and which of them are drawn."""

from __future__ import annotations

from benchmarks.figures import Figure
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.server import ServerCounts
from inturn.bench.subject import Drawn, Subject
from inturn.bench.turns.embedded import embedded
from inturn.bench.turns.growth import growth_lanes
from benchmarks.turns.many_lanes import memory
from inturn.bench.turns.start import submit_to_start
from benchmarks.turns.uncontended import latency, round_trips, throughput
from benchmarks.turns.workers import burst_handover, growth_mailbox

DRAWN = (
    Drawn("round_trips_per_turn", "Round trips of a turn", "fewer is better"),
    Drawn("throughput_vs_recipe", "Turns per second, 64 callers on 64 lanes", "more is better"),
    Drawn("throughput_with_send_vs_recipe", "The same, with a message to another lane in it", "more is better"),
    Drawn("latency_vs_recipe", "A turn of one caller, µs", "less is better"),
    Drawn("growth_lanes", "A turn among so many idle lanes, µs", "equal is better"),
    Drawn("growth_mailbox", "A worker's turn with so many messages behind it, µs", "equal is better"),
    Drawn("sqlite_vs_bare_loop", "SQLite: turns per second, 64 callers", "more is better"),
)


async def measure(place: Place, counts: ServerCounts, plan: Plan) -> list[Figure]:
    return [
        await round_trips(place, counts, plan),
        *await throughput(place, plan),
        await latency(place, plan),
        await burst_handover(place, plan),
        await submit_to_start(place, plan),
        await growth_lanes(plan),
        await growth_mailbox(place, plan),
        *await memory(plan),
        await embedded(plan),
    ]


TURNS = Subject("turns", DRAWN, measure)
