"""The short form of `make chaos` for lanes: some seconds of faults on each store, judged by the same checker."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.chaos.checker import count
from tests.chaos.lanes.report import MUST_BE_CAUGHT
from tests.chaos.lanes.scenario import SCENARIOS, Run, Scenario

SEED = 7
WORKERS = 4
LANES = 40


def _scenario(store: str, name: str) -> Scenario:
    (found,) = (scenario for scenario in SCENARIOS if (scenario.store, scenario.name) == (store, name))
    return found


async def test_nothing_is_lost_doubled_or_out_of_order_under_faults() -> None:
    runs = [Run(_scenario(store, "everything"), "inturn", 4.0, SEED, WORKERS, LANES) for store in ("redis", "sqlite")]
    for result in await asyncio.gather(*(run.play() for run in runs)):
        assert result.violations == [], f"see {result.kept}"
        assert len(result.told.acked) > 50, "too little happened to prove anything"
        assert result.sends > 50
        assert sum(result.told.faults.values()) > 2


async def test_the_common_recipe_is_caught_by_the_same_checker() -> None:
    """A seed fixes the faults, not where in the recipe they strike: it is run until each kind of fault has shown."""
    found: Counter[str] = Counter()
    for seed in range(SEED, SEED + 5):
        result = await Run(_scenario("redis", "processes"), "naive", 4.0, seed, WORKERS, LANES).play()
        found += count(result.violations)
        if all(found[kind] > 0 for kind in MUST_BE_CAUGHT):
            return
    raise AssertionError(f"the recipe was not caught with each of {MUST_BE_CAUGHT}: {found}")
