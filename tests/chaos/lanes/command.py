"""`python -m tests.chaos --lanes`: every scenario, with inturn and then with the recipe."""

from __future__ import annotations

import sys
import time

from rich.console import Console

from tests.chaos.checker import count
from tests.chaos.lanes.report import Pair, is_good, show
from tests.chaos.lanes.scenario import SCENARIOS, Result, Run, Scenario
from tests.kept_cases import keep

SHORTEST_S = 6.0
"""No scenario runs for less: a stop past the lease, and what follows, takes that long."""
RECIPE_S = 15.0
"""As long as the recipe has to run, at most, to be caught."""


async def run_lanes(console: Console, seconds: float, seed: int, store: str, only: str) -> int:
    chosen = [scenario for scenario in SCENARIOS if store in (scenario.store, "all") and only in scenario.name]
    each = seconds / max(1.0, sum(scenario.share for scenario in chosen))
    console.print(f"{len(chosen)} scenarios for lanes, {seconds:.0f} s in all; --seed {seed} repeats the faults")
    pairs = []
    for number, scenario in enumerate(chosen):
        share_s = max(SHORTEST_S, each * scenario.share)
        ours = await _play(scenario, "inturn", share_s, seed + number, console)
        if ours.violations:
            keep(f"chaos lanes {scenario.store} {scenario.name}", seed + number)
        naive = None
        # the recipe has no partitions, and needs the lists of Redis
        if scenario.store == "redis" and scenario.partitions == 1:
            naive = await _play(scenario, "naive", min(share_s, RECIPE_S), seed + number, console)
        pairs.append(Pair(scenario, ours, naive))
    show(pairs, console)
    return 0 if is_good(pairs) else 1


async def _play(scenario: Scenario, side: str, seconds: float, seed: int, console: Console) -> Result:
    began = time.monotonic()
    name = f"{scenario.store:7} {scenario.name:16} {'inturn' if side == 'inturn' else 'recipe'}"

    def tell(progress: str) -> None:
        if sys.stdout.isatty():
            console.print(f"{name} {progress}", end="\r")
        else:
            console.print(f"{name} {progress}")

    result = await Run(scenario, side, seconds, seed, tell=tell).play()
    found = ", ".join(f"{number} {kind}" for kind, number in sorted(count(result.violations).items()))
    console.print(f"{name} {time.monotonic() - began:5.1f} s {result.applied:6} turns  {found or 'good'}")
    return result
