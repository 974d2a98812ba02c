"""The figure of the bursts can be missed, and there is none if they are not what they should be."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.plan import Plan, Target
from benchmarks.policies.merge import BURST, merge_overhead
from benchmarks.turns import workers
from benchmarks.turns.workers import Mailbox
from inturn.errors import InTurnError
from inturn.lanes.turn import Turn

pytestmark = pytest.mark.alone


def quiet(what: str) -> None:
    """Nobody reads the progress."""


async def test_a_burst_that_costs_as_much_as_its_messages_do_misses_the_bar(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in, passed_s = Turn._take_in, 0.0

    def slow(self: Turn[Any], messages: Any) -> Any:
        nonlocal passed_s
        passed_s += len(messages)  # by the clock that the figure is measured with: no busy machine is as slow
        return take_in(self, messages)

    monkeypatch.setattr(Turn, "_take_in", slow)
    moved = SimpleNamespace(perf_counter=lambda: time.perf_counter() + passed_s)
    monkeypatch.setattr(workers, "time", moved)
    figure = await merge_overhead(Target(redis_url, namespace), Plan(1, 0.01, quiet))
    assert figure.is_reached is False


async def test_bursts_of_another_size_give_no_figure(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Mailbox.put

    async def too_few(self: Mailbox, count: int) -> None:
        await put(self, count - 1 if count > BURST else count)

    monkeypatch.setattr(Mailbox, "put", too_few)
    with pytest.raises(InTurnError, match="no figure"):
        await merge_overhead(Target(redis_url, namespace), Plan(1, 0.01, quiet))
