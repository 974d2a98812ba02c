"""An inline turn and an interrupt: it is left by `Interrupted`, if it allows that, and is left alone otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import Interrupted, InTurn, LeaseLost, Turn
from inturn.lanes.lease import TurnLease
from tests.lanes.workbench import Bodies, apart, counted, never, submit, working


@pytest.mark.parametrize("busy", ["interrupt", "rollback"])
async def test_an_inline_turn_that_allows_it_is_left_by_interrupted(app: InTurn, other: InTurn, busy: Any) -> None:
    body = Bodies(held=0)
    other.handler("h", key="k", busy=busy, state=list)(body.run)
    before = counted("inturn_turns_total", outcome="interrupted")
    async with working(other):
        with pytest.raises(Interrupted) as interrupted:
            async with app.turn("k", state=list, interruptible=True) as turn:
                turn.state.append("never")
                submitting = apart(submit(other, "a"))
                await asyncio.Event().wait()
        assert isinstance(interrupted.value, LeaseLost)
        assert turn.lost
        assert await (await submitting).result(20) == ["a"]
    assert (await app.lanes.inspect("k")).state == []
    assert counted("inturn_turns_total", outcome="interrupted") == before + 1


async def test_it_is_left_by_interrupted_even_if_the_commit_is_answered_before_the_notice_comes(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.handler("h", key="k", busy="interrupt")(never)
    monkeypatch.setattr(TurnLease, "lose", lambda lease, why: None)  # the notice is still under way
    with pytest.raises(Interrupted):
        async with app.turn("k", interruptible=True):
            await submit(other, "a")


async def test_new_messages_raises_interrupted_even_if_it_is_answered_before_the_notice_comes(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.handler("h", key="k", busy="interrupt")(never)
    monkeypatch.setattr(TurnLease, "lose", lambda lease, why: None)
    raised: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    @app.handler("steers", key="k", interruptible=True)
    async def steers(turn: Turn[Any]) -> None:
        await submit(other, "a")
        try:
            await turn.new_messages()
        except LeaseLost as error:
            raised.set_result(error)
            raise

    async with working(app):
        await app.submit("steers", "s")
        assert isinstance(await asyncio.wait_for(raised, 20), Interrupted)


async def test_an_inline_turn_that_swallows_its_interrupt_cannot_commit(app: InTurn, other: InTurn) -> None:
    other.handler("h", key="k", busy="interrupt")(never)
    with pytest.raises(Interrupted):
        async with app.turn("k", state=list, interruptible=True) as turn:
            turn.state.append("never")
            submitting = apart(submit(other, "a"))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                turn.state.append("neither")
    await submitting
    assert (await app.lanes.inspect("k")).state is None


async def test_an_inline_turn_is_not_interrupted_unless_it_says_so(app: InTurn, other: InTurn) -> None:
    body = Bodies(held=0)
    other.handler("h", key="k", busy="interrupt")(body.run)
    async with working(other):
        async with app.turn("k", state=list) as turn:
            turn.state.append("kept")
            receipt = await apart(submit(other, "a"))
            assert receipt.status == "queued"
            await app.process.store.confirm("k", turn._lease.token)
            assert not turn.lost
        await receipt.result(20)
    assert (await app.lanes.inspect("k")).state == ["kept"]
