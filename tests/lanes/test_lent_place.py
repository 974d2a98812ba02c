"""A handler that waits for another lane lends its place: no worker waits for a place that it has itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from inturn import HandlerFailed, InTurn, Turn
from tests.lanes.workbench import Gate, apart, results, working
from tests.waiting import until, until_status

WITHIN_S = 30.0


class AtWork:
    """How many bodies are at work, which those that only wait are not."""

    def __init__(self) -> None:
        self.now = self.most = 0

    @contextlib.contextmanager
    def one_more(self, change: int = 1) -> Iterator[None]:
        self.now += change
        self.most = max(self.most, self.now)
        try:
            yield
        finally:
            self.now -= change


def families(app: InTurn) -> AtWork:
    """A parent awaits its children, each of which may have children: `depth` says how far down that goes."""
    at_work = AtWork()

    @app.handler("person", key="{name}")
    async def person(turn: Turn[None]) -> int:
        name, depth, count = turn.body["name"], turn.body["depth"], turn.body["children"]
        with at_work.one_more():
            await asyncio.sleep(0.01)
            children = [
                await app.submit("person", {"name": f"{name}.{n}", "depth": depth - 1, "children": count})
                for n in range(count if depth else 0)
            ]
            with at_work.one_more(-1):
                family: list[int] = await asyncio.gather(*(child.result() for child in children))
            return 1 + sum(family)

    return at_work


@pytest.mark.parametrize(("concurrency", "parents"), [(1, 1), (1, 5), (3, 9)])
async def test_handlers_that_await_others_get_by_with_the_places_there_are(
    app: InTurn, concurrency: int, parents: int
) -> None:
    at_work = families(app)
    bodies = [{"name": f"p{n}", "depth": 3, "children": 2} for n in range(parents)]
    receipts = [await app.submit("person", body) for body in bodies]
    async with working(app, concurrency):
        assert await results(receipts, WITHIN_S) == [15] * parents
    assert at_work.most <= concurrency


async def test_an_inline_turn_behind_a_message_lends_its_place_too(app: InTurn) -> None:
    """The message ahead of it can only be run by the worker whose one place it has."""
    gate = Gate()

    @app.handler("outer")
    async def outer(turn: Turn[None]) -> str:
        await gate.pass_through()
        async with app.turn("B"):
            return "outer"

    @app.handler("inner")
    async def inner(turn: Turn[None]) -> str:
        return "inner"

    async with working(app, 1):
        receipt = await app.submit("outer", None, key="A")
        await gate.reached.wait()
        other = await app.submit("inner", None, key="B")
        gate.opened.set()
        assert await results([receipt, other], WITHIN_S) == ["outer", "inner"]


async def test_a_turn_that_goes_on_lends_nothing(app: InTurn) -> None:
    """It has only started a task that waits. Its place is taken, and there is no other."""
    gate, tasks = Gate(), set[asyncio.Task[Any]]()

    @app.handler("outer")
    async def outer(turn: Turn[None]) -> str:
        receipt = await app.submit("inner", None, key="B")
        tasks.add(asyncio.create_task(receipt.result()))
        await gate.pass_through()
        return "outer"

    @app.handler("inner")
    async def inner(turn: Turn[None]) -> str:
        return "inner"

    async with working(app, 1):
        receipt = await app.submit("outer", None, key="A")
        await gate.reached.wait()
        await asyncio.sleep(0.3)  # it would have been lent by then
        assert (await app.lanes.inspect("B")).status == "ready"
        gate.opened.set()
        assert await receipt.result(WITHIN_S) == "outer"
        assert await asyncio.gather(*tasks) == ["inner"]


async def test_what_runs_in_a_lent_place_is_no_part_of_the_turn_that_waits(app: InTurn) -> None:
    """It may wait for that turn's lane: that is a circle, which is found, and not the lane's own turn."""
    is_over = asyncio.Event()

    @app.handler("outer", on_failure="skip")
    async def outer(turn: Turn[None]) -> Any:
        receipt = await app.submit("inner", None, key="B")
        try:
            return await receipt.result()
        finally:
            is_over.set()

    @app.handler("inner", on_failure="skip")
    async def inner(turn: Turn[None]) -> None:
        async with app.turn("A"):
            assert is_over.is_set(), "A waits for us"

    async with working(app, 1):
        receipt = await app.submit("outer", None, key="A")
        with pytest.raises(HandlerFailed):
            await receipt.result(WITHIN_S)
        await until_status(app, "B", "idle")
        ended = {letter.key: letter.errors[-1]["type"] for letter in await app.dead_letters.list()}
    # the wait of one began some milliseconds after that of the other, which a report to the store may take as well
    assert ended in ({"A": "DeadlockDetected"}, {"A": "HandlerFailed", "B": "DeadlockDetected"})


async def test_a_worker_that_stops_hands_back_what_runs_in_a_lent_place(app: InTurn) -> None:
    gate = Gate()

    @app.handler("outer")
    async def outer(turn: Turn[None]) -> Any:
        return await (await app.submit("inner", None, key="B", message_id="b")).result()

    @app.handler("inner")
    async def inner(turn: Turn[None]) -> str:
        await gate.pass_through()
        return "inner"

    async with working(app, 1, grace=0):
        receipt = await app.submit("outer", None, key="A")
        await gate.reached.wait()
    await until_status(app, "B", "ready")
    await until_status(app, "A", "ready")
    gate.opened.set()
    async with working(app, 1):
        assert await receipt.result(WITHIN_S) == "inner"


async def test_a_lane_that_another_has_is_waited_for_as_before(app: InTurn, other: InTurn) -> None:
    @app.handler("outer")
    async def outer(turn: Turn[None]) -> Any:
        return await (await app.submit("inner", None, key="B")).result()

    @app.handler("inner")
    async def inner(turn: Turn[None]) -> str:
        return "inner"

    may_end = asyncio.Event()

    async def hold() -> None:
        async with other.turn("B"):
            await may_end.wait()

    holding = apart(hold())
    await until_status(app, "B", "running")
    async with working(app, 1):
        receipt = await app.submit("outer", None, key="A")

        async def waits() -> bool:
            return (await app.lanes.inspect("B")).waiting == 1

        await until(waits)
        may_end.set()
        assert await receipt.result(WITHIN_S) == "inner"
    await holding
