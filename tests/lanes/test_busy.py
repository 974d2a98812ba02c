"""What a busy lane does with a message: queue, reject, drop, wait, and a mailbox that is full."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import (
    InTurn,
    LaneBusy,
    LaneTimeout,
    MailboxFull,
    Turn,
)
from inturn.store import clock
from tests.lanes.workbench import Gate, apart, counted, working
from tests.waiting import until


async def test_reject_says_who_holds_the_lane_and_since_when(app: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", busy="reject")
    async def h(turn: Turn[Any]) -> None:
        await gate.pass_through()

    async with working(app):
        began_at = clock.now()
        first = await app.submit("h", 1)
        await gate.reached.wait()
        await asyncio.sleep(0.02)
        with pytest.raises(LaneBusy, match=r"held by .* for ") as busy:
            await app.submit("h", 2)
        assert busy.value.holder is not None
        assert ":" in busy.value.holder
        assert 0.02 <= busy.value.since_s <= clock.now() - began_at + 0.01
        gate.opened.set()
        await first.result(20)
        await (await app.submit("h", 3)).result(20)


async def test_reject_of_a_waiting_or_stopped_lane_says_that(app: InTurn) -> None:
    @app.handler("h", key="k", busy="reject")
    async def h(turn: Turn[Any]) -> None: ...

    await app.submit("h", 1)
    with pytest.raises(LaneBusy, match="1 waiting") as busy:
        await app.submit("h", 2)
    assert busy.value.holder is None
    await app.lanes.pause("k")
    with pytest.raises(LaneBusy, match="it is paused"):
        await app.submit("h", 3)


async def test_drop_is_logged_and_its_receipt_says_so(app: InTurn, caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    before = counted("inturn_messages_total", outcome="drop")

    @app.handler("h", key="k", busy="drop", state=list)
    async def h(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)
        await gate.pass_through()

    async with working(app):
        first = await app.submit("h", 1)
        await gate.reached.wait()
        dropped = await app.submit("h", 2)
        assert dropped.status == "dropped"
        with pytest.raises(LaneBusy):
            await dropped.result(1)
        gate.opened.set()
        await first.result(20)
    assert (await app.lanes.inspect("k")).state == [1]
    assert f"drop key=k handler=h id={dropped.id}" in caplog.text
    assert counted("inturn_messages_total", outcome="drop") == before + 1


async def test_wait_runs_in_order_and_what_does_not_begin_in_time_is_timed_out(app: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)
        await gate.pass_through()

    @app.handler("late", key="k", busy="wait", wait=0.1, state=list)
    async def late(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)

    @app.handler("patient", key="k", busy="wait", wait=60, state=list)
    async def patient(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)

    async with working(app):
        await app.submit("h", 1)
        await gate.reached.wait()
        too_late, in_time = await app.submit("late", 2), await app.submit("patient", 3)

        async def is_late() -> bool:
            waits = [message for message in (await app.lanes.inspect("k")).messages if message.handler == "late"]
            return not waits or waits[0].age_s > 0.12

        await until(is_late)
        gate.opened.set()
        with pytest.raises(LaneTimeout) as timeout:
            await too_late.result(20)
        assert timeout.value.waited_s >= 0.1
        await in_time.result(20)
    assert (await app.lanes.inspect("k")).state == [1, 3]


async def test_a_full_mailbox_refuses_and_takes_again_when_it_is_not(app: InTurn) -> None:
    @app.handler("h", key="k", max_waiting=2)
    async def h(turn: Turn[Any]) -> None: ...

    await app.submit("h", 1)
    last = await app.submit("h", 2)
    with pytest.raises(MailboxFull, match="2 messages are waiting"):
        await app.submit("h", 3)
    assert (await app.lanes.inspect("k")).waiting == 2
    async with working(app):
        await last.result(20)
        await (await app.submit("h", 4)).result(20)


async def test_a_timed_out_message_is_told_in_time_although_the_lane_is_held(app: InTurn) -> None:
    """`wait` is what the submitter is willing to wait, not what the turn before it takes."""
    from inturn import LaneTimeout

    @app.handler("late", key="k", busy="wait", wait=0.2)
    async def late(turn: Turn[Any]) -> None: ...

    async with app.turn("k"):
        receipt = await app.submit("late", 1)
        waiting = apart(receipt.result(20))
        done, _ = await asyncio.wait({waiting}, timeout=10)
        assert done, "it waits for the turn before it, however long that takes"
        assert isinstance(waiting.exception(), LaneTimeout)
    await asyncio.gather(waiting, return_exceptions=True)
