"""The short form of `make chaos` for lanes: some seconds of faults on each store, judged by the same checker."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.chaos.checker import count
from tests.chaos.lanes.report import MUST_BE_CAUGHT
from tests.chaos.lanes.scenario import SCENARIOS, Run, Scenario
from tests.kept_cases import seeds_of

pytestmark = pytest.mark.timeout(180)  # they are a load, and may run beside others

SEED = 7
WORKERS = 4
LANES = 40


def _scenario(store: str, name: str) -> Scenario:
    (found,) = (scenario for scenario in SCENARIOS if (scenario.store, scenario.name) == (store, name))
    return found


async def test_nothing_is_lost_doubled_or_out_of_order_under_faults() -> None:
    runs = [Run(_scenario(store, "everything"), "inturn", 4.0, SEED, WORKERS, LANES) for store in ("redis", "sqlite")]
    results = await asyncio.gather(*(run.play() for run in runs))
    for result in results:
        assert result.violations == [], f"see {result.kept}"
        assert len(result.told.acked) > 50, "too little happened to prove anything"
        assert result.sends > 50
        assert result.told.faults
    assert sum(sum(result.told.faults.values()) for result in results) > 4
    assert sum(result.joined for result in results) > 5, "too little was merged, interrupted or steered"
    written_off = {why for result in results for why in result.found.written_off.values()}
    assert written_off == {"superseded", "cancelled"}


async def test_nothing_is_lost_doubled_or_out_of_order_where_it_was_before() -> None:
    for scenario in SCENARIOS:
        for seed in seeds_of(f"chaos lanes {scenario.store} {scenario.name}"):
            result = await Run(scenario, "inturn", 6.0, seed, WORKERS, LANES).play()
            assert result.violations == [], f"see {result.kept}"


async def test_the_common_recipe_is_caught_by_the_same_checker() -> None:
    """A seed fixes the faults, not where in the recipe they strike: it is run until each kind of fault has shown."""
    found: Counter[str] = Counter()
    for seed in range(SEED, SEED + 5):
        result = await Run(_scenario("redis", "processes"), "naive", 4.0, seed, WORKERS, LANES).play()
        found += count(result.violations)
        if all(found[kind] > 0 for kind in MUST_BE_CAUGHT):
            return
    raise AssertionError(f"the recipe was not caught with each of {MUST_BE_CAUGHT}: {found}")
