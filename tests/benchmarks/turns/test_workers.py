"""The figures of a worker: what is counted is what was let through, and nothing goes on after them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from benchmarks.plan import Plan, Target
from benchmarks.turns.workers import Mailbox, burst_handover, growth_mailbox, submit_to_start, working
from inturn.app import InTurn
from inturn.lanes.turn import Turn

pytestmark = pytest.mark.alone


def quiet(what: str) -> None:
    """Nobody reads the progress."""


async def test_as_many_turns_run_as_the_gate_lets_through(redis_url: str, namespace: str) -> None:
    app = InTurn(redis_url, namespace=namespace)
    box = Mailbox(app, "lane:1")

    @app.handler("work", state=dict)
    async def work(turn: Turn[dict[str, Any]]) -> None:
        await box.pass_gate()
        turn.state["n"] = turn.state.get("n", 0) + 1

    async with app:
        async with working(app, 1):
            await box.put(41)
            await box.has_begun(1)
            assert await box.let_through(20) > 0
            seen = await app.lanes.inspect("lane:1")
            assert (seen.state["n"], seen.waiting, seen.status) == (20, 20, "running")
        seen = await app.lanes.inspect("lane:1")
        assert (seen.state["n"], seen.waiting, seen.status) == (20, 21, "ready")


async def test_a_worker_that_slows_down_with_its_mailbox_misses_the_bar(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_through = Mailbox.let_through

    async def slow(self: Mailbox, count: int) -> float:
        waiting = int(self.key.removeprefix("lane:"))
        return await let_through(self, count) + waiting * 1e-3

    monkeypatch.setattr(Mailbox, "let_through", slow)
    figure = await growth_mailbox(Target(redis_url, namespace), Plan(1, 0.01, quiet))
    assert figure.is_reached is False


async def test_every_hand_over_of_a_burst_is_counted(redis_url: str, namespace: str) -> None:
    figure = await burst_handover(Target(redis_url, namespace), Plan(2, 0.1, quiet))
    assert len(figure.rounds["inturn"]) == 2
    assert all(value > 0 for value in figure.rounds["inturn"])
    assert figure.more["hand_overs"] == 2 * figure.more["bursts_in_a_round"] * (figure.more["messages_in_a_burst"] - 1)


async def test_the_other_process_ends_with_a_benchmark_that_is_cancelled(redis_url: str, namespace: str) -> None:
    def children() -> set[str]:
        return set(
            Path("/proc/self/task").joinpath(str(Path("/proc/self").resolve().name), "children").read_text().split()
        )

    before = children()
    measuring = asyncio.create_task(submit_to_start(Target(redis_url, namespace), Plan(1000, 1.0, quiet)))
    while not (started := children() - before):  # noqa: ASYNC110 - there is nothing that would tell us
        await asyncio.sleep(0.01)
    measuring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await measuring
    assert not children() & started
