"""The short form of `make chaos`: a few seconds of faults on each store, judged by the same checker."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.chaos.checker import count
from tests.chaos.scenario import SCENARIOS, Run, Scenario
from tests.kept_cases import seeds_of

pytestmark = pytest.mark.timeout(600)  # they are a load, and may run beside others

SEED = 7
WORKERS = 3
SEEDS = range(SEED, SEED + 5)
"""One is enough, as a rule. How much happens in some seconds is a matter of how busy the machine is."""


def _scenario(store: str, name: str) -> Scenario:
    (found,) = (scenario for scenario in SCENARIOS if (scenario.store, scenario.name) == (store, name))
    return found


@pytest.mark.parametrize(
    "runs",
    [[("redis", "everything", 4.0)], [("redis", "restart without data", 3.0), ("sqlite", "everything", 3.0)]],
    ids=["redis", "redis emptied, and sqlite"],
)
async def test_no_violation_under_faults(runs: list[tuple[str, str, float]]) -> None:
    holds, faults = Counter[Scenario](), Counter[Scenario]()
    for seed in SEEDS:
        chosen = [Run(_scenario(store, name), "inturn", seconds, seed, WORKERS) for store, name, seconds in runs]
        for run, result in zip(chosen, await asyncio.gather(*(run.play() for run in chosen)), strict=True):
            assert result.violations == [], f"see {result.kept}"
            holds[run.scenario] += len(result.history.holds)
            faults[run.scenario] += sum(result.faults.values())
        if all(holds[run.scenario] > 20 and faults[run.scenario] > 3 for run in chosen):
            return
    raise AssertionError(f"too little happened to prove anything: {holds} holds, {faults} faults")


async def test_no_violation_where_there_was_one_before() -> None:
    for scenario in SCENARIOS:
        for seed in seeds_of(f"chaos locks {scenario.store} {scenario.name}"):
            result = await Run(scenario, "inturn", 4.0, seed, WORKERS).play()
            assert result.violations == [], f"see {result.kept}"


async def test_the_naive_lock_is_caught_by_the_same_checker() -> None:
    found = {"redis": Counter[str](), "sqlite": Counter[str]()}
    for seed in SEEDS:
        runs = [Run(_scenario(store, "no faults"), "naive", 2.5, seed, WORKERS) for store in found]
        for store, result in zip(found, await asyncio.gather(*(run.play() for run in runs)), strict=True):
            found[store] += count(result.violations)
        if all(kinds["overlap"] > 0 and kinds["fence"] > 0 for kinds in found.values()):
            return
    raise AssertionError(f"the naive lock was not caught with both: {found}")
