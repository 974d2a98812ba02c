"""Turns that wait for each other in a circle end with the youngest wait, within seconds; a wait that will end is none.

The time limit of a turn is ten minutes, so whatever ends these tests is the detection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inturn import HandlerFailed, InTurn, Receipt, Stop, Turn
from inturn.errors import DeadlockDetected
from tests.conftest import MakeApp
from tests.lanes.workbench import Gate, apart, working
from tests.waiting import until, until_waiters, until_waiting

WITHIN_S = 30.0
"""A bound for a busy machine; it takes about four seconds."""


async def all_of(*work: Awaitable[Any]) -> list[Any]:
    async with asyncio.timeout(WITHIN_S):
        return await asyncio.gather(*work, return_exceptions=True)


async def nested(app: InTurn, barrier: asyncio.Barrier, *keys: str) -> str:
    """An inline turn of the first lane that wants the second one, when all have their first."""
    async with app.turn(keys[0]):
        await barrier.wait()
        async with app.turn(keys[1]):
            return "done"


async def test_inline_turns_that_want_each_others_lanes_end_with_one_of_them(app: InTurn, other: InTurn) -> None:
    barrier = asyncio.Barrier(2)
    outcomes = await all_of(apart(nested(app, barrier, "A", "B")), apart(nested(other, barrier, "B", "A")))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["DeadlockDetected", "str"]
    (error,) = [outcome for outcome in outcomes if isinstance(outcome, DeadlockDetected)]
    assert "waits for 'A'" in str(error)
    assert "waits for 'B'" in str(error)


async def test_a_circle_of_three_lanes_in_several_partitions_is_found(make_app: MakeApp) -> None:
    apps = [make_app(partitions=4) for _ in range(3)]
    barrier = asyncio.Barrier(3)
    ways = [("A", "B"), ("B", "C"), ("C", "A")]
    outcomes = await all_of(*(apart(nested(app, barrier, *keys)) for app, keys in zip(apps, ways, strict=True)))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["DeadlockDetected", "str", "str"]


async def alone(receipt: Receipt) -> None:
    await receipt.result()


async def gathered(receipt: Receipt) -> None:
    await asyncio.gather(receipt.result(), asyncio.sleep(0))


async def with_a_limit(receipt: Receipt) -> None:
    await asyncio.wait_for(receipt.result(), 300)


async def in_a_group(receipt: Receipt) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(receipt.result())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed


async def shielded(receipt: Receipt) -> None:
    await asyncio.shield(receipt.result())


@pytest.mark.parametrize("awaited", [alone, gathered, with_a_limit, in_a_group, shielded])
async def test_handlers_that_await_each_others_results_end_with_one_of_them(
    app: InTurn, awaited: Callable[[Receipt], Awaitable[None]]
) -> None:
    """B's turn awaits a message that waits behind A's turn, which awaits B's."""

    @app.handler("ask", on_failure="skip")
    async def ask(turn: Turn[None]) -> str:
        other = {"A": "B", "B": "A"}[turn.key]
        await awaited(await app.submit("ask", None, key=other))
        return "done"

    async with working(app):
        receipt = await app.submit("ask", None, key="A")
        with pytest.raises(HandlerFailed) as failed:
            await receipt.result(WITHIN_S)
    # A was the victim, or it had only heard that B was: whose wait is the youngest is up to the event loop
    assert failed.value.errors[-1]["type"] in ("DeadlockDetected", "HandlerFailed")
    assert "DeadlockDetected" in {letter.errors[-1]["type"] for letter in await app.dead_letters.list()}


async def test_a_victim_is_tried_again_when_the_other_has_gone_on(app: InTurn) -> None:
    both_hold = asyncio.Barrier(2)

    @app.handler("twice", backoff=(0.01, 0.01))
    async def twice(turn: Turn[None]) -> int:
        async with app.turn(f"shared {turn.key}"):
            if turn.attempt == 1:
                await both_hold.wait()
            async with app.turn({"A": "shared B", "B": "shared A"}[turn.key]):
                return turn.attempt

    async with working(app):
        receipts = [await app.submit("twice", None, key=key) for key in ("A", "B")]
        assert sorted(await all_of(*(receipt.result() for receipt in receipts))) == [1, 2]


