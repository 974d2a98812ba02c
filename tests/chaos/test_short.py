"""The short form of `make chaos`: a few seconds of faults on each store, judged by the same checker."""

from __future__ import annotations

import asyncio

import pytest

from tests.chaos.checker import count
from tests.chaos.scenario import SCENARIOS, Run, Scenario
from tests.kept_cases import seeds_of

pytestmark = pytest.mark.timeout(180)  # they are a load, and may run beside others

SEED = 7
WORKERS = 3


def _scenario(store: str, name: str) -> Scenario:
    (found,) = (scenario for scenario in SCENARIOS if (scenario.store, scenario.name) == (store, name))
    return found


@pytest.mark.parametrize(
    "runs",
    [[("redis", "everything", 4.0)], [("redis", "restart without data", 3.0), ("sqlite", "everything", 3.0)]],
    ids=["redis", "redis emptied, and sqlite"],
)
async def test_no_violation_under_faults(runs: list[tuple[str, str, float]]) -> None:
    chosen = [Run(_scenario(store, name), "inturn", seconds, SEED, WORKERS) for store, name, seconds in runs]
    for result in await asyncio.gather(*(run.play() for run in chosen)):
        assert result.violations == [], f"see {result.kept}"
        assert len(result.history.holds) > 20, "too little happened to prove anything"
        assert sum(result.faults.values()) > 3


async def test_no_violation_where_there_was_one_before() -> None:
    for scenario in SCENARIOS:
        for seed in seeds_of(f"chaos locks {scenario.store} {scenario.name}"):
            result = await Run(scenario, "inturn", 4.0, seed, WORKERS).play()
            assert result.violations == [], f"see {result.kept}"


async def test_the_naive_lock_is_caught_by_the_same_checker() -> None:
    runs = [Run(_scenario(store, "no faults"), "naive", 2.5, SEED, WORKERS) for store in ("redis", "sqlite")]
    for result in await asyncio.gather(*(run.play() for run in runs)):
        found = count(result.violations)
        assert found["overlap"] > 0
        assert found["fence"] > 0
