"""Priorities inside of a lane: a user's message comes before a proactive one, also past one that waits for a retry."""

from __future__ import annotations

from typing import Any

import pytest

from inturn import InTurn, Turn
from tests.lanes.workbench import NOT_TODAY, Gate, Seen, results, submit, working
from tests.waiting import until_status, until_waiting


async def test_higher_ones_come_first_and_equal_ones_in_order(app: InTurn) -> None:
    seen = Seen()

    @app.handler("proactive", key="k", priority=-1)
    async def proactive(turn: Turn[Any]) -> None:
        seen.note(turn)

    @app.handler("user", key="k")
    async def user(turn: Turn[Any]) -> None:
        seen.note(turn)

    receipts = [
        await submit(app, "p1", "proactive"),
        await submit(app, "u1", "user"),
        await submit(app, "p2", "proactive"),
        await submit(app, "urgent", "user", priority=7),
        await submit(app, "u2", "user"),
        await submit(app, "p3", "proactive", priority=0),
    ]
    async with working(app):
        await results(receipts)
    assert [burst[0] for burst in seen.bursts] == ["urgent", "u1", "u2", "p3", "p1", "p2"]


async def test_a_running_turn_is_not_disturbed(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)
        await gate.pass_through()

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts += [
            await submit(app, "b"),
            await submit(app, "c", priority=1000),
            await submit(app, "d", priority=-1000),
        ]
        gate.opened.set()
        await results(receipts)
    assert seen.bursts == [["a"], ["c"], ["b"], ["d"]]


async def test_a_user_does_not_wait_for_the_retry_of_a_proactive_message(app: InTurn) -> None:
    seen = Seen()

    @app.handler("proactive", key="k", priority=-1, backoff=NOT_TODAY)
    async def proactive(turn: Turn[Any]) -> None:
        seen.note(turn)
        if turn.body == "fails":
            raise ValueError("no")

    @app.handler("user", key="k", backoff=NOT_TODAY)
    async def user(turn: Turn[Any]) -> None:
        seen.note(turn)

    async with working(app):
        await submit(app, "fails", "proactive")
        await until_status(app, "k", "waiting")
        behind = await submit(app, "behind", "proactive")
        await (await submit(app, "user", "user")).result(20)
        await until_status(app, "k", "waiting")
        with pytest.raises(TimeoutError):
            await behind.result(0.1)
        assert [message.id for message in (await app.lanes.inspect("k")).messages] == ["fails", "behind"]
    assert [burst[0] for burst in seen.bursts] == ["fails", "user"]


async def test_a_proactive_message_waits_behind_the_retry_of_a_users(app: InTurn) -> None:
    seen = Seen()

    @app.handler("user", key="k", backoff=(0.3, 0.3), attempts=2)
    async def user(turn: Turn[Any]) -> None:
        seen.note(turn)
        if turn.attempt == 1:
            raise ValueError("no")

    @app.handler("proactive", key="k", priority=-1)
    async def proactive(turn: Turn[Any]) -> None:
        seen.note(turn)

    receipts = [await submit(app, "user", "user"), await submit(app, "proactive", "proactive")]
    async with working(app):
        await results(receipts)
    assert [burst[0] for burst in seen.bursts] == ["user", "user", "proactive"]


async def test_a_turn_can_send_with_a_priority(app: InTurn) -> None:
    seen = Seen()

    @app.handler("to", key="to")
    async def to(turn: Turn[Any]) -> None:
        seen.note(turn)

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        for text, priority in (("low", -5), ("plain", None), ("high", 5)):
            turn.send("to", text, key="to", priority=priority)

    await app.lanes.pause("to")
    async with working(app):
        await (await submit(app, "a")).result(20)
        await app.lanes.resume("to")
        await until_status(app, "to", "idle")
    assert [burst[0] for burst in seen.bursts] == ["high", "plain", "low"]


async def test_a_delayed_message_takes_the_place_of_its_priority_when_it_is_due(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)
        await gate.pass_through()

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts += [await submit(app, "high", priority=5, delay=0.1), await submit(app, "b")]
        await until_waiting(app, "k", 2)
        gate.opened.set()
        await results(receipts)
    assert seen.bursts == [["a"], ["high"], ["b"]]
