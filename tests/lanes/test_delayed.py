"""Delayed messages: they take their place when they are due, hold up nobody before, and can be taken back."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from inturn import InTurn, MessageCancelled, Turn
from inturn.store import clock
from tests.lanes.workbench import NOT_TODAY, SLACK_S, Gate, Noted, Seen, apart, results, submit, working
from tests.waiting import until, until_status


@pytest.mark.usefixtures("nobody_looks")
@pytest.mark.parametrize(
    "when",
    [
        lambda in_s: {"delay": in_s},
        lambda in_s: {"delay": timedelta(seconds=in_s)},
        lambda in_s: {"not_before": time.time() + in_s},
        lambda in_s: {"not_before": datetime.now(UTC) + timedelta(seconds=in_s)},
        lambda in_s: {"not_before": datetime.now(timezone(timedelta(hours=5))) + timedelta(seconds=in_s)},
    ],
    ids=["seconds", "timedelta", "unix time", "datetime", "of another zone"],
)
async def test_it_begins_when_it_is_due_and_not_before(app: InTurn, when: Any) -> None:
    noted = Noted()
    app.handler("h", key="k")(noted.run)
    async with working(app):
        for text, in_s in (("a", 0.3), ("b", 2.0), ("c", 8.0)):
            submitted_at = clock.now()
            receipt = await submit(app, text, **when(in_s))
            if clock.now() - submitted_at < in_s:  # or the machine stalled, and it was due before it was brought
                break
        assert receipt.status == "delayed"
        assert await receipt.result(20) == text
    assert in_s - 0.05 <= noted.at[text] - submitted_at < in_s + SLACK_S


@pytest.mark.parametrize("when", [{"delay": 0}, {"not_before": 0}, {"not_before": datetime(2020, 1, 1, tzinfo=UTC)}])
async def test_what_is_due_already_is_not_delayed(app: InTurn, when: Any) -> None:
    noted = Noted()
    app.handler("h", key="k")(noted.run)
    assert (await submit(app, "a", **when)).status == "accepted"


async def test_it_holds_up_nobody_and_takes_its_place_when_it_is_due(app: InTurn) -> None:
    noted = Noted()
    app.handler("h", key="k")(noted.run)
    async with working(app):
        later = await submit(app, "later", delay=4)  # so that the lane is paused before, however busy the machine is
        now = await submit(app, "now")
        assert now.status == "accepted", "nothing is ahead of it"
        assert await now.result(20) == "now"
        await app.lanes.pause("k")

        async def is_due() -> bool:
            return (await app.lanes.inspect("k")).waiting == 1

        await until(is_due)
        last = await submit(app, "last")
        await app.lanes.resume("k")
        await results([later, last])
    assert noted.bursts == [["now"], ["later"], ["last"]]


async def test_it_does_not_keep_the_lane_busy(app: InTurn) -> None:
    noted = Noted()
    app.handler("h", key="k")(noted.run)
    app.handler("reject", key="k", busy="reject")(noted.run)
    await submit(app, "later", delay=60)
    assert (await app.lanes.inspect("k")).status == "idle"
    async with app.turn("k", busy="reject"):
        pass
    async with working(app):
        assert await (await submit(app, "now", "reject")).result(20) == "now"


async def test_what_is_brought_again_is_a_duplicate_also_before_it_is_due(app: InTurn, other: InTurn) -> None:
    noted = Noted()
    for each in (app, other):
        each.handler("h", key="k")(noted.run)
    first = await submit(app, "a", delay=0.2)
    assert (await submit(other, "a", delay=5)).status == "duplicate"
    again = await submit(other, "a")
    assert again.status == "duplicate"
    async with working(app):
        assert await results([first, again]) == ["a", "a"]
    assert noted.bursts == [["a"]]


async def test_many_are_due_in_order(app: InTurn) -> None:
    noted = Noted()
    app.handler("h", key="k")(noted.run)
    soon = time.time() + 4  # none of them is due before all are submitted, however busy the machine is
    async with working(app):
        receipts = [
            await submit(app, text, not_before=soon + after_s) for text, after_s in (("c", 2), ("a", 0), ("b", 1))
        ]
        assert [receipt.status for receipt in receipts] == ["delayed"] * 3
        await results(receipts)
    assert noted.bursts == [["a"], ["b"], ["c"]]


async def test_a_delayed_message_can_be_taken_back(app: InTurn, other: InTurn) -> None:
    noted = Noted()
    for each in (app, other):
        each.handler("h", key="k")(noted.run)
    async with working(app):
        due_at = time.time() + 4
        receipt = await submit(other, "a", not_before=due_at)
        waiting = apart(receipt.result(20))
        assert await receipt.cancel()
        with pytest.raises(MessageCancelled, match="was cancelled, and will not run"):
            await waiting
        assert (await submit(app, "a")).status == "cancelled"
        assert (await submit(app, "a", delay=1)).status == "cancelled"
        await (await submit(app, "b", not_before=due_at + 0.1)).result(20)
    assert noted.bursts == [["b"]]


async def test_a_message_that_waits_can_be_taken_back(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> str:
        seen.note(turn)
        await gate.pass_through()
        return str(turn.body)

    async with working(app):
        running = await submit(app, "a")
        await gate.reached.wait()
        waiting, last = await submit(app, "b"), await submit(app, "c")
        assert await waiting.cancel()
        assert not await running.cancel(), "it runs"
        gate.opened.set()
        assert await results([running, last]) == ["a", "c"]
        assert not await running.cancel(), "it has run"
        assert (await submit(app, "a")).status == "duplicate"
        with pytest.raises(MessageCancelled):
            await waiting.result(20)
    assert seen.bursts == [["a"], ["c"]]


async def test_what_never_was_or_was_dropped_cannot_be_taken_back(app: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", busy="drop")
    async def h(turn: Turn[Any]) -> None:
        await gate.pass_through()

    async with working(app):
        first = await submit(app, "a")
        await gate.reached.wait()
        dropped = await submit(app, "b")
        assert dropped.status == "dropped"
        assert not await dropped.cancel()
        gate.opened.set()
        await first.result(20)
    assert (await submit(app, "b")).status == "accepted", "it was not cancelled, it was not there"


async def test_a_dead_letter_cannot_be_taken_back(app: InTurn) -> None:
    @app.handler("h", key="k", attempts=1)
    async def h(turn: Turn[Any]) -> None:
        raise ValueError("no")

    async with working(app):
        receipt = await submit(app, "a")

        async def is_dead() -> bool:
            return bool(await app.dead_letters.list())

        await until(is_dead)
        assert not await receipt.cancel()
    assert [letter.id for letter in await app.dead_letters.list()] == ["a"]


async def test_cancelling_a_waiting_message_frees_what_it_held_up(app: InTurn) -> None:
    """It waited for its retry, and the others behind it."""

    @app.handler("h", key="k", backoff=NOT_TODAY)
    async def h(turn: Turn[Any]) -> str:
        if turn.body == "a":
            raise ValueError("no")
        return str(turn.body)

    async with working(app):
        first = await submit(app, "a")
        await until_status(app, "k", "waiting")
        second = await submit(app, "b")
        assert await first.cancel()
        assert await second.result(20) == "b"
