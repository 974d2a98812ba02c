"""`python -m tests.chaos`: the long form, for locks; with `--lanes` for lanes.

Ends with 1 on any violation of ours, or if what people copy from a blog was not caught. The seed of a violation is kept
as a case, which `make test` runs again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import sys
import time

from rich.console import Console

from tests.chaos.checker import count
from tests.chaos.lanes.command import run_lanes
from tests.chaos.report import Pair, is_good, show
from tests.chaos.scenario import SCENARIOS, Result, Run, Scenario
from tests.kept_cases import keep

SHORTEST_S = 4.0
"""No scenario runs for less: a stop past the ttl, and what follows, takes that long."""


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--lanes", action="store_true", help="chaos for lanes, not for locks")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load in all, shared by the scenarios (60)")
    parser.add_argument("--seed", type=int, default=None, help="of the faults; another one each time if not given")
    parser.add_argument("--store", choices=("redis", "sqlite", "all"), default="all")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this")
    return parser.parse_args()


async def play(scenario: Scenario, lock: str, seconds: float, seed: int, console: Console) -> Result:
    began = time.monotonic()
    result = await Run(scenario, lock, seconds, seed).play()
    found = ", ".join(f"{number} {kind}" for kind, number in sorted(count(result.violations).items()))
    took, holds = time.monotonic() - began, len(result.history.holds)
    console.print(f"{scenario.store:7} {scenario.name:21} {lock:7} {took:5.1f} s {holds:6} holds  {found or 'good'}")
    return result


async def main() -> int:
    arguments = read_arguments()
    logging.getLogger("inturn").setLevel(logging.ERROR)
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    if arguments.lanes:
        return await run_lanes(console, arguments.seconds, seed, arguments.store, arguments.only)
    chosen = [
        scenario
        for scenario in SCENARIOS
        if arguments.store in (scenario.store, "all") and arguments.only in scenario.name
    ]
    seconds = max(SHORTEST_S, arguments.seconds / max(1, len(chosen)))
    console.print(f"{len(chosen)} scenarios of {seconds:.0f} s for each lock; --seed {seed} repeats the faults")
    pairs = []
    for number, scenario in enumerate(chosen):
        ours = await play(scenario, "inturn", seconds, seed + number, console)
        if ours.violations:
            keep(f"chaos locks {scenario.store} {scenario.name}", seed + number)
        naive = await play(scenario, "naive", seconds, seed + number, console)
        pairs.append(Pair(scenario, ours, naive))
    show(pairs, console)
    return 0 if is_good(pairs) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
