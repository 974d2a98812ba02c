"""Requests that wait together become one turn: all of their words, one answer, and nobody is left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from inturn.workflows.turns import Bursts
from tests.lanes.workbench import Gate

Begin = Callable[[], list[str]]


class Turns:
    """Bursts begin when the gate is opened."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.taken: list[list[str]] = []
        self.error: Exception | None = None
        self.within = Gate()
        self.within.opened.set()
        self.leaves = asyncio.Event()
        self.leaves.set()

    async def lead(self, begin: Begin) -> str:
        try:
            await self.gate.pass_through()
            items = begin()
            self.taken.append(items)
            await self.within.pass_through()
            if self.error is not None:
                raise self.error
            return "+".join(items)
        finally:
            await self.leaves.wait()


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def bursts() -> Bursts[str, str]:
    return Bursts(50)


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_those_who_wait_share_one_answer_in_the_order_they_came(turns: Turns, bursts: Bursts[str, str]) -> None:
    tasks = [asyncio.create_task(bursts.join("k", item, turns.lead)) for item in "abc"]
    await turns.gate.reached.wait()
    await settle()
    turns.gate.opened.set()
    assert await asyncio.gather(*tasks) == ["a+b+c"] * 3
    assert turns.taken == [["a", "b", "c"]]


async def test_who_comes_after_it_began_is_in_the_next(turns: Turns, bursts: Bursts[str, str]) -> None:
    turns.within.opened.clear()
    turns.gate.opened.set()
    first = asyncio.create_task(bursts.join("k", "a", turns.lead))
    await turns.within.reached.wait()
    second = asyncio.create_task(bursts.join("k", "b", turns.lead))
    await settle()
    turns.within.opened.set()
    assert [await first, await second] == ["a", "b"]


async def test_other_keys_are_other_bursts(turns: Turns, bursts: Bursts[str, str]) -> None:
    turns.gate.opened.set()
    one, two = await asyncio.gather(bursts.join("k", "a", turns.lead), bursts.join("l", "b", turns.lead))
    assert (one, two) == ("a", "b")


async def test_a_failure_is_told_to_all_and_the_next_burst_is_fine(turns: Turns, bursts: Bursts[str, str]) -> None:
    turns.error = RuntimeError("broken")
    turns.gate.opened.set()
    told = await asyncio.gather(*(bursts.join("k", i, turns.lead) for i in "ab"), return_exceptions=True)
    assert [str(error) for error in told] == ["broken"] * 2
    turns.error = None
    assert await bursts.join("k", "c", turns.lead) == "c"


@pytest.mark.parametrize("leaver", [0, 1, 2])
async def test_who_gives_up_before_it_began_is_not_in_it(turns: Turns, bursts: Bursts[str, str], leaver: int) -> None:
    tasks = [asyncio.create_task(bursts.join("k", item, turns.lead)) for item in "abc"]
    await settle()
    tasks[leaver].cancel()
    await asyncio.wait([tasks[leaver]])
    assert tasks[leaver].cancelled()
    turns.gate.opened.set()
    rest = [task for task in tasks if not task.cancelled()]
    expected = "+".join(item for number, item in enumerate("abc") if number != leaver)
    assert await asyncio.gather(*rest) == [expected] * 2


async def test_who_gives_up_after_it_began_does_not_stop_it_for_the_others(
    turns: Turns, bursts: Bursts[str, str]
) -> None:
    turns.within.opened.clear()
    turns.gate.opened.set()
    tasks = [asyncio.create_task(bursts.join("k", item, turns.lead)) for item in "ab"]
    await turns.within.reached.wait()
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    turns.within.opened.set()
    assert await tasks[1] == "a+b"


async def test_a_burst_that_all_have_left_is_stopped(turns: Turns, bursts: Bursts[str, str]) -> None:
    turns.within.opened.clear()
    turns.gate.opened.set()
    tasks = [asyncio.create_task(bursts.join("k", item, turns.lead)) for item in "ab"]
    await turns.within.reached.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await settle()
    turns.within.opened.set()
    assert await bursts.join("k", "c", turns.lead) == "c"


async def test_who_comes_while_an_abandoned_burst_still_ends_is_not_cancelled_with_it(
    turns: Turns, bursts: Bursts[str, str]
) -> None:
    left = asyncio.create_task(bursts.join("k", "a", turns.lead))
    await turns.gate.reached.wait()
    turns.leaves.clear()  # leaving the lane's queue takes a call of the store
    left.cancel()
    await asyncio.wait([left])
    new = asyncio.create_task(bursts.join("k", "b", turns.lead))
    await settle()
    turns.leaves.set()
    turns.gate.opened.set()
    with contextlib.suppress(asyncio.CancelledError):
        assert await new == "b"
    assert not new.cancelled(), "nobody has cancelled it"
