"""One run of the benchmark: a private Redis, every figure, and the report."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any

from rich.console import Console

from inturn.bench import sides
from inturn.bench.figures import Figure
from inturn.bench.machine import Watch
from inturn.bench.plan import Plan
from inturn.errors import SettingsError


def run_bench(arguments: argparse.Namespace) -> int:
    found = sides.versions()  # before anything is imported that may be missing
    from inturn.bench.picture import draw
    from inturn.bench.report import charts, show

    picture = _picture_file(arguments.picture)
    plan = Plan.of(quick=arguments.quick, rounds=arguments.rounds, scale=arguments.scale, tell=_tell)
    watch = Watch()
    figures, server_version = _measure(arguments.redis, plan)
    facts = watch.facts(plan, {**found, "redis-server": server_version})
    if picture is not None:
        picture.write_text(draw(charts(figures), facts), encoding="utf-8")
    if arguments.json:
        print(json.dumps(document(figures, facts), indent=2, ensure_ascii=False))
    else:
        show(Console(highlight=False), figures, facts)
    return 0


def document(figures: list[Figure], facts: dict[str, Any]) -> dict[str, Any]:
    """The JSON: each figure under its name, then all that belongs to it."""
    values = {figure.name: figure.value for figure in figures}
    return {**values, "details": {figure.name: figure.details() for figure in figures}, **facts}


def _measure(url: str | None, plan: Plan) -> tuple[list[Figure], str]:
    from inturn.bench.server import ServerCounts
    from inturn.services import PrivateRedis

    with ExitStack() as stack:
        if url is None:
            plan.tell("starting a private Redis")
            url = stack.enter_context(PrivateRedis()).url
        counts = stack.enter_context(ServerCounts(url))
        place = sides.Place(url, f"inturn-bench-{token_hex(4)}")
        server_version = counts.version
        stack.callback(counts.remove, place.prefix)
        return asyncio.run(_all_figures(place, counts, plan)), server_version


async def _all_figures(place: sides.Place, counts: Any, plan: Plan) -> list[Figure]:
    from inturn.bench.across import across_processes
    from inturn.bench.embedded import embedded
    from inturn.bench.handover import handovers
    from inturn.bench.renewals import renewals
    from inturn.bench.uncontended import latency, round_trips, throughput

    return [
        await round_trips(place, counts, plan),
        await throughput(place, plan),
        await latency(place, plan),
        *await handovers(place, plan),
        await across_processes(place, plan),
        await renewals(place, counts, plan),
        *await embedded(plan),
    ]


def _picture_file(name: str | None) -> Path | None:
    """Checked before the run, so that minutes of measuring are not lost to a typing error."""
    if name is None:
        return None
    path = Path(name)
    if path.suffix != ".svg":
        raise SettingsError(f"--picture {name!r}: the picture is an SVG file; use a name that ends with .svg")
    if not path.parent.is_dir() or path.is_dir():
        raise SettingsError(f"--picture {name!r}: the folder {str(path.parent)!r} does not exist")
    return path


def _tell(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)
