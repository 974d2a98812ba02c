"""Promises of turns that a review found broken."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pytest

from inturn import HandlerFailed, InTurn, LaneTimeout, LeaseLost, StateMismatch, Turn
from inturn.store.lane import Begun, Opening
from inturn.store.protocol import PLACE_LIVES_MS, Beat
from tests.lanes.conftest import Gate, apart, put, until, until_status, until_waiting, working

QUICK = (0.01, 0.01)


class Away:
    """Makes the first state of a lane, as long as the database that it asks is there. It is asked once beforehand."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0

    def __call__(self) -> dict[str, Any]:
        self.calls += 1
        if self.calls > 1:
            raise self.error
        return {}


class Picky(pydantic.BaseModel):
    """Its validator raises what pydantic does not make a ValidationError of."""

    v: int = 0

    @pydantic.field_validator("v")
    @classmethod
    def known(cls, v: int) -> int:
        return {0: 0}[v]


@pytest.mark.parametrize("error", [ConnectionError("away"), ValueError("no"), KeyboardInterrupt()], ids=repr)
async def test_a_first_state_that_cannot_be_made_raises_its_own_error_and_the_lane_is_free_at_once(
    app: InTurn, error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised:
        async with app.turn("k", state=dict, initial=Away(error)):
            pytest.fail("the turn has begun")
    assert raised.value is error
    async with app.turn("k", state=dict, wait=5) as turn:
        turn.state["a"] = 1
    info = await until_status(app, "k", "idle")
    assert (info.state, app.process.registry.holding) == ({"a": 1}, {})


async def test_a_first_state_that_a_worker_cannot_make_fails_the_message(app: InTurn) -> None:
    @app.handler("h", key="k", state=dict, initial=Away(ConnectionError("away")), attempts=2, backoff=QUICK)
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app):
        with pytest.raises(HandlerFailed, match=r"2 attempt\(s\): ConnectionError: away"):
            await (await app.submit("h", 1)).result(5)


async def test_a_stored_state_that_a_validator_trips_over_parks_the_lane_and_holds_nothing(app: InTurn) -> None:
    await put(app, "k", {"v": 7})
    with pytest.raises(StateMismatch, match="KeyError: 7"):
        async with app.turn("k", state=Picky):
            pytest.fail("the turn has begun")
    info = await until_status(app, "k", "parked")
    assert (info.state, info.running, app.process.registry.holding) == ({"v": 7}, None, {})
    await app.lanes.resume("k")
    async with app.turn("k", state=dict, wait=5) as turn:
        assert turn.state == {"v": 7}


async def test_inline_callers_that_wait_in_a_lane_that_is_cleared_queue_anew(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    async def hold() -> None:
        async with app.turn("k"):
            await gate.pass_through()

    async def wait(n: int) -> int:
        async with other.turn("k", state=list) as turn:
            turn.state.append(n)
        return n

    holding = apart(hold())
    await gate.reached.wait()
    waiting = [apart(wait(n)) for n in range(2)]
    await until_waiting(app, "k", 2)
    assert await app.lanes.clear("k") == 2
    async with asyncio.timeout(10):
        assert await asyncio.gather(*waiting) == [0, 1]
    with pytest.raises(LeaseLost, match="cleared"):
        await holding
    assert sorted((await app.lanes.inspect("k")).state) == [0, 1]


async def test_a_caller_asks_again_when_its_beat_was_so_long_on_its_way_that_its_place_may_be_gone(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the caller's own clock the beats came in time: only the store has seen that one was late."""
    store = other.process.store
    really_beat, really_begin = store.beat, store.begin
    asked: list[str] = []

    async def beat(*arguments: Any) -> Beat:
        return (await really_beat(*arguments))._replace(away_ms=PLACE_LIVES_MS + 200)

    async def begin(opening: Opening) -> Begun:
        asked.append(opening.token)
        return await really_begin(opening)

    monkeypatch.setattr(store, "begin", begin)

    async def wait() -> None:
        async with other.turn("k"):
            pass

    async with app.turn("k"):
        waiting = apart(wait())
        await until_waiting(app, "k", 1)
        before = len(asked)
        monkeypatch.setattr(store, "beat", beat)

        async def has_asked_again() -> bool:
            return len(asked) > before

        await until(has_asked_again)
        assert len(set(asked[before - 1 :])) == 1, "for the same place"
    async with asyncio.timeout(10):
        await waiting


async def test_a_turn_that_is_over_when_it_arrives_does_not_find_its_own_message_there(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, answers = app.process.store, [10_000.0]
    really_begin = store.begin

    async def begin(opening: Opening) -> Begun:
        answer = await really_begin(opening)
        return answer._replace(sent_at=answer.sent_at - answers.pop()) if answers else answer

    monkeypatch.setattr(store, "begin", begin)
    async with asyncio.timeout(5), app.turn("k", state=list, message_id="m") as turn:
        turn.state.append(turn.id)
    info = await app.lanes.inspect("k")
    assert (info.state, info.status, answers) == (["m"], "idle", [])


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
            await bad.result(5)
        assert await good.result(5) == "on"
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
        assert await receipt.result(5) == ["done", 1]


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
            await receipt.result(5)
    assert not isinstance(failed.value, LaneTimeout | TimeoutError)
    assert failed.value.errors[-1]["type"] == "LaneTimeout"


async def test_a_worker_ends_although_a_handler_swallows_its_cancellation(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message is handed back; what it does later cannot commit."""
    monkeypatch.setattr("inturn.lanes.worker.STUBBORN_S", 0.05)
    is_over = asyncio.Event()

    @app.handler("h", key="k", state=list)
    async def stubborn(turn: Turn[list[str]]) -> None:
        while not is_over.is_set():
            try:
                await is_over.wait()
            except asyncio.CancelledError:
                continue
        turn.state.append("stubborn")

    await app.submit("h", 1)
    async with working(app, grace=0):
        await until_status(app, "k", "running")
    info = await until_status(other, "k", "ready")
    assert (info.messages[0].attempts, info.state) == (0, None)
    is_over.set()
    await asyncio.sleep(0)
    assert (await other.lanes.inspect("k")).state is None