@pytest.mark.parametrize("is_lock_first", [True, False])
async def test_a_circle_of_a_lock_and_a_lane_is_found(app: InTurn, other: InTurn, is_lock_first: bool) -> None:
    both_hold = asyncio.Barrier(2)

    async def lane_is_awaited() -> bool:
        """The store knows since when: a wait in a lane is as old as its first report says, which may come late."""
        lock = await app.locks.inspect("L")
        assert lock is not None
        edges = await other.process.store.edges([holder.owner for holder in lock.holders])
        return any(edge.name == "A" for edge in edges)

    async def lock_then_lane() -> str:
        async with app.lock("L"):
            await both_hold.wait()
            if not is_lock_first:
                await until_waiters(app, "L", 1)
            async with app.turn("A"):
                return "done"

    async def lane_then_lock() -> str:
        async with other.turn("A"):
            await both_hold.wait()
            if is_lock_first:
                await until(lane_is_awaited)
            async with other.lock("L"):
                return "done"

    outcomes = await all_of(apart(lock_then_lane()), apart(lane_then_lock()))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["DeadlockDetected", "str"]
    # the wait that closed the circle is the youngest
    assert isinstance(outcomes[1 if is_lock_first else 0], DeadlockDetected)


async def test_a_task_that_a_turn_only_started_does_not_hold_it_up(app: InTurn) -> None:
    """A's turn goes on by itself, so B, which awaits its lane, is not in a circle."""
    gate, started = Gate(), set[asyncio.Task[Any]]()

    @app.handler("a")
    async def a(turn: Turn[None]) -> str:
        receipt = await app.submit("b", None, key="B")
        started.add(asyncio.create_task(receipt.result()))
        await gate.pass_through()
        return "a"

    @app.handler("b")
    async def b(turn: Turn[None]) -> str:
        receipt = await app.submit("c", None, key="A")
        return "b" + str(await receipt.result())

    @app.handler("c")
    async def c(turn: Turn[None]) -> str:
        return "c"

    async with working(app):
        receipt = await app.submit("a", None, key="A")
        await gate.reached.wait()
        await until_waiting(app, "A", 1)
        await asyncio.sleep(4.5)  # long enough for the same waits to be seen twice
        gate.opened.set()
        assert await receipt.result(WITHIN_S) == "a"
        assert await all_of(*started) == ["bc"]


async def test_a_long_wait_without_a_circle_is_no_deadlock(app: InTurn, other: InTurn) -> None:
    is_held, may_end = asyncio.Event(), asyncio.Event()

    async def hold() -> str:
        async with app.turn("B"):
            is_held.set()
            await may_end.wait()
            return "held"

    async def want() -> str:
        async with other.turn("A"), other.turn("B"):
            return "done"

    holding = apart(hold())
    await is_held.wait()
    wanting = apart(want())
    await until_waiting(app, "B", 1)
    await asyncio.sleep(3.5)  # long enough for the same waits to be seen twice
    assert not wanting.done()
    may_end.set()
    assert await all_of(holding, wanting) == ["held", "done"]


async def test_what_is_reported_is_gone_soon_after_it_ended(app: InTurn, other: InTurn) -> None:
    is_held, may_end = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with app.turn("B"):
            is_held.set()
            await may_end.wait()

    async def want() -> None:
        async with other.turn("A") as turn:
            tokens.append(turn._lease.token)
            async with other.turn("B"):
                pass

    tokens: list[str] = []
    tasks = [apart(hold())]
    await is_held.wait()
    tasks.append(apart(want()))
    await until_waiting(app, "B", 1)

    async def is_reported() -> bool:
        return [edge.name for edge in await app.process.store.edges(tokens)] == ["B"]

    async def is_gone() -> bool:
        return not await app.process.store.edges(tokens)

    await until(is_reported)
    may_end.set()
    await all_of(*tasks)
    await until(is_gone)


async def test_a_handler_that_cannot_have_the_result_it_awaits_is_not_tried_again(app: InTurn) -> None:
    """Its next attempt would stand ahead of the very message that the other one awaits."""

    @app.handler("ask", backoff=(0.01, 0.01))
    async def ask(turn: Turn[None]) -> str:
        other = {"A": "B", "B": "A"}[turn.key]
        try:
            await (await app.submit("ask", None, key=other)).result()
        except HandlerFailed as error:
            raise Stop("the other one has failed") from error
        return "done"

    async with working(app):
        receipt = await app.submit("ask", None, key="A")
        with pytest.raises(HandlerFailed):
            await receipt.result(WITHIN_S)
    errors = [[error["type"] for error in letter.errors] for letter in await app.dead_letters.list()]
    stuck = [types for types in errors if "DeadlockDetected" in types]
    assert stuck
    assert all(types == ["DeadlockDetected"] for types in stuck), "one attempt each"


async def test_a_handler_that_awaits_its_own_lane_is_not_tried_again(app: InTurn) -> None:
    @app.handler("ask")
    async def ask(turn: Turn[None]) -> None:
        await (await app.submit("ask", None, key=turn.key)).result()

    async with working(app):
        receipt = await app.submit("ask", None, key="A")
        with pytest.raises(HandlerFailed) as failed:
            await receipt.result(WITHIN_S)
    assert [error["type"] for error in failed.value.errors] == ["OwnLane"]
