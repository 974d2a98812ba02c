"""`interrupt`: the running turn is cancelled wherever it runs, leaves no trace, and the next one has its messages."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from inturn import Cut, InTurn, Turn
from inturn.store import clock
from tests.lanes.workbench import SLACK_S, Bodies, Gate, bodies, counted, never, results, submit, working
from tests.waiting import until, until_status

YIELD_S = 1.0
"""So long a turn that was interrupted may take to end."""
QUIET_S = 2.0
LONG_S = 60.0
"""A quiet time that nobody here waits for."""


async def test_the_next_turn_gets_the_old_messages_and_the_new_one_together(app: InTurn, other: InTurn) -> None:
    body = Bodies(held=2)
    app.handler("h", key="k", busy="interrupt")(body.run)
    other.handler("h", key="k", busy="interrupt")(never)
    before = counted("inturn_turns_total", outcome="interrupted")
    async with working(app):
        receipts = [await submit(other, "a")]
        for text in ("b", "c"):
            await body.begun.get()
            receipts.append(await submit(other, text))
        assert await results(receipts) == [["a", "b", "c"]] * 3
    assert body.seen.turns == [(["a"], 1), (["a", "b"], 1), (["a", "b", "c"], 1)], "an interrupt gives the attempt back"
    assert body.cancelled == 2
    assert counted("inturn_turns_total", outcome="interrupted") == before + 2


@pytest.mark.usefixtures("nobody_looks")
async def test_with_a_quiet_time_a_turn_is_interrupted_at_once_and_begins_again_when_the_user_pauses(
    app: InTurn,
) -> None:
    body, began = Bodies(), []
    cut = Cut(text="text", words=5)

    @app.handler("h", key="k", busy="interrupt", quiet=QUIET_S, cut=cut)
    async def h(turn: Turn[Any]) -> list[Any]:
        began.append(clock.now())
        return await body.run(turn)

    texts = ["a long one begins at once", "one more", "and another"]
    async with working(app):
        receipts = [await app.submit("h", {"text": texts[0]})]
        await body.begun.get()
        receipts.append(await app.submit("h", {"text": texts[1]}))
        await until(lambda: body.cancelled == 1)
        last_at = clock.now()
        receipts.append(await app.submit("h", {"text": texts[2]}))
        assert await results(receipts) == [[{"text": text} for text in texts]] * 3
    assert QUIET_S - 0.1 <= began[1] - last_at < QUIET_S + SLACK_S


async def test_with_a_quiet_time_a_message_that_cuts_it_interrupts_and_begins_at_once(app: InTurn) -> None:
    body = Bodies()
    app.handler("h", key="k", busy="interrupt", quiet=LONG_S, cut=lambda text: text != "patient")(body.run)
    async with working(app):
        receipts = [await submit(app, "a")]
        await body.begun.get()
        receipts.append(await submit(app, "patient"))
        await until(lambda: body.cancelled == 1)
        assert (await app.lanes.inspect("k")).status == "waiting"
        receipts.append(await submit(app, "b"))
        assert await results(receipts) == [["a", "patient", "b"]] * 3


async def test_it_is_logged_as_an_interrupt_and_not_as_a_loss(app: InTurn, caplog: pytest.LogCaptureFixture) -> None:
    body = Bodies()
    app.handler("h", key="k", busy="interrupt")(body.run)
    lost = counted("inturn_turns_total", outcome="lost")
    async with working(app):
        first = await submit(app, "a")
        turn = await body.begun.get()
        await results([first, await submit(app, "b")])
    assert f"interrupt key=k handler=h fence={turn.fence}" in caplog.text
    assert "lost key=k" not in caplog.text
    assert counted("inturn_turns_total", outcome="lost") == lost


async def test_a_cancelled_turn_leaves_no_trace(app: InTurn) -> None:
    delivered: list[Any] = []
    body = Bodies()

    @app.handler("out")
    async def out(turn: Turn[Any]) -> None:
        delivered.append(turn.body)

    @app.handler("h", key="k", busy="interrupt", state=list)
    async def h(turn: Turn[list[str]]) -> list[Any]:
        turn.state.append(f"state of {'+'.join(bodies(turn))}")
        turn.send("out", "+".join(bodies(turn)))
        return await body.run(turn)

    async with working(app):
        first = await submit(app, "a")
        await body.begun.get()
        second = await submit(app, "b")
        await results([first, second])

        async def is_delivered() -> bool:
            return bool(delivered)

        await until(is_delivered)
        await until_status(app, "k>out", "idle")
    assert delivered == ["a+b"]
    info = await app.lanes.inspect("k")
    assert (info.state, info.version) == (["state of a+b"], 1)


async def test_a_handler_that_swallows_its_cancellation_cannot_commit(app: InTurn) -> None:
    delivered: list[Any] = []
    gate, swallowed = Gate(), asyncio.Event()
    number = 0

    @app.handler("out")
    async def out(turn: Turn[Any]) -> None:
        delivered.append(turn.body)

    @app.handler("h", key="k", busy="interrupt", state=list)
    async def h(turn: Turn[list[int]]) -> str:
        nonlocal number
        number = mine = number + 1
        if mine == 1:
            try:
                await gate.pass_through()
            except asyncio.CancelledError:
                swallowed.set()
        turn.state.append(mine)
        turn.send("out", mine)
        return f"turn {mine}"

    async with working(app):
        first = await submit(app, "a")
        await gate.reached.wait()
        second = await submit(app, "b")
        assert await results([first, second]) == ["turn 2"] * 2
        assert swallowed.is_set()
        await until_status(app, "k>out", "idle")
    assert (await app.lanes.inspect("k")).state == [2]
    assert delivered == [2]


@pytest.mark.usefixtures("nobody_looks")
async def test_a_body_that_goes_on_holds_the_next_turn_up_for_a_second_and_cannot_commit(app: InTurn) -> None:
    """It catches its cancellation and does something slow, as a clean-up may."""
    gate, ended = Gate(), asyncio.Event()
    began: list[float] = []

    @app.handler("h", key="k", busy="interrupt", state=list)
    async def h(turn: Turn[list[str]]) -> str:
        began.append(clock.now())
        if len(began) == 1:
            try:
                await gate.pass_through()
            except asyncio.CancelledError:
                await ended.wait()
        turn.state.append("+".join(bodies(turn)))
        return "done"

    async with working(app):
        first = await submit(app, "a")
        await gate.reached.wait()
        interrupted_at = clock.now()
        second = await submit(app, "b")
        await results([first, second])
        assert YIELD_S - 0.05 <= began[1] - interrupted_at < YIELD_S + SLACK_S
        ended.set()
    assert (await app.lanes.inspect("k")).state == ["a+b"]


@pytest.mark.usefixtures("nobody_looks")
async def test_a_handler_in_a_thread_cannot_be_cancelled_and_cannot_commit_either(app: InTurn) -> None:
    """It has not ended when it is interrupted, so the next turn begins only after the second that it has for that."""
    began: list[float] = []
    reached, opened, ended = threading.Event(), threading.Event(), threading.Event()

    @app.handler("h", key="k", busy="interrupt", state=list)
    def h(turn: Turn[list[str]]) -> str:
        began.append(clock.now())
        if len(began) == 1:
            reached.set()
            opened.wait(60)
        turn.state.append("+".join(bodies(turn)))
        if len(turn.messages) == 1:
            ended.set()
        return "done"

    try:
        async with working(app):
            first = await submit(app, "a")
            assert await asyncio.to_thread(reached.wait, 20)
            interrupted_at = clock.now()
            second = await submit(app, "b")
            assert await results([first, second]) == ["done"] * 2
            opened.set()
            assert await asyncio.to_thread(ended.wait, 20)
            assert (await app.lanes.inspect("k")).state == ["a+b"]
            assert began[1] - interrupted_at < YIELD_S + SLACK_S
            assert began[1] - interrupted_at >= YIELD_S - 0.05, "two bodies of one lane ran side by side"
    finally:
        opened.set()


@pytest.mark.timed
async def test_a_cancellation_arrives_soon(app: InTurn, other: InTurn) -> None:
    """On Redis by push; on SQLite by looking at the file."""
    cancelled_at: list[float] = []

    @app.handler("h", key="{k}", busy="interrupt")
    async def h(turn: Turn[Any]) -> None:
        if len(turn.messages) == 1:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled_at.append(time.monotonic())
                raise

    other.handler("h", key="{k}", busy="interrupt")(never)
    took: list[float] = []
    async with working(app):
        for number in range(9):
            begun = asyncio.Event()
            await other.submit("h", {"k": f"k{number}", "n": 1})
            await begun.wait()
            arrives_at = time.monotonic()
            second = await other.submit("h", {"k": f"k{number}", "n": 2})
            await second.result(20)
            took.append(cancelled_at[-1] - arrives_at)
    assert sorted(took)[4] < 0.1, took
