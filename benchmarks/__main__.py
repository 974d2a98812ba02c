"""One run of the benchmark: a private Redis, every figure, and the report."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from rich.console import Console

from benchmarks.figures import Figure
from inturn.bench.machine import Watch
from inturn.bench.place import Place, versions
from benchmarks.plan import Plan
from inturn.errors import SettingsError

if TYPE_CHECKING:
    from inturn.bench.subject import Subject


def run_bench(arguments: argparse.Namespace) -> int:
    found = versions(arguments.subject)  # before anything is imported that may be missing
    from inturn.bench.conversations.subject import CONVERSATIONS
    from inturn.bench.locks.subject import LOCKS
    from inturn.bench.picture import draw
    from inturn.bench.policies.subject import POLICIES
    from benchmarks.report import charts, show
    from inturn.bench.turns.subject import TURNS

    picture = _picture_file(arguments.picture)
    subjects = {"locks": LOCKS, "turns": TURNS, "policies": POLICIES, "conversations": CONVERSATIONS}
    subject = subjects[arguments.subject]
    plan = Plan.of(
        quick=arguments.quick, rounds=arguments.rounds, scale=arguments.scale, tell=_tell, full=arguments.full
    )
    watch = Watch()
    figures, server_version = _measure(subject, arguments.redis, plan)
    facts = watch.facts(plan, {**found, "redis-server": server_version})
    bars = charts(figures, subject.drawn)
    if picture is not None:
        picture.write_text(draw(f"inturn bench {subject.name}", bars, facts), encoding="utf-8")
    if arguments.json:
        print(json.dumps(document(figures, facts), indent=2, ensure_ascii=False))
    else:
        show(Console(highlight=False), figures, bars, facts)
    return 0


def document(figures: list[Figure], facts: dict[str, Any]) -> dict[str, Any]:
    """The JSON: each figure under its name, then all that belongs to it."""
    values = {figure.name: figure.value for figure in figures}
    return {**values, "details": {figure.name: figure.details() for figure in figures}, **facts}


def _measure(subject: Subject, url: str | None, plan: Plan) -> tuple[list[Figure], str]:
    from inturn.bench.server import ServerCounts
    from inturn.services import PrivateRedis

    with ExitStack() as stack:
        is_private = url is None
        if url is None:
            plan.tell("starting a private Redis")
            url = stack.enter_context(PrivateRedis()).url
        counts = stack.enter_context(ServerCounts(url))
        place = Place(url, f"inturn-bench-{token_hex(4)}")
        server_version = counts.version
        if not is_private:
            stack.callback(counts.remove, place.prefix)
        return _run(subject.measure(place, counts, plan)), server_version


def _run(measuring: Coroutine[Any, Any, list[Figure]]) -> list[Figure]:
    """Ctrl-C cancels it between two steps of the loop. Python's own way does so in the midst of one, where a future may
    be about to get its result: then the loop complains of an invalid state."""

    async def run() -> list[Figure]:
        task = asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError):  # where signals cannot be caught, Python's own way is the only one
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        return await measuring

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


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
