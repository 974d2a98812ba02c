"""What users test their handlers with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inturn import HandlerFailed, InTurn, LeaseLost, Retry, SettingsError, Stop, Turn
from inturn.errors import OwnLane
from inturn.settings import Settings
from inturn.testing import MEMORY_URL, ManualClock, Ran, app_for_tests, drain


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(clock: ManualClock) -> AsyncIterator[InTurn]:
    async with app_for_tests(clock) as app:
        yield app


@pytest.fixture
async def any_app(store_url: str, namespace: str) -> AsyncIterator[InTurn]:
    async with InTurn(store_url, namespace=namespace) as app:
        yield app


def told(happened: list[Ran]) -> list[tuple[str, str, str, Any]]:
    return [(ran.key, ran.handler, ran.outcome, ran.result) for ran in happened]


def add_shop(app: InTurn) -> None:
    @app.handler("order", key="user:{user}", message_id="{id}", state=dict)
    async def order(turn: Turn[dict[str, int]]) -> int:
        turn.state["orders"] = turn.state.get("orders", 0) + 1
        turn.send("mail", {"orders": turn.state["orders"]})
        return turn.state["orders"]

    @app.handler("mail")
    def mail(turn: Turn[Any]) -> str:
        return f"mail {turn.body['orders']}"


# -- drain -----------------------------------------------------------------------------------------------------------


async def test_drain_runs_what_is_ready_and_what_that_sends(any_app: InTurn) -> None:
    add_shop(any_app)
    receipts = [await any_app.submit("order", {"user": 7, "id": number}) for number in (1, 2)]
    happened = await drain(any_app)
    assert [ran for ran in told(happened) if ran[1] == "order"] == [
        ("user:7", "order", "committed", 1),
        ("user:7", "order", "committed", 2),
    ]
    assert [ran for ran in told(happened) if ran[1] == "mail"] == [
        ("user:7>mail", "mail", "committed", "mail 1"),
        ("user:7>mail", "mail", "committed", "mail 2"),
    ]
    assert [ran.id for ran in happened][:1] == ["1"]
    assert [await receipt.result() for receipt in receipts] == [1, 2]
    assert await drain(any_app) == []


async def test_drain_brings_sends_to_other_partitions(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(partitions=4)
    async with InTurn(redis_url, namespace=namespace, settings=settings) as app:
        # who brings them by and by is slower than the drain here
        monkeypatch.setattr(app.runtime, "bring", lambda key, sends: None)

        @app.handler("hop")
        async def hop(turn: Turn[Any]) -> int:
            if turn.body < 12:
                turn.send("hop", turn.body + 1, key=f"place {turn.body + 1}")
            return int(turn.body)

        await app.submit("hop", 0, key="place 0")
        assert [ran.result for ran in await drain(app)] == list(range(13))


async def test_the_order_is_the_same_every_time() -> None:
    runs = []
    for _ in range(3):
        async with app_for_tests(ManualClock()) as app:
            add_shop(app)
            for number in range(20):
                await app.submit("order", {"user": number % 3, "id": number})
            runs.append([(ran.key, ran.id, ran.outcome, ran.result) for ran in await drain(app)])
    assert len(runs[0]) == 40
    assert runs[0] == runs[1] == runs[2]


async def test_a_retry_waits_for_the_clock(app: InTurn, clock: ManualClock) -> None:
    @app.handler("flaky", key="k", attempts=3)
    async def flaky(turn: Turn[Any]) -> str:
        if turn.attempt == 1:
            raise Retry("not yet", after=30)
        return "at last"

    await app.submit("flaky", None)
    (first,) = await drain(app)
    assert (first.outcome, first.attempt, first.retry_in) == ("retry", 1, timedelta(seconds=30))
    assert isinstance(first.error, Retry)
    clock.advance(29.9)
    assert await drain(app) == []
    clock.advance(timedelta(seconds=0.1))
    (second,) = await drain(app)
    assert (second.outcome, second.attempt, second.result, second.error) == ("committed", 2, "at last", None)


async def test_a_message_dies_and_its_lane_goes_on(any_app: InTurn) -> None:
    @any_app.handler("strict", key="k", message_id="{id}")
    def strict(turn: Turn[Any]) -> str:
        if turn.body["id"] == "bad":
            raise Stop("never")
        return "good"

    await any_app.submit("strict", {"id": "bad"})
    await any_app.submit("strict", {"id": "good"})
    bad, good = await drain(any_app)
    assert (bad.id, bad.outcome, str(bad.error)) == ("bad", "dead", "never")
    assert (good.id, good.outcome, good.result) == ("good", "committed", "good")
    assert [letter.id for letter in await any_app.dead_letters.list()] == ["bad"]


async def test_a_parked_lane_is_told(any_app: InTurn) -> None:
    @any_app.handler("careful", key="k", on_failure="park", attempts=1)
    async def careful(turn: Turn[Any]) -> None:
        raise KeyError("missing")

    await any_app.submit("careful", None)
    (ran,) = await drain(any_app)
    assert (ran.outcome, type(ran.error)) == ("park", KeyError)
    assert await drain(any_app) == []
    await any_app.lanes.resume("k")
    assert [ran.outcome for ran in await drain(any_app)] == ["park"]


async def test_a_state_that_does_not_fit_is_told(any_app: InTurn) -> None:
    @any_app.handler("old", key="k", state=list)
    async def old(turn: Turn[list[int]]) -> None:
        turn.state.append(1)

    @any_app.handler("new", key="k", state=dict)
    async def new(turn: Turn[dict[str, int]]) -> None:
        raise AssertionError("it must not be called")

    await any_app.submit("old", None)
    await any_app.submit("new", None)
    old_ran, new_ran = await drain(any_app)
    assert old_ran.outcome == "committed"
    assert new_ran.outcome == "park"
    assert "does not fit" in str(new_ran.error)


async def test_a_result_that_cannot_be_written_is_a_failure(any_app: InTurn) -> None:
    @any_app.handler("odd", key="k", on_failure="skip")
    async def odd(turn: Turn[Any]) -> object:
        return object()

    await any_app.submit("odd", None)
    (ran,) = await drain(any_app)
    assert ran.outcome == "dead"
    assert isinstance(ran.error, HandlerFailed)
    assert "BadMessage" in str(ran.error)


async def test_a_cleared_lane_is_lost_to_its_turn(any_app: InTurn) -> None:
    @any_app.handler("clearing", key="k", attempts=1)
    async def clearing(turn: Turn[Any]) -> None:
        await any_app.lanes.clear("k")
        await asyncio.Event().wait()

    await any_app.submit("clearing", None)
    (ran,) = await drain(any_app)
    assert ran.outcome == "lost"
    assert isinstance(ran.error, LeaseLost)
    assert await drain(any_app) == []


async def test_a_commit_that_was_refused_is_lost_too(any_app: InTurn) -> None:
    @any_app.handler("clearing", key="k")
    async def clearing(turn: Turn[Any]) -> str:
        store = any_app.runtime.process.store
        await store.clear("k")
        return "for nothing"

    await any_app.submit("clearing", None)
    with pytest.raises(LeaseLost):
        await drain(any_app, raise_errors=True)


async def test_a_handler_that_takes_too_long_has_failed(any_app: InTurn) -> None:
    @any_app.handler("slow", key="k", time_limit=0.2, on_failure="skip")
    async def slow(turn: Turn[Any]) -> None:
        await asyncio.Event().wait()

    await any_app.submit("slow", None)
    (ran,) = await drain(any_app)
    assert ran.outcome == "dead"
    assert "HandlerTimeout" in str(ran.error)


async def test_errors_are_raised_when_asked(app: InTurn, clock: ManualClock) -> None:
    @app.handler("broken", key="k", attempts=2)
    async def broken(turn: Turn[Any]) -> None:
        assert turn.body == 5, "my assertion"

    await app.submit("broken", 4)
    with pytest.raises(AssertionError, match="my assertion"):
        await drain(app, raise_errors=True)
    clock.advance(timedelta(hours=1))
    (ran,) = await drain(app)
    assert (ran.outcome, ran.attempt) == ("dead", 2)


async def test_what_a_handler_says_on_purpose_is_not_raised(app: InTurn) -> None:
    @app.handler("stops", key="k")
    async def stops(turn: Turn[Any]) -> None:
        raise Stop

    await app.submit("stops", None)
    assert [ran.outcome for ran in await drain(app, raise_errors=True)] == ["dead"]


async def test_a_circle_of_sends_ends_at_the_limit(any_app: InTurn) -> None:
    @any_app.handler("round", key="k")
    async def round_and_round(turn: Turn[Any]) -> None:
        turn.send("round", None, key="k")

    await any_app.submit("round", None)
    with pytest.raises(RuntimeError, match="20 turns were taken, and more is ready"):
        await drain(any_app, limit=20)
    lane = await any_app.lanes.inspect("k")
    assert (lane.status, lane.waiting, lane.messages[0].attempts) == ("ready", 1, 0), "it was handed back untouched"
    with pytest.raises(RuntimeError, match="1 turns were taken"):
        await drain(any_app, limit=1)


async def test_exactly_as_many_turns_as_the_limit_are_fine(app: InTurn) -> None:
    add_shop(app)
    await app.submit("order", {"user": 1, "id": 1})
    assert len(await drain(app, limit=2)) == 2


async def test_drain_is_one_at_a_time(app: InTurn) -> None:
    seen: list[BaseException] = []

    @app.handler("inner", key="k")
    async def inner(turn: Turn[Any]) -> None:
        try:
            await drain(app)
        except RuntimeError as error:
            seen.append(error)

    await app.submit("inner", None)
    await drain(app)
    assert "already being drained" in str(seen[0])
    assert await drain(app) == []


async def test_waiting_for_ones_own_lane_is_refused_here_too(app: InTurn) -> None:
    @app.handler("selfish", key="k", on_failure="skip")
    async def selfish(turn: Turn[Any]) -> None:
        receipt = await app.submit("selfish", None)
        await receipt.result()

    await app.submit("selfish", None)
    with pytest.raises(OwnLane):
        await drain(app, raise_errors=True)


async def test_no_worker_is_left_behind(any_app: InTurn) -> None:
    add_shop(any_app)
    await drain(any_app)
    await any_app.submit("order", {"user": 1, "id": 1})
    assert [lane.is_unhandled for lane in await any_app.lanes.list()] == [True]
    assert not any_app.runtime.workers


async def test_a_handler_is_as_it_was_after_a_drain(app: InTurn) -> None:
    add_shop(app)
    before = dict(app.runtime.handlers)
    await app.submit("order", {"user": 1, "id": 1})
    await drain(app)
    assert app.runtime.handlers == before


# -- the app and its clock -------------------------------------------------------------------------------------------


async def test_an_app_like_another_has_its_handlers_and_a_store_of_its_own(sqlite_url: str) -> None:
    async with InTurn(sqlite_url) as real:
        add_shop(real)
        async with app_for_tests(like=real) as twin:
            await twin.submit("order", {"user": 1, "id": 1})
            assert [ran.outcome for ran in await drain(twin)] == ["committed", "committed"]
        assert (await real.lanes.inspect("user:1")).status == "idle"


async def test_the_environment_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("INTURN_DEDUP_WINDOW", "7")
    async with app_for_tests() as app:
        assert app.settings.dedup_window == 300


async def test_a_state_expires_by_the_clock(app: InTurn, clock: ManualClock) -> None:
    add_shop(app)
    await app.submit("order", {"user": 1, "id": 1})
    await drain(app)
    assert (await app.lanes.inspect("user:1")).state == {"orders": 1}
    assert (await app.submit("order", {"user": 1, "id": 1})).is_duplicate
    clock.advance(timedelta(minutes=6))
    assert not (await app.submit("order", {"user": 1, "id": 1})).is_duplicate
    await drain(app)
    clock.advance(timedelta(hours=25))
    assert (await app.lanes.inspect("user:1")).state is None


def test_the_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(datetime(2031, 5, 4, tzinfo=UTC))
    assert clock.read_us() == clock.read_us() == round(datetime(2031, 5, 4, tzinfo=UTC).timestamp() * 1e6)
    clock.advance(1.5)
    clock.advance(timedelta(days=1))
    assert clock.now == datetime(2031, 5, 5, 0, 0, 1, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("bad", [-1, float("nan"), "soon", timedelta(seconds=-1)])
def test_time_does_not_run_backwards(bad: Any) -> None:
    clock = ManualClock()
    with pytest.raises((ValueError, TypeError), match="by="):
        clock.advance(bad)


def test_a_clock_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        ManualClock(datetime(2031, 5, 4))


def test_redis_has_its_own_clock() -> None:
    with pytest.raises(SettingsError, match="only sqlite"):
        InTurn("redis://127.0.0.1:1/0", wall=ManualClock().read_us)
    assert MEMORY_URL.startswith("sqlite:")


async def test_nothing_is_left_running(clock: ManualClock) -> None:
    before = set(threading.enumerate())
    async with app_for_tests(clock) as app:
        add_shop(app)
        await app.submit("order", {"user": 1, "id": 1})
        await drain(app)
    left = [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("asyncio_")]
    assert left == []
