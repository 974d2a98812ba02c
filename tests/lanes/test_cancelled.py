"""Cancel the caller at every await of `turn` and `submit`: the lane is free or committed once, and nothing leaks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from inturn import InTurn, Turn
from inturn.process import heartbeat
from inturn.store.lane import Claimed, Commit, Ended
from tests.acceptance.cancelling import Cancelled, When, at_every_await, cancelled_at, in_both_ways
from tests.conftest import MakeApp
from tests.lanes.workbench import OVER_S, apart, working
from tests.waiting import until, until_status, until_waiting


async def until_nothing_is_left(app: InTurn) -> None:
    """Undoing is repeated once when no bytes can be under way any more; then the process has nothing to look after."""

    async def is_empty() -> bool:
        registry = app.process.registry
        return registry.is_empty() and not (registry.waiting or registry.holding)

    await until(is_empty, 40)


@pytest.fixture
def quick(make_app: MakeApp) -> InTurn:
    """Calls of this app are certainly over after so long."""
    return make_app(store_timeout=OVER_S)


async def count_up(app: InTurn, message_id: int) -> None:
    async with app.turn("k", state=list, message_id=message_id) as turn:
        turn.state.append(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)


@in_both_ways
async def test_a_turn_can_be_cancelled_at_every_await(quick: InTurn, other: InTurn, when: When) -> None:
    async def attempt(number: int) -> None:
        before = (await other.lanes.inspect("k")).version
        try:
            await cancelled_at(number, when, count_up(quick, number))
        finally:
            lane = await until_status(other, "k", "idle", within_s=30)
            assert lane.version - before in (0, 1)
            assert lane.state == ([1] * lane.version or None)

    assert await at_every_await(attempt) >= 4
    assert (await other.lanes.inspect("k")).version >= 1
    await until_nothing_is_left(quick)
    assert await other.lanes.list() == []


@in_both_ways
async def test_the_first_turn_of_an_app_can_be_cancelled_at_every_await(
    make_app: MakeApp, other: InTurn, when: When
) -> None:
    async def attempt(number: int) -> None:
        app = make_app(store_timeout=OVER_S)
        try:
            await cancelled_at(number, when, count_up(app, number))
        except Cancelled:
            await until_status(other, "k", "idle", within_s=30)
            async with asyncio.timeout(15), app.turn("k"):  # the app still works
                pass
            raise
        finally:
            await app.close()

    assert await at_every_await(attempt) >= 4


@in_both_ways
@pytest.mark.parametrize("is_local", [True, False], ids=["same process", "another process"])
async def test_a_waiting_turn_can_be_cancelled_at_every_await(
    quick: InTurn, other: InTurn, when: When, is_local: bool
) -> None:
    async def attempt(number: int) -> None:
        async with (quick if is_local else other).turn("k"):
            asking = apart(cancelled_at(number, when, count_up(quick, number)))
            # the others see its place before its own process has the answer, which a grant must not overtake here
            while not (asking.done() or quick.process.registry.waiting):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.001)
        try:
            await asking
        finally:
            lane = await until_status(other, "k", "idle", within_s=30)
            assert lane.state == ([1] * len(lane.state or []) or None)

    assert await at_every_await(attempt) >= 4
    await until_nothing_is_left(quick)
    assert await other.lanes.list() == []


@in_both_ways
async def test_a_turn_that_rolls_back_can_be_cancelled_at_every_await(quick: InTurn, other: InTurn, when: When) -> None:
    async def roll_back() -> None:
        try:
            async with quick.turn("k", state=list) as turn:
                turn.state.append(1)
                raise ValueError("mine")
        except ValueError:
            return

    async def attempt(number: int) -> None:
        try:
            await cancelled_at(number, when, roll_back())
        finally:
            assert (await until_status(other, "k", "idle", within_s=30)).state is None

    assert await at_every_await(attempt) >= 2
    await until_nothing_is_left(quick)


@in_both_ways
async def test_a_submit_can_be_cancelled_at_every_await(quick: InTurn, other: InTurn, when: When) -> None:
    @quick.handler("h", key="k", state=list, message_id="{id}")
    async def h(turn: Turn[list[Any]]) -> None:
        turn.state.append(turn.body["id"])

    numbers: list[int] = []

    async def attempt(number: int) -> None:
        numbers.append(number)
        await cancelled_at(number, when, quick.submit("h", {"id": number}))

    assert await at_every_await(attempt) >= 1
    async with working(quick):
        for number in numbers:  # whether it was accepted is not known: to submit it again is always right
            await (await quick.submit("h", {"id": number})).result(20)
    assert sorted((await other.lanes.inspect("k")).state) == numbers
    await until_nothing_is_left(quick)
    assert await other.lanes.list() == []


@in_both_ways
async def test_waiting_for_a_result_can_be_cancelled_at_every_await(quick: InTurn, other: InTurn, when: When) -> None:
    @quick.handler("h", key="k", message_id="{id}")
    async def h(turn: Turn[Any]) -> Any:
        return turn.body["id"]

    async def attempt(number: int) -> None:
        receipt = await quick.submit("h", {"id": number})
        waiting = apart(cancelled_at(number, when, receipt.result(20)))
        await asyncio.sleep(0)
        async with working(quick):
            try:
                assert await waiting == number
            finally:
                assert await receipt.result(20) == number

    assert await at_every_await(attempt) >= 1
    await until_nothing_is_left(quick)


@in_both_ways
async def test_a_worker_can_be_cancelled_at_every_await_and_hands_back_what_it_had(
    quick: InTurn, other: InTurn, when: When
) -> None:
    @quick.handler("h", key="k", state=list)
    async def h(turn: Turn[list[int]]) -> int:
        turn.state.append(turn.attempt)
        await asyncio.sleep(0.001)
        return turn.attempt

    for number in range(1, 16):  # more than there are until it waits for work
        before = len((await other.lanes.inspect("k")).state or [])
        receipt = await quick.submit("h", 1)
        task = asyncio.create_task(cancelled_at(number, when, quick.run(grace=5)))
        done, _ = await asyncio.wait({task}, timeout=0.1)
        if not done:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        info = await until_status(other, "k", "idle", "ready", within_s=30)
        assert info.waiting == 0 or info.messages[0].attempts == 0
        async with working(quick):
            assert await receipt.result(20) == 1, "the attempt that was cut off does not count"
        assert len((await other.lanes.inspect("k")).state) == before + 1
    await until_nothing_is_left(quick)


async def test_after_all_that_the_heartbeat_rests(
    quick: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "REST_AFTER_S", 0.05)
    async with other.turn("k"):
        waiting = apart(count_up(quick, 1))
        await until_waiting(other, "k", 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    async def rests() -> bool:
        return quick.process.heartbeat.is_resting

    await until(rests, 40)


async def test_a_worker_that_is_cancelled_while_its_commit_is_answered_keeps_no_message(
    app: InTurn, other: InTurn
) -> None:
    """The commit gives it the next message of the lane, and nobody is there any more to take it."""

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[int]]) -> int:
        turn.state.append(turn.body)
        return turn.attempt

    store, commit = app.process.store, app.process.store.commit
    receipts = [await app.submit("h", n) for n in (1, 2, 3)]
    async with working(app) as worker:

        async def cancelled(effects: Commit) -> Ended:
            ended = await commit(effects)
            assert ended.next is not None
            store.commit = commit  # type: ignore[method-assign]
            worker.cancel()
            await asyncio.sleep(5)
            return ended

        store.commit = cancelled  # type: ignore[assignment,method-assign]
        with contextlib.suppress(asyncio.CancelledError):
            await worker
    info = await until_status(other, "k", "ready")
    assert info.state == [1]
    assert [(message.body, message.attempts) for message in info.messages] == [(2, 0), (3, 0)]
    async with working(app):
        assert [await receipt.result(20) for receipt in receipts] == [1, 1, 1]


async def test_a_claim_that_was_answered_to_nobody_is_given_back(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k:{k}")
    async def h(turn: Turn[Any]) -> int:
        return turn.attempt

    receipts = [await app.submit("h", {"k": k}) for k in range(3)]
    store, claim = app.process.store, app.process.store.claim
    async with working(app) as worker:

        async def cancelled(call: str, can: Any, count: int, partition: int = 0) -> Claimed:
            claimed = await claim(call, can, count, partition)
            store.claim = claim  # type: ignore[method-assign]
            worker.cancel()
            await asyncio.sleep(5)
            return claimed

        store.claim = cancelled  # type: ignore[method-assign]
        with contextlib.suppress(asyncio.CancelledError):
            await worker
    for k in range(3):
        info = await until_status(other, f"k:{k}", "ready")
        assert info.messages[0].attempts == 0
    async with working(app):
        assert [await receipt.result(20) for receipt in receipts] == [1, 1, 1]
