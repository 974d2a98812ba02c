"""Order and failure: what holds back what, when a message is tried again, and what cannot happen after a lost lease."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from inturn import HandlerFailed, InTurn, LaneTimeout, Retry, Stop, Turn
from tests.lanes.workbench import Gate, counted, working
from tests.waiting import until, until_status

QUICK = (0.001, 0.01)


async def test_block_tries_a_message_again_before_the_next_one(app: InTurn) -> None:
    runs: list[Any] = []

    @app.handler("h", key="k", attempts=3, backoff=QUICK)
    async def h(turn: Turn[Any]) -> None:
        runs.append((turn.body, turn.attempt))
        if turn.body == 1 and turn.attempt < 3:
            raise ValueError("not yet")

    async with working(app):
        receipts = [await app.submit("h", n) for n in (1, 2)]
        for receipt in receipts:
            await receipt.result(20)
    assert runs == [(1, 1), (1, 2), (1, 3), (2, 1)]


async def test_after_the_last_attempt_the_lane_goes_on(app: InTurn) -> None:
    @app.handler("h", key="k", attempts=3, backoff=QUICK)
    async def h(turn: Turn[Any]) -> str:
        if turn.body == 1:
            raise ValueError(f"attempt {turn.attempt}")
        return "on"

    async with working(app):
        bad, good = [await app.submit("h", n) for n in (1, 2)]
        with pytest.raises(HandlerFailed, match="attempt 3") as failed:
            await bad.result(20)
        assert await good.result(20) == "on"
    assert [error["message"] for error in failed.value.errors] == ["attempt 1", "attempt 2", "attempt 3"]
    assert failed.value.attempts == 3


def written(record: logging.LogRecord) -> str:
    return logging.Formatter("%(message)s").format(record)


@pytest.mark.parametrize("is_async", [True, False])
async def test_each_failed_attempt_logs_its_traceback_once_and_it_begins_in_the_handler(
    app: InTurn, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    def look_up(name: str) -> None:
        raise KeyError(name)

    async def run_async(turn: Turn[Any]) -> None:
        look_up("ada")

    def run(turn: Turn[Any]) -> None:
        look_up("ada")

    app.handler("h", key="k", attempts=2, backoff=QUICK)(run_async if is_async else run)
    async with working(app):
        with pytest.raises(HandlerFailed) as failed:
            await (await app.submit("h", 1)).result(20)
    told = [written(record) for record in caplog.records if " how=" in record.getMessage()]
    assert [text.partition(" how=")[2].partition("\n")[0] for text in told] == [
        "retry: KeyError: 'ada'",
        "dead: KeyError: 'ada'",
    ]
    assert [text.count("Traceback (most recent call last):") for text in told] == [1, 1]
    assert all(text.endswith("KeyError: 'ada'") for text in told)
    for error in failed.value.errors:
        frames = [line.split()[-1] for line in str(error["traceback"]).splitlines() if line.startswith("  File ")]
        assert frames == ["run_async" if is_async else "run", "look_up"]


async def test_an_attempt_that_a_handler_gives_up_by_itself_logs_no_traceback_unless_it_has_a_cause(
    app: InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    @app.handler("h", key="k", attempts=2)
    async def h(turn: Turn[Any]) -> None:
        if turn.attempt == 1:
            raise Retry("the model is busy", after=0)
        raise Stop("it cannot be read") from ValueError("in line 3")

    async with working(app):
        with pytest.raises(HandlerFailed):
            await (await app.submit("h", 1)).result(20)
    first, second = [written(record) for record in caplog.records if " how=" in record.getMessage()]
    assert first.endswith("how=retry: Retry: the model is busy")
    assert second.count("ValueError: in line 3\n") == 1
    assert second.count("Traceback") == 1


async def test_skip_is_a_dead_letter_at_once(app: InTurn) -> None:
    runs: list[Any] = []

    @app.handler("h", key="k", on_failure="skip", attempts=5)
    async def h(turn: Turn[Any]) -> None:
        runs.append(turn.body)
        if turn.body == 1:
            raise ValueError("no")

    async with working(app):
        bad, good = [await app.submit("h", n) for n in (1, 2)]
        with pytest.raises(HandlerFailed):
            await bad.result(20)
        await good.result(20)
    assert runs == [1, 2]


async def test_park_stops_the_lane_until_someone_resumes_it(app: InTurn, caplog: pytest.LogCaptureFixture) -> None:
    runs: list[Any] = []
    before = counted("inturn_turns_total", outcome="park")

    @app.handler("h", key="k:{k}", on_failure="park", attempts=2, backoff=QUICK)
    async def h(turn: Turn[Any]) -> int:
        runs.append((turn.body["n"], turn.attempt))
        if turn.body["n"] == 1 and len(runs) < 3:
            raise ValueError("broken")
        return int(turn.body["n"])

    async with working(app):
        first, second = [await app.submit("h", {"k": 1, "n": n}) for n in (1, 2)]
        info = await until_status(app, "k:1", "parked")
        assert info.why == "ValueError: broken"
        assert info.waiting == 2
        assert [error["message"] for error in info.messages[0].errors] == ["broken", "broken"]
        assert await (await app.submit("h", {"k": 2, "n": 9})).result(20) == 9, "other lanes go on"
        runs.remove((9, 1))
        assert await app.lanes.resume("k:1")
        assert (await first.result(20), await second.result(20)) == (1, 2)
        assert not await app.lanes.resume("k:1")
    assert runs == [(1, 1), (1, 2), (1, 1), (2, 1)]
    assert await app.dead_letters.list() == []
    assert counted("inturn_turns_total", outcome="park") == before + 1
    assert "fail key=k:1 handler=h" in caplog.text
    assert "how=park" in caplog.text


async def test_retry_waits_as_long_as_it_says_and_stop_does_not(app: InTurn) -> None:
    at: list[float] = []

    @app.handler("h", key="k", backoff=(50, 60))
    async def h(turn: Turn[Any]) -> None:
        at.append(time.monotonic())
        if turn.attempt == 1:
            raise Retry("busy there", after=4)  # we see it wait, however busy the machine is
        raise Stop("enough")

    async with working(app):
        receipt = await app.submit("h", 1)
        info = await until_status(app, "k", "waiting")
        assert 0 < info.messages[0].due_in_s <= 4
        with pytest.raises(HandlerFailed, match="Stop: enough") as failed:
            await receipt.result(20)
    assert 3.99 <= at[1] - at[0] < 14
    assert [error["type"] for error in failed.value.errors] == ["Retry", "Stop"]


async def test_waiting_for_a_retry_holds_no_worker(app: InTurn) -> None:
    @app.handler("h", key="k:{k}")
    async def h(turn: Turn[Any]) -> int:
        if turn.attempt == 1 and (after := turn.body.get("after")):
            raise Retry(after=after)
        return turn.attempt

    async with working(app, concurrency=1):
        await app.submit("h", {"k": 1, "after": 60})
        await until_status(app, "k:1", "waiting")
        soon = await app.submit("h", {"k": 0, "after": 0.5})
        for n in range(2, 12):
            assert await (await app.submit("h", {"k": n})).result(20) == 1
        assert (await app.lanes.inspect("k:1")).status == "waiting"
        assert await soon.result(20) == 2


async def test_the_time_limit_counts_as_an_attempt_and_the_lane_goes_on(app: InTurn) -> None:
    begun: list[int] = []
    cancelled: list[int] = []

    @app.handler("h", key="k", time_limit=3, attempts=2, backoff=QUICK, state=list)
    async def h(turn: Turn[list[int]]) -> str:
        turn.state.append(turn.body)
        if turn.body == 1:
            begun.append(turn.attempt)
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(turn.attempt)
                raise
        return "on"

    async with working(app):
        slow, next_one = [await app.submit("h", n) for n in (1, 2)]
        with pytest.raises(HandlerFailed, match=r"HandlerTimeout: .*its time limit of 3 s") as failed:
            await slow.result(20)
        assert await next_one.result(20) == "on"
    assert failed.value.attempts == 2
    # an attempt whose claim was answered after its limit counts, too, and has never begun
    assert begun
    assert cancelled == begun
    assert (await app.lanes.inspect("k")).state == [2]


async def test_a_handler_that_swallows_its_cancellation_cannot_commit(app: InTurn) -> None:
    begun: list[int] = []
    swallowed: list[int] = []

    @app.handler("h", key="k", time_limit=3, attempts=2, backoff=QUICK, state=list)
    async def h(turn: Turn[list[int]]) -> None:
        begun.append(turn.attempt)
        turn.state.append(turn.attempt)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            swallowed.append(turn.attempt)

    async with working(app):
        with pytest.raises(HandlerFailed, match="HandlerTimeout"):
            await (await app.submit("h", 1)).result(20)
    assert begun
    assert swallowed == begun
    assert (await app.lanes.inspect("k")).state is None


async def test_a_turn_whose_lane_was_cleared_is_cancelled_and_writes_nothing(app: InTurn, other: InTurn) -> None:
    gate, ended = Gate(), asyncio.Event()
    before = counted("inturn_turns_total", outcome="lost")

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[int]]) -> None:
        turn.state.append(1)
        try:
            await gate.pass_through()
        finally:
            ended.set()

    async with working(app):
        await app.submit("h", 1)
        await gate.reached.wait()
        assert await other.lanes.clear("k") == 1
        async with asyncio.timeout(20):
            await ended.wait()

        async def is_counted() -> bool:
            return counted("inturn_turns_total", outcome="lost") == before + 1

        await until(is_counted)
    lane = await app.lanes.inspect("k")
    assert (lane.status, lane.state) == ("idle", None)


async def test_a_synchronous_handler_runs_in_a_thread_and_does_not_block_the_others(app: InTurn) -> None:
    meet = threading.Barrier(2, timeout=20)

    @app.handler("h", key="k:{k}", state=list)
    def h(turn: Turn[list[int]]) -> bool:
        meet.wait()  # only two that run at once get past it
        turn.state.append(turn.body["k"])
        return threading.current_thread() is threading.main_thread()

    async with working(app):
        receipts = [await app.submit("h", {"k": k}) for k in (1, 2)]
        assert [await receipt.result(20) for receipt in receipts] == [False, False]
    assert (await app.lanes.inspect("k:2")).state == [2]


async def test_a_synchronous_handler_that_outlasts_its_limit_cannot_commit(app: InTurn) -> None:
    go_on = threading.Event()

    @app.handler("h", key="k", time_limit=0.2, attempts=1, state=list)
    def h(turn: Turn[list[int]]) -> None:
        turn.state.append(1)
        go_on.wait(60)

    async with working(app):
        try:
            with pytest.raises(HandlerFailed, match="HandlerTimeout"):
                await (await app.submit("h", 1)).result(20)
        finally:
            go_on.set()
    assert (await app.lanes.inspect("k")).state is None


async def test_a_handler_whose_own_task_was_cancelled_has_failed(app: InTurn) -> None:
    """Nobody stops the worker: a CancelledError out of the handler is an error like any other, and is counted."""
    runs: list[int] = []

    @app.handler("h", key="k", attempts=2, backoff=QUICK)
    async def h(turn: Turn[Any]) -> None:
        runs.append(turn.attempt)
        task = asyncio.create_task(asyncio.sleep(30))
        task.cancel()
        await task

    async with working(app):
        with pytest.raises(HandlerFailed, match="CancelledError"):
            await (await app.submit("h", 1)).result(20)
    assert runs == [1, 2]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error", [ValueError("\ud800"), ValueError("x" * 1_000_000), ValueError('"\\\n\0'), Unspeakable()], ids=range(4)
)
async def test_whatever_a_handler_raises_is_kept_and_the_lane_goes_on(app: InTurn, error: Exception) -> None:
    @app.handler("h", key="k", attempts=1)
    async def h(turn: Turn[Any]) -> str:
        if turn.body == 1:
            raise error
        return "on"

    async with working(app):
        bad, good = [await app.submit("h", n) for n in (1, 2)]
        with pytest.raises(HandlerFailed):
            await bad.result(20)
        assert await good.result(20) == "on"
    (letter,) = await app.dead_letters.list()
    assert letter.errors[-1]["type"] == type(error).__name__
    assert len(str(letter.errors)) < 10_000


async def test_every_transition_of_a_turn_is_logged_and_counted(app: InTurn, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = ("committed", "retry", "dead")
    before = {name: counted("inturn_turns_total", outcome=name) for name in outcomes}
    took, waited = counted("inturn_turn_seconds_count"), counted("inturn_turn_wait_seconds_count")

    @app.handler("h", key="k", attempts=2, backoff=QUICK)
    async def h(turn: Turn[Any]) -> None:
        if turn.body == 1 or turn.attempt == 1:
            raise ValueError("no")

    async with working(app):
        with pytest.raises(HandlerFailed):
            await (await app.submit("h", 1)).result(20)
        await (await app.submit("h", 2)).result(20)
    for line in (
        "begin key=k handler=h fence=", "attempt=1 how=retry: ValueError: no", "attempt=2 how=dead: ValueError: no",
        "commit key=k fence=",
    ):  # fmt: skip
        assert line in caplog.text
    now = {name: counted("inturn_turns_total", outcome=name) - before[name] for name in outcomes}
    assert now == {"committed": 1, "retry": 2, "dead": 1}
    assert counted("inturn_turn_seconds_count") == took + 1
    assert counted("inturn_turn_wait_seconds_count") == waited + 4


class Own(BaseException):
    pass


@pytest.mark.parametrize(
    "error",
    [BaseExceptionGroup("g", [asyncio.CancelledError()]), GeneratorExit(), Own("mine"), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_an_error_that_is_no_exception_counts_as_an_attempt_and_becomes_a_dead_letter(
    app: InTurn, error: BaseException, is_async: bool
) -> None:
    runs: list[int] = []

    def run(turn: Turn[Any]) -> str:
        runs.append(turn.attempt)
        if turn.body == "bad":
            raise error
        return "on"

    async def run_async(turn: Turn[Any]) -> str:
        return run(turn)

    app.handler("h", key="k", attempts=2, backoff=QUICK)(run_async if is_async else run)
    async with working(app):
        bad, good = await app.submit("h", "bad"), await app.submit("h", "good")
        with pytest.raises(HandlerFailed, match=type(error).__name__):
            await bad.result(20)
        assert await good.result(20) == "on"
    assert runs == [1, 2, 1]
    assert [letter.attempts for letter in await app.dead_letters.list()] == [2]


async def test_a_handler_that_makes_another_error_of_a_real_cancellation_is_handed_back(app: InTurn) -> None:
    gate, bodies = Gate(), ["first", "second"]

    @app.handler("h", key="k", attempts=1)
    async def h(turn: Turn[Any]) -> tuple[str, int]:
        if bodies.pop(0) == "second":
            return "done", turn.attempt
        try:
            await gate.pass_through()
        except asyncio.CancelledError as error:
            raise BaseExceptionGroup("of a task group", [error]) from error
        raise AssertionError("nobody opened the gate")

    receipt = await app.submit("h", 1)
    async with working(app, grace=0):
        await gate.reached.wait()
    info = await until_status(app, "k", "ready")
    assert (info.messages[0].attempts, await app.dead_letters.list()) == (0, [])
    async with working(app):
        assert await receipt.result(20) == ["done", 1]


async def test_a_handler_that_timed_out_at_another_lane_has_failed_and_its_own_message_did_not_time_out(
    app: InTurn, other: InTurn
) -> None:
    @app.handler("h", attempts=1)
    async def h(turn: Turn[Any]) -> None:
        async with app.turn("other", wait=0.05):
            pytest.fail("the other lane was free")

    async with other.turn("other"), working(app):
        receipt = await app.submit("h", 1, key="k")
        with pytest.raises(HandlerFailed, match="LaneTimeout") as failed:
            await receipt.result(20)
    assert not isinstance(failed.value, LaneTimeout | TimeoutError)
    assert failed.value.errors[-1]["type"] == "LaneTimeout"
