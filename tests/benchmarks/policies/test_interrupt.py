"""The figure of the interrupts can be missed, and there is none if an interrupt does not do what it should."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from benchmarks.plan import Plan, Target
from benchmarks.policies.interrupt import INTERRUPTS, interrupts
from inturn.app import InTurn
from inturn.errors import InTurnError
from inturn.lanes.receipt import Receipt

pytestmark = pytest.mark.alone


def quiet(what: str) -> None:
    """Nobody reads the progress."""


async def test_an_interrupt_that_comes_late_misses_the_bars(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = InTurn.submit

    async def late(self: InTurn, *args: Any, **options: Any) -> Receipt:
        await asyncio.sleep(0.11)
        return await submit(self, *args, **options)

    monkeypatch.setattr(InTurn, "submit", late)
    typical, slowest = await interrupts(Target(redis_url, namespace), Plan(1, 0.01, quiet))
    assert (typical.is_reached, slowest.is_reached) == (False, False)
    assert typical.more["interrupts"] == 2


async def test_an_interrupt_that_loses_the_first_message_gives_no_figure(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wrong(self: Receipt, timeout: float) -> int:
        return 1

    monkeypatch.setattr(Receipt, "result", wrong)
    with pytest.raises(InTurnError, match="both messages"):
        await interrupts(Target(redis_url, namespace), Plan(1, 0.01, quiet))


def test_a_plan_that_is_not_tiny_has_at_least_three_hundred_interrupts() -> None:
    plan = Plan.of(quick=True, rounds=None, scale=None, tell=quiet)
    assert plan.rounds * plan.size(INTERRUPTS) >= 300
