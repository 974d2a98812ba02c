"""`app.submit`: accepted in order; what is refused is refused before anything is written."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from inturn import BadMessage, HandlerFailed, InTurn, LeaseLost, Retry, Turn
from inturn.errors import TooLarge, UnknownHandler
from tests.lanes.workbench import apart, counted, working
from tests.waiting import until_status, until_waiting


async def test_a_burst_of_one_visitor_runs_one_at_a_time_in_order_and_loses_no_state(app: InTurn) -> None:
    inside, most = 0, 0

    @app.handler("reply", key="visitor:{uid}", message_id="{n}", state=list)
    async def reply(turn: Turn[list[int]]) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        before = list(turn.state)
        await asyncio.sleep(0.001)
        turn.state = [*before, turn.body["n"]]
        inside -= 1
        return len(turn.state)

    async with working(app):
        receipts = [await app.submit("reply", {"uid": "v1", "n": n}) for n in range(50)]
        assert [await receipt.result(20) for receipt in receipts] == list(range(1, 51))
    assert most == 1
    lane = await app.lanes.inspect("visitor:v1")
    assert (lane.state, lane.version, lane.status) == (list(range(50)), 50, "idle")


async def test_two_workers_keep_the_order_of_a_lane(app: InTurn, other: InTurn) -> None:
    for each in (app, other):

        @each.handler("reply", key="v", state=list)
        async def reply(turn: Turn[list[int]]) -> None:
            turn.state.append(turn.body)
            await asyncio.sleep(0.001)

    async with working(app), working(other):
        receipts = [await app.submit("reply", n) for n in range(60)]
        await receipts[-1].result(20)
    assert (await app.lanes.inspect("v")).state == list(range(60))


async def test_handlers_with_equal_keys_share_the_lane_its_order_and_its_state(app: InTurn) -> None:
    @app.handler("a", key="k", state=list)
    async def a(turn: Turn[list[str]]) -> None:
        turn.state.append(f"a{turn.body}")

    @app.handler("b", key="k", state=list)
    async def b(turn: Turn[list[str]]) -> None:
        turn.state.append(f"b{turn.body}")

    receipts = [await app.submit("ab"[n % 2], n) for n in range(8)]
    assert [receipt.ahead for receipt in receipts] == list(range(8))
    async with working(app):
        await receipts[-1].result(20)
    assert (await app.lanes.inspect("k")).state == ["a0", "b1", "a2", "b3", "a4", "b5", "a6", "b7"]


async def test_a_receipt_says_whether_others_come_before(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    first, second = await app.submit("h", 1), await app.submit("h", 2)
    assert (first.status, first.ahead, second.status, second.ahead) == ("accepted", 0, "queued", 1)
    assert first.id != second.id


async def test_a_lane_that_was_worked_off_leaves_nothing_but_its_state(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app):
        await (await app.submit("h", 1)).result(20)
        await until_status(app, "k", "idle")
    assert await app.lanes.list() == []
    assert (await app.lanes.inspect("k")).state is None


async def test_a_message_accepted_before_any_worker_begins_waits_for_one(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> int:
        return 1

    receipt = await app.submit("h", 1)
    with pytest.raises(TimeoutError, match=r"has no result after 0\.05 s"):
        await receipt.result(0.05)
    await until_waiting(other, "k", 1)
    async with working(app):
        assert await receipt.result(20) == 1


@pytest.mark.parametrize(
    ("body", "options", "error", "says"),
    [
        ({"x": 1}, {}, BadMessage, r"key='user:\{user\}': the body has no 'user'"),
        ({"user": None}, {}, BadMessage, "'user' is None; it must be text or a number"),
        ({"user": True}, {}, BadMessage, "'user' is True; it must be text or a number"),
        ({"user": "a>b"}, {}, BadMessage, "key='user:a>b': must not contain '>'"),
        ({"user": 1}, {"key": "a>b"}, BadMessage, "key='a>b': must not contain '>'"),
        ({"user": 1}, {"key": ""}, ValueError, "key='': must not be empty"),
        ({"user": 1}, {"key": 5}, TypeError, "key=5: must be text, not int"),
        ({"user": 1}, {"key": "k" * 600}, ValueError, "key=.*600 bytes"),
        ({"user": 1}, {"message_id": ""}, ValueError, "message_id='': must not be empty"),
        ({"user": 1}, {"message_id": 1.5}, TypeError, "message_id=1.5: must be text"),
        ({"user": 1}, {"message_id": "a\0b"}, ValueError, "message_id=.*NUL"),
        ({"user": 1, "x": object()}, {}, BadMessage, "the body cannot be written as JSON"),
        ({"user": 1, "x": b"\xff"}, {}, BadMessage, "the body cannot be written as JSON"),
        ({"user": 1, "x": "\ud800"}, {}, BadMessage, "the body cannot be written as JSON"),
        ({"user": 1, "x": "y" * 300_000}, {}, TooLarge, "the body is 300.* bytes long; at most 262144"),
    ],
)
async def test_bad_input_is_named_and_nothing_is_written(
    app: InTurn, body: Any, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    @app.handler("h", key="user:{user}")
    async def h(turn: Turn[Any]) -> None: ...

    with pytest.raises(error, match=says):
        await app.submit("h", body, **options)
    assert await app.lanes.list() == []


async def test_a_body_that_contains_itself_is_refused(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    body: dict[str, Any] = {}
    body["body"] = body
    with pytest.raises(BadMessage, match="the body cannot be written as JSON"):
        await app.submit("h", body)
    assert await app.lanes.list() == []


async def test_an_unknown_handler_is_named_with_those_that_there_are(app: InTurn) -> None:
    with pytest.raises(UnknownHandler, match="no handler 'nope' is registered here; there are none"):
        await app.submit("nope", {})

    @app.handler("yes", key="k")
    async def yes(turn: Turn[Any]) -> None: ...

    with pytest.raises(UnknownHandler, match="no handler 'nope' is registered here; known: yes"):
        await app.submit("nope", {})


async def test_a_handler_without_a_key_template_needs_a_key(app: InTurn) -> None:
    @app.handler("h")
    async def h(turn: Turn[Any]) -> str:
        return turn.key

    with pytest.raises(TypeError, match="handler 'h' has no key template: give key="):
        await app.submit("h", {})
    async with working(app):
        assert await (await app.submit("h", {}, key="there")).result(20) == "there"


async def test_every_way_of_taking_a_message_is_counted_and_logged(
    app: InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "inturn.lanes")
    before = {name: counted("inturn_messages_total", outcome=name) for name in ("accepted", "duplicate", "pending")}

    @app.handler("h", key="k", message_id="{id}")
    async def h(turn: Turn[Any]) -> None:
        if turn.attempt == 1:
            raise Retry("once more", after=0)

    await app.submit("h", {"id": 1})
    assert "submit key=k handler=h id=1 ahead=0" in caplog.text
    await app.submit("h", {"id": 1})
    assert "duplicate key=k handler=h id=1: it is waiting or running" in caplog.text
    async with working(app):
        await (await app.submit("h", {"id": 1})).result(20)
        await app.submit("h", {"id": 1})
    assert "duplicate key=k handler=h id=1: it was committed before" in caplog.text
    now = {name: counted("inturn_messages_total", outcome=name) for name in before}
    assert {name: now[name] - before[name] for name in now} == {"accepted": 1, "duplicate": 1, "pending": 2}


@pytest.mark.parametrize("odd", ["a b\nc", "é😀", "{0}:#1", "lost x#1 5 why\nname", " ", "%.0f \\0 ' \" ;"])
async def test_any_text_can_be_a_key_and_an_id(app: InTurn, other: InTurn, odd: str) -> None:
    @app.handler("h", message_id="{id}", attempts=1, state=list)
    async def h(turn: Turn[list[Any]]) -> Any:
        assert (turn.key, turn.id) == (odd, odd + turn.body["id"][len(odd) :])
        if turn.body.get("bad"):
            raise ValueError(odd)
        turn.state.append(turn.id)
        return [turn.id]

    async with working(app):
        receipt = await app.submit("h", {"id": odd}, key=odd)
        assert await receipt.result(20) == [odd]
        assert (await app.submit("h", {"id": odd}, key=odd)).is_duplicate
        bad = await app.submit("h", {"id": odd + "2", "bad": True}, key=odd)
        with pytest.raises(HandlerFailed):
            await bad.result(20)
        (letter,) = await app.dead_letters.list()
        assert (letter.key, letter.id, letter.errors[0]["message"]) == (odd, odd + "2", odd)
        assert await app.dead_letters.drop(odd, "h", odd + "2")
    async with app.turn(odd):
        waiting = apart(_take(other, odd))
        await until_waiting(app, odd, 1)
    assert await asyncio.wait_for(waiting, 20) == [odd]
    with pytest.raises(LeaseLost):
        async with app.turn(odd):
            await other.lanes.clear(odd)
            await asyncio.sleep(5)


async def _take(app: InTurn, key: str) -> Any:
    async with app.turn(key, state=list) as turn:
        return turn.state
