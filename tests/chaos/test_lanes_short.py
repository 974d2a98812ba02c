"""The short form of `make chaos` for lanes: some seconds of faults on each store, judged by the same checker."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.chaos.checker import count
from tests.chaos.lanes.report import MUST_BE_CAUGHT
from tests.chaos.lanes.scenario import SCENARIOS, Run, Scenario
from tests.kept_cases import seeds_of

pytestmark = pytest.mark.timeout(600)  # they are a load, and may run beside others

SEED = 7
WORKERS = 4
LANES = 40
SEEDS = range(SEED, SEED + 5)
"""One is enough, as a rule. How much happens in some seconds is a matter of how busy the machine is."""


def _scenario(store: str, name: str) -> Scenario:
    (found,) = (scenario for scenario in SCENARIOS if (scenario.store, scenario.name) == (store, name))
    return found


async def test_nothing_is_lost_doubled_or_out_of_order_under_faults() -> None:
    happened = {"redis": Counter[str](), "sqlite": Counter[str]()}
    for seed in SEEDS:
        runs = [Run(_scenario(store, "everything"), "inturn", 4.0, seed, WORKERS, LANES) for store in happened]
        for store, result in zip(happened, await asyncio.gather(*(run.play() for run in runs)), strict=True):
            assert result.violations == [], f"see {result.kept}"
            happened[store] += Counter(result.found.written_off.values())
            happened[store] += Counter(
                acked=len(result.told.acked),
                sends=result.sends,
                faults=result.told.faults.total(),
                joined=result.joined,
            )
        if is_enough(*happened.values()):
            return
    raise AssertionError(f"too little happened to prove anything: {happened}")


def is_enough(*happened: Counter[str]) -> bool:
    """Of everything, also of what was merged, interrupted or steered."""
    both = sum(happened, Counter[str]())
    return (
        all(one["acked"] > 50 and one["sends"] > 50 and one["faults"] > 0 for one in happened)
        and both["faults"] > 4
        and both["joined"] > 5
        and both["superseded"] > 0
        and both["cancelled"] > 0
    )


async def test_nothing_is_lost_doubled_or_out_of_order_where_it_was_before() -> None:
    for scenario in SCENARIOS:
        for seed in seeds_of(f"chaos lanes {scenario.store} {scenario.name}"):
            result = await Run(scenario, "inturn", 6.0, seed, WORKERS, LANES).play()
            assert result.violations == [], f"see {result.kept}"


async def test_the_common_recipe_is_caught_by_the_same_checker() -> None:
    """A seed fixes the faults, not where in the recipe they strike: it is run until each kind of fault has shown."""
    found: Counter[str] = Counter()
    for seed in SEEDS:
        result = await Run(_scenario("redis", "processes"), "naive", 4.0, seed, WORKERS, LANES).play()
        found += count(result.violations)
        if all(found[kind] > 0 for kind in MUST_BE_CAUGHT):
            return
    raise AssertionError(f"the recipe was not caught with each of {MUST_BE_CAUGHT}: {found}")
