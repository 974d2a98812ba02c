"""What an interrupt leaves alone: higher priorities, handlers that do not allow it, and the fourth turn in a row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn, Superseded, Turn
from tests.lanes.workbench import Gate, Seen, results, submit, working
from tests.waiting import until


async def test_after_three_interrupts_in_a_row_the_turn_finishes(app: InTurn) -> None:
    """A fast typist gets an answer in the end. A commit begins a new count."""
    gates = [Gate() for _ in range(9)]
    seen = Seen()

    @app.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> list[Any]:
        burst = seen.note(turn)
        await gates[len(seen.turns) - 1].pass_through()
        return burst

    async with working(app):
        receipts = [await submit(app, "a")]
        for number, text in enumerate("bcd"):
            await gates[number].reached.wait()
            receipts.append(await submit(app, text))
        await gates[3].reached.wait()
        late = await submit(app, "e")
        assert late.status == "queued"
        gates[3].opened.set()
        assert await results(receipts) == [["a", "b", "c", "d"]] * 4
        await gates[4].reached.wait()
        later = await submit(app, "f")
        gates[5].opened.set()
        assert await results([late, later]) == [["e", "f"]] * 2
    assert seen.bursts == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"], ["e"], ["e", "f"]]


async def test_a_turn_that_is_interrupted_in_its_last_attempt_is_joined_too(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k", busy="interrupt", attempts=2, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> list[Any]:
        burst = seen.note(turn)
        if len(seen.turns) == 1:
            raise ValueError("no")
        if len(seen.turns) == 2:
            await gate.pass_through()
        return burst

    async with working(app):
        first = await submit(app, "a")
        await gate.reached.wait()
        second = await submit(app, "b")
        assert await results([first, second]) == [["a", "b"]] * 2
    assert seen.bursts == [["a"], ["a"], ["a", "b"]]


async def test_what_waits_for_an_interrupting_handler_is_gathered_up_to_its_cap(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="interrupt", max_burst=3)
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    receipts = [await submit(app, text) for text in "abcd"]
    async with working(app):
        await results(receipts)
    assert seen.bursts == [["a", "b", "c"], ["d"]]


@pytest.mark.parametrize("allows", [False, True])
async def test_a_turn_of_another_handler_is_interrupted_only_if_that_allows_it(app: InTurn, allows: bool) -> None:
    gate, seen = Gate(), Seen()
    tries = 0

    @app.handler("slow", key="k", interruptible=allows)
    async def slow(turn: Turn[Any]) -> int:
        nonlocal tries
        tries += 1
        seen.note(turn)
        await gate.pass_through()
        return turn.attempt

    @app.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)
        gate.opened.set()

    async with working(app):
        first = await submit(app, "proactive", "slow")
        await gate.reached.wait()
        second = await submit(app, "user")
        if not allows:
            assert second.status == "queued"
            gate.opened.set()
        await second.result(20)
        assert await first.result(20) == 1
    assert seen.bursts == ([["proactive"], ["user"], ["proactive"]] if allows else [["proactive"], ["user"]])


async def test_a_turn_of_higher_priority_is_left_alone(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> list[Any]:
        burst = seen.note(turn)
        await gate.pass_through()
        return burst

    async with working(app):
        high = await submit(app, "high", priority=5)
        await gate.reached.wait()
        low = await submit(app, "low")
        gate.opened.set()
        assert await results([high, low]) == [["high"], ["low"]]
    assert seen.bursts == [["high"], ["low"]]


async def test_what_a_turn_sends_to_its_own_lane_does_not_interrupt_it(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> None:
        if seen.note(turn) == ["first"]:
            turn.send("h", "second", key="k")

    async with working(app):
        await (await submit(app, "first")).result(20)

        async def both() -> bool:
            return len(seen.turns) == 2

        await until(both)
    assert seen.bursts == [["first"], ["second"]]


@pytest.mark.parametrize("busy", ["interrupt", "rollback"])
async def test_what_comes_while_an_interrupted_turn_has_not_ended_is_in_the_next_one_too(
    app: InTurn, busy: Any
) -> None:
    gate, cancelled, ends = Gate(), asyncio.Event(), asyncio.Event()
    seen = Seen()

    @app.handler("h", key="k", busy=busy)
    async def h(turn: Turn[Any]) -> list[Any]:
        burst = seen.note(turn)
        if len(seen.turns) == 1:
            try:
                await gate.pass_through()
            except asyncio.CancelledError:
                cancelled.set()
                await ends.wait()
                raise
        return burst

    # one at a time: the lane is given away after a second in any case, and a busy machine may need that long here
    async with working(app, concurrency=1):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts.append(await submit(app, "b"))
        await cancelled.wait()
        receipts += [await submit(app, "c"), await submit(app, "d")]
        ends.set()
        expected = ["a", "b", "c", "d"] if busy == "interrupt" else ["d"]
        assert await receipts[-1].result(20) == expected
        if busy == "interrupt":
            assert await results(receipts) == [expected] * 4
        else:
            ended = await asyncio.gather(*(receipt.result(20) for receipt in receipts[:3]), return_exceptions=True)
            assert [type(error) for error in ended] == [Superseded] * 3
    assert seen.bursts == [["a"], expected]
