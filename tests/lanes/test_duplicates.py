"""A message is applied once within its window, and whoever repeats it gets the first result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import DuplicateMessage, HandlerFailed, InTurn, Stop, Turn, content_id
from inturn.errors import ResultExpired
from tests.conftest import MakeApp
from tests.lanes.workbench import OVER_S, Gate, until_open, working
from tests.waiting import until, until_status


async def test_equal_ids_of_two_handlers_are_two_messages(app: InTurn) -> None:
    @app.handler("a", key="k")
    async def a(turn: Turn[Any]) -> str:
        return "a"

    @app.handler("b", key="k")
    async def b(turn: Turn[Any]) -> str:
        return "b"

    async with working(app):
        first, second = [await app.submit(name, None, message_id="1") for name in "ab"]
        assert (await first.result(20), await second.result(20)) == ("a", "b")


async def test_a_duplicate_of_a_finished_message_gets_the_first_result(app: InTurn, other: InTurn) -> None:
    runs = 0
    for each in (app, other):

        @each.handler("h", key="k", message_id="{id}")
        async def h(turn: Turn[Any]) -> int:
            nonlocal runs
            runs += 1
            return runs

    async with working(app):
        assert await (await app.submit("h", {"id": "m1"})).result(20) == 1
        again = await other.submit("h", {"id": "m1"})
        assert again.is_duplicate
        assert await again.result(20) == 1
        assert await (await app.submit("h", {"id": "m2"})).result(20) == 2
    assert runs == 2


async def test_a_duplicate_of_a_waiting_or_running_message_gets_its_receipt_and_its_result(app: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", message_id="{id}")
    async def h(turn: Turn[Any]) -> str:
        await gate.pass_through()
        return "once"

    first = await app.submit("h", {"id": 7})
    waiting = await app.submit("h", {"id": 7})
    async with working(app):
        await gate.reached.wait()
        running = await app.submit("h", {"id": "7"})
        assert [r.status for r in (first, waiting, running)] == ["accepted", "duplicate", "duplicate"]
        assert first.id == waiting.id == running.id == "7"
        gate.opened.set()
        assert await asyncio.gather(*(r.result(20) for r in (first, waiting, running))) == ["once"] * 3


async def test_the_window_of_a_handler_ends_and_then_the_message_runs_again(make_app: MakeApp) -> None:
    app = make_app(store_timeout=OVER_S)
    await until_open(app)

    @app.handler("h", key="k", message_id="{id}", dedup_window=2 * OVER_S, state=list)
    async def h(turn: Turn[list[int]]) -> int:
        turn.state.append(1)
        return len(turn.state)

    async with working(app):
        first = await app.submit("h", {"id": 1})
        assert await first.result(20) == 1
        assert (await app.submit("h", {"id": 1})).is_duplicate

        async def is_over() -> bool:
            try:
                await first.result(0)
            except ResultExpired as expired:
                return expired.message_id == "1"
            return False

        await until(is_over)
        assert await (await app.submit("h", {"id": 1})).result(20) == 2


async def test_a_content_id_is_made_of_the_key_and_the_text(app: InTurn) -> None:
    @app.handler("h", key="user:{user}", content_id="{text}")
    async def h(turn: Turn[Any]) -> str:
        return f"{turn.key} {turn.body['text']}"

    async with working(app):
        first = await app.submit("h", {"user": 1, "text": "hi"})
        assert first.id == content_id("user:1", "hi")
        await first.result(20)
        assert (await app.submit("h", {"user": 1, "text": "hi"})).is_duplicate
        assert not (await app.submit("h", {"user": 1, "text": "hi!"})).is_duplicate
        assert not (await app.submit("h", {"user": 2, "text": "hi"})).is_duplicate


async def test_a_message_that_failed_for_good_is_not_a_duplicate(app: InTurn) -> None:
    is_broken = True

    @app.handler("h", key="k", message_id="{id}")
    async def h(turn: Turn[Any]) -> str:
        if is_broken:
            raise Stop("broken")
        return f"attempt {turn.attempt}"

    async with working(app):
        first = await app.submit("h", {"id": 1})
        with pytest.raises(HandlerFailed, match="broken") as failed:
            await first.result(20)
        assert [error["type"] for error in failed.value.errors] == ["Stop"]
        assert failed.value.attempts == 1
        is_broken = False
        again = await app.submit("h", {"id": 1})
        assert not again.is_duplicate
        assert await app.dead_letters.list() == [], "accepted again, it is taken out of there"
        assert await again.result(20) == "attempt 1"


async def test_an_inline_turn_and_a_submitted_message_of_one_id_are_two_messages(app: InTurn) -> None:
    """An inline turn has no handler; ids are scoped by key and handler."""

    @app.handler("h", key="k", message_id="{id}")
    async def h(turn: Turn[Any]) -> str:
        return "submitted"

    async with working(app):
        assert await (await app.submit("h", {"id": 1})).result(20) == "submitted"
    async with app.turn("k", message_id=1) as turn:
        turn.result = "inline"
    with pytest.raises(DuplicateMessage) as duplicate:
        async with app.turn("k", message_id=1):
            raise AssertionError("it ran twice")
    assert await duplicate.value.receipt.result(1) == "inline"


async def test_the_mark_of_a_message_outlives_its_lane(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k", message_id="{id}", state=list)
    async def h(turn: Turn[list[int]]) -> int:
        turn.state = None  # type: ignore[assignment]
        return 1

    async with working(app):
        await (await app.submit("h", {"id": 1})).result(20)
        await until_status(other, "k", "idle")
        assert (await app.submit("h", {"id": 1})).is_duplicate
