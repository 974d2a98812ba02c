"""`python -m benchmarks SUBJECT`: one run on private servers, with every figure, and the report.

Exit codes: 0 done; 1 a figure could not be measured; 2 wrong usage; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from rich.console import Console

from benchmarks.corpora.dates import measure_dates
from benchmarks.corpora.guard import measure_guard
from benchmarks.figures import Figure
from benchmarks.machine import ServerCounts, Watch, versions
from benchmarks.plan import Plan, Target
from benchmarks.report import charts, draw, show
from benchmarks.subjects import SUBJECTS, Subject
from inturn.errors import InTurnError, SettingsError
from tests.servers import PrivatePostgres, PrivateRabbitMQ, PrivateRedis
from tests.servers.broker import Broker

FIELDS = """\
the JSON holds each figure under its own name, and beside them
  details   by figure: value, bar, reached (null: only reported), unit, and the medians of each side, by round
  versions, machine, date, rounds, seconds
"""
TOLD = {
    "turns": "turns of a lane against the common recipe, in one run, on a private Redis",
    "locks": "the locks against their peers, in one run, on a private Redis",
    "policies": "interrupts, bursts, watchers and a cluster, in one run, on private Redis servers",
    "conversations": "what the orchestrator adds to an agent's answer, and turns over HTTP, in one run",
    "jobs": "jobs from the POST to the call-back, and the queue against its peers, in one run, on a private RabbitMQ",
    "tasks": "tasks from the POST until they are stored, and reservations against a bare UPDATE, on private servers",
    "bot": "what the guard adds to a send, a thousand users at once, and the faults without a guard, in one run",
}


CORPORA = {
    "dates": ("due dates read out of task sentences, beside dateparser", measure_dates),
    "guard": ("what the input guard catches, and what it refuses wrongly", measure_guard),
}
"""Counted, not timed: no server, no rounds, the same on every machine."""


def main(argv: Sequence[str] | None = None) -> int:
    logging.getLogger("inturn").addHandler(logging.NullHandler())  # a private Redis keeps nothing on disk: no warning
    try:
        return run(_parser().parse_args(argv))
    except KeyboardInterrupt:
        return 130
    except (InTurnError, ValueError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


def run(arguments: argparse.Namespace) -> int:
    found = versions(arguments.subject)
    if arguments.subject in CORPORA:
        counted = {**CORPORA[arguments.subject][1](), "versions": found}
        print(json.dumps(counted, indent=2) if arguments.json else "\n".join(_lines(counted)))
        return 0
    picture = _picture_file(arguments.picture)
    subject = SUBJECTS[arguments.subject]
    plan = Plan.of(
        quick=arguments.quick, rounds=arguments.rounds, scale=arguments.scale, tell=_tell, full=arguments.full
    )
    watch = Watch()
    figures, servers = _measure(subject, arguments.redis, arguments.rabbitmq, plan)
    facts = watch.facts(plan, {**found, **servers})
    bars = charts(figures, subject.drawn)
    if picture is not None:
        picture.write_text(draw(f"inturn benchmarks: {subject.name}", bars, facts), encoding="utf-8")
    if arguments.json:
        print(json.dumps(document(figures, facts), indent=2, ensure_ascii=False))
    else:
        show(Console(highlight=False), figures, bars, facts)
    return 0


def document(figures: list[Figure], facts: dict[str, Any]) -> dict[str, Any]:
    """The JSON: each figure under its name, then all that belongs to it."""
    values = {figure.name: figure.value for figure in figures}
    return {**values, "details": {figure.name: figure.details() for figure in figures}, **facts}


def _lines(counted: dict[str, Any], indent: str = "") -> list[str]:
    """Returns the counts as an indented list, for people."""
    lines = []
    for name, value in counted.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", *_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name:<22} {value}")
    return lines


def _measure(
    subject: Subject, url: str | None, ports: tuple[int, int] | None, plan: Plan
) -> tuple[list[Figure], dict[str, str]]:
    """Returns the figures, and the versions of the servers."""
    with ExitStack() as stack:
        is_private = url is None
        if url is None:
            plan.tell("starting a private Redis")
            url = stack.enter_context(PrivateRedis()).url
        counts = stack.enter_context(ServerCounts(url))
        broker = None if ports is None else Broker(*ports)
        if broker is None and subject.needs_broker:
            plan.tell("starting a private RabbitMQ")
            broker = stack.enter_context(PrivateRabbitMQ()).broker
        postgres = None
        if subject.needs_postgres:
            plan.tell("starting a private PostgreSQL")
            postgres = stack.enter_context(PrivatePostgres(is_fast=False))  # it waits for the disk, as in production
        target = Target(url, f"inturn-bench-{token_hex(4)}", broker, postgres)
        servers = {"redis-server": counts.version}
        if broker is not None:
            servers["rabbitmq-server"] = broker.version()
        if postgres is not None:
            servers["postgres-server"] = postgres.execute("SHOW server_version")
        if not is_private:
            stack.callback(counts.remove, target.prefix)
        return _run(subject.measure(target, counts, plan)), servers


def _run(measuring: Coroutine[Any, Any, list[Figure]]) -> list[Figure]:
    """Ctrl-C cancels the run between two steps of the loop. Python's own way interrupts a step, in which a future may
    be about to get its result; then the loop complains about an invalid state."""

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


def _ports(text: str) -> tuple[int, int]:
    amqp, management = text.split(":")
    return int(amqp), int(management)


def _tell(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure inturn on this machine.")
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="SUBJECT", title="subjects")
    for name, told in TOLD.items():
        subject = subjects.add_parser(
            name, help=told, description=told, epilog=FIELDS, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        told_json = "print JSON and nothing else (progress goes to stderr)"
        subject.add_argument("--json", action="store_true", help=told_json)
        subject.add_argument("--quick", action="store_true", help="three short rounds instead of five")
        subject.add_argument("--full", action="store_true", help="the largest sizes, too")
        subject.add_argument("--redis", metavar="URL", help="measure on this Redis instead of a private one")
        told_ports = "measure on this machine's RabbitMQ: its ports for AMQP and for the management API"
        needs = SUBJECTS[name].needs_broker
        subject.add_argument(
            "--rabbitmq", type=_ports, metavar="PORT:PORT", help=told_ports if needs else argparse.SUPPRESS
        )
        subject.add_argument("--picture", metavar="FILE.svg", help="draw the figures into this file, too")
        subject.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
        subject.add_argument("--scale", type=float, help=argparse.SUPPRESS)
    for name, (told, _) in CORPORA.items():
        corpus = subjects.add_parser(name, help=told, description=told)
        corpus.add_argument("--json", action="store_true", help="print JSON and nothing else")
    return parser


if __name__ == "__main__":
    sys.exit(main())
