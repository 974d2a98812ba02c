"""The figures with watchers: a turn that is slowed down misses its bar, and only what everybody heard is counted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from benchmarks.plan import Plan, Target
from benchmarks.policies import watchers
from benchmarks.policies.watchers import LANE
from benchmarks.processes import started
from inturn.app import InTurn
from inturn.lanes.turn import Turn

pytestmark = pytest.mark.alone


def quiet(what: str) -> None:
    """Nobody reads the progress."""


async def test_a_turn_that_waits_for_its_watchers_misses_the_bar(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = watchers._turn

    async def waits(app: InTurn, lane: str) -> float:
        return await turn(app, lane) * (20.0 if lane == LANE else 1.0)  # no chance outweighs that

    monkeypatch.setattr(watchers, "_turn", waits)
    rate, slowdown = await watchers.watched(Target(redis_url, namespace), Plan(1, 0.2, quiet))
    assert rate.is_reached is None
    assert slowdown.is_reached is False


async def test_chunks_that_do_not_reach_the_watchers_are_not_counted(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Turn.stream
    streamed = 0

    def loses_one(self: Turn[Any], chunk: Any) -> None:
        nonlocal streamed
        streamed += 1
        if streamed != 3:
            stream(self, chunk)

    monkeypatch.setattr(Turn, "stream", loses_one)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await watchers.watched(Target(redis_url, namespace), Plan(1, 0.01, quiet))


async def test_watchers_that_were_held_hear_all_of_it_afterwards(redis_url: str, namespace: str) -> None:
    target = Target(redis_url, namespace)
    async with (
        started("benchmarks.policies.watchers", target, 1) as (process,),
        InTurn(redis_url, namespace=watchers.namespace(namespace)) as app,
    ):
        listeners = watchers.Listeners(process)
        for _ in range(3):
            async with listeners.held(), app.turn(LANE) as turn:
                for word in ("Your", "order", "is", "on", "its", "way"):
                    turn.stream(word)
            listeners.add(6)
            await asyncio.wait_for(listeners.heard(), 20)


async def test_watchers_that_are_held_when_the_benchmark_ends_end_with_it(redis_url: str, namespace: str) -> None:
    with pytest.raises(RuntimeError, match="Ctrl-C"):
        async with (
            asyncio.timeout(40),
            started("benchmarks.policies.watchers", Target(redis_url, namespace), 1) as (process,),
            watchers.Listeners(process).held(),
        ):
            raise RuntimeError("as Ctrl-C would")
    assert process.returncode is not None
