"""An inline turn that does not begin or does not commit: duplicates, busy lanes, limits, bad input."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import (
    BadMessage,
    DuplicateMessage,
    InTurn,
    LaneBusy,
    LaneTimeout,
    LeaseLost,
    MailboxFull,
    Turn,
)
from inturn.errors import HandlerTimeout, OwnLane, StateMismatch, TooLarge
from tests.lanes.workbench import SLACK_S, Gate, apart, counted, put, working
from tests.waiting import until_status, until_waiting


async def test_a_duplicate_of_a_finished_turn_raises_with_its_first_result(app: InTurn, other: InTurn) -> None:
    async with app.turn("k", message_id="m") as turn:
        turn.result = {"answer": 42}
    with pytest.raises(DuplicateMessage, match="'m'") as duplicate:
        async with other.turn("k", message_id="m"):
            raise AssertionError("it ran twice")
    assert duplicate.value.receipt.is_duplicate
    assert await duplicate.value.receipt.result(1) == {"answer": 42}


async def test_a_duplicate_of_a_running_or_waiting_turn_can_wait_for_its_result(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    async def first() -> None:
        async with app.turn("k", message_id="m") as turn:
            await gate.pass_through()
            turn.result = "first"

    async with app.turn("k"):
        running = apart(first())
        await until_waiting(app, "k", 1)
        with pytest.raises(DuplicateMessage) as waiting:
            async with other.turn("k", message_id="m"):
                raise AssertionError("unreachable")
    await gate.reached.wait()
    with pytest.raises(DuplicateMessage) as while_running:
        async with other.turn("k", message_id="m"):
            raise AssertionError("unreachable")
    results = [apart(each.value.receipt.result(20)) for each in (waiting, while_running)]
    gate.opened.set()
    assert await asyncio.gather(*results) == ["first", "first"]
    await running


async def test_a_turn_that_was_rolled_back_is_not_a_duplicate(app: InTurn) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with app.turn("k", message_id="m"):
            raise ValueError("mine")
    async with app.turn("k", message_id="m") as turn:
        turn.result = "second"
    with pytest.raises(DuplicateMessage) as duplicate:
        async with app.turn("k", message_id="m"):
            raise AssertionError("it ran twice")
    assert await duplicate.value.receipt.result(1) == "second"


async def test_reject_says_who_holds_the_lane(app: InTurn, other: InTurn) -> None:
    async with app.turn("k"):
        with pytest.raises(LaneBusy, match="held by") as busy:
            async with other.turn("k", busy="reject"):
                raise AssertionError("unreachable")
        assert busy.value.holder == "{}:{}".format(*app.process.store.process.rsplit(":", 2)[:2])
    async with other.turn("k", busy="reject"):
        pass


@pytest.mark.parametrize("wait_s", [0, 0.1])
async def test_a_caller_waits_up_to_a_time_and_leaves_no_place_behind(
    app: InTurn, other: InTurn, wait_s: float
) -> None:
    async def ask() -> None:
        async with other.turn("k", wait=wait_s):
            raise AssertionError("unreachable")

    async with app.turn("k"):
        with pytest.raises(LaneTimeout) as timeout:
            await apart(ask())  # inside of the turn it would be a circle, which is found when the machine stalls
        assert wait_s <= timeout.value.waited_s < wait_s + SLACK_S
        await until_waiting(app, "k", 0)


async def test_a_full_mailbox_refuses_an_inline_caller(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    async with app.turn("k"):
        await app.submit("h", 1)
        with pytest.raises(MailboxFull):
            async with other.turn("k", max_waiting=1):
                raise AssertionError("unreachable")


async def test_a_nested_turn_of_the_same_key_is_refused_at_once_and_of_another_is_fine(app: InTurn) -> None:
    async with app.turn("a"):
        with pytest.raises(OwnLane):
            async with app.turn("a", wait=5):
                raise AssertionError("unreachable")
        async with app.turn("b"):
            with pytest.raises(OwnLane):
                async with app.turn("a"):
                    raise AssertionError("unreachable")
    async with app.turn("a"):
        pass


async def test_awaiting_a_result_of_ones_own_lane_is_refused_and_after_the_turn_it_is_not(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> int:
        return 1

    async with working(app):
        async with app.turn("k"):
            receipt = await app.submit("h", 1)
            with pytest.raises(OwnLane):
                await receipt.result(20)
        assert await receipt.result(20) == 1


async def test_a_turn_is_entered_once(app: InTurn) -> None:
    turn = app.turn("k")
    async with turn:
        pass
    with pytest.raises(RuntimeError, match="entered only once"):
        async with turn:
            raise AssertionError("unreachable")


async def test_a_state_that_does_not_fit_parks_the_lane_and_is_not_overwritten(app: InTurn) -> None:
    await put(app, "k", {"n": "one"})
    with pytest.raises(StateMismatch, match=r"state of lane 'k' does not fit its schema: n: .*inturn lanes resume k"):
        async with app.turn("k", state=dict[str, int]):
            raise AssertionError("unreachable")
    lane = await until_status(app, "k", "parked")
    assert (lane.state, lane.version) == ({"n": "one"}, 1)
    with pytest.raises(LaneBusy, match="it is parked"):
        async with app.turn("k", busy="reject"):
            raise AssertionError("unreachable")
    assert await app.lanes.resume("k")
    async with app.turn("k", state=dict[str, str]) as turn:
        assert turn.state == {"n": "one"}


@pytest.mark.parametrize(
    ("state", "result", "error", "says"),
    [
        ({"x": object()}, None, BadMessage, "the state cannot be written as JSON"),
        ({"x": "y" * 1_100_000}, None, TooLarge, "the state is .* at most 1048576"),
        ({"x": 1}, object(), BadMessage, "the result cannot be written as JSON"),
        ({"x": 1}, "y" * 300_000, TooLarge, "the result is .* at most 262144"),
    ],
)
async def test_what_cannot_be_written_raises_and_nothing_is(
    app: InTurn, state: Any, result: Any, error: type[Exception], says: str
) -> None:
    await put(app, "k", {"x": 0})
    with pytest.raises(error, match=says):
        async with app.turn("k", state=dict, message_id="m") as turn:
            turn.state, turn.result = state, result
    lane = await until_status(app, "k", "idle")
    assert (lane.state, lane.version) == ({"x": 0}, 1)
    async with app.turn("k", message_id="m"):
        pass


async def test_a_body_that_outlasts_its_time_limit_is_cancelled_and_writes_nothing(app: InTurn) -> None:
    with pytest.raises(HandlerTimeout, match=r"time limit of 0\.2 s"):
        async with app.turn("k", time_limit=0.2, state=list) as turn:
            turn.state.append(1)
            await asyncio.sleep(30)
    lane = await until_status(app, "k", "idle")
    assert lane.state is None


async def test_a_body_that_swallows_its_cancellation_cannot_commit(app: InTurn) -> None:
    with pytest.raises(HandlerTimeout):
        async with app.turn("k", time_limit=0.2, state=list) as turn:
            turn.state.append(1)
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                assert turn.lost
    assert (await until_status(app, "k", "idle")).state is None


async def test_a_turn_that_was_cleared_away_cannot_commit(app: InTurn, other: InTurn) -> None:
    before = counted("inturn_turns_total", outcome="lost")
    with pytest.raises(LeaseLost):
        async with app.turn("k", state=list) as turn:
            turn.state.append(1)
            await other.lanes.clear("k")
    assert (await app.lanes.inspect("k")).state is None
    assert counted("inturn_turns_total", outcome="lost") == before + 1


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"key": "a>b"}, BadMessage, "key='a>b': must not contain '>'"),
        ({"key": ""}, ValueError, "key='': must not be empty"),
        ({"key": 7}, TypeError, "key=7: must be text"),
        ({"message_id": ""}, ValueError, "message_id='': must not be empty"),
        ({"busy": "drop"}, ValueError, "busy='drop': must be one of 'wait', 'queue', 'reject'"),
        ({"wait": -1}, ValueError, "wait=-1: must be 0 seconds or more"),
        ({"ttl": 0}, ValueError, "ttl=0"),
        ({"time_limit": float("nan")}, ValueError, "time_limit=nan"),
        ({"state_ttl": "1"}, TypeError, "state_ttl='1'"),
        ({"dedup_window": 8 * 86400}, ValueError, "dedup_window=691200: at most 604800 seconds"),
        (
            {"dedup_window": 1},
            ValueError,
            "dedup_window=1: must be at least 40 seconds, twice the timeout of",
        ),
        ({"state": {}}, TypeError, "state="),
        ({"max_waiting": 0}, ValueError, "max_waiting=0"),
    ],
)
async def test_bad_input_is_named(app: InTurn, options: dict[str, Any], error: type[Exception], says: str) -> None:
    arguments = {"key": "k", **options}
    with pytest.raises(error, match=says):
        app.turn(arguments.pop("key"), **arguments)


async def test_a_turn_whose_lease_is_gone_cannot_commit_whatever_became_of_the_lane(app: InTurn, other: InTurn) -> None:
    """Free but stopped; free with a message that waits for a worker."""

    @other.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    for is_paused in (True, False):
        with pytest.raises(LeaseLost):
            async with app.turn("k", state=list) as turn:
                turn.state.append("never")
                if is_paused:
                    await other.lanes.pause("k")
                else:
                    await other.submit("h", 1)
                await other.process.store.leave("k", turn._lease.token, turn._ident, turn.fence)
        info = await other.lanes.inspect("k")
        assert info.state is None
        assert await other.lanes.clear("k") == (0 if is_paused else 1)
