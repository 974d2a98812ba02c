"""All figures of the conversations, and which of them are drawn."""

from __future__ import annotations

from benchmarks.conversations.over_http import over_http
from benchmarks.conversations.overhead import overhead
from benchmarks.figures import Figure
from inturn.bench.place import Place
from benchmarks.plan import Plan
from inturn.bench.server import ServerCounts
from inturn.bench.subject import Drawn, Subject

DRAWN = (
    Drawn("overhead_ms", "A turn around an agent that answers at once, ms", "less is better"),
    Drawn("http_turns_per_s", "Turns per second over HTTP, 16 callers, one server process", "more is better"),
)


async def measure(place: Place, counts: ServerCounts, plan: Plan) -> list[Figure]:
    return [await overhead(place, plan), *await over_http(place, plan)]


CONVERSATIONS = Subject("conversations", DRAWN, measure)
