"""A message that comes again is the same message: after its chat forgot it, and after the policy changed."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn
from inturn.errors import LaneBusy, MailboxFull, UnknownConversation
from inturn.testing import drain
from inturn.visitors.chat import MAX_MESSAGES
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import Recorder, chat_of, outcomes, said, set_up, written
from tests.waiting import until_waiting

LONG = "x" * 8000


async def crowd_out(responder: VisitorResponder) -> None:
    """Settle so many long messages that the first ones leave the chat."""
    await written(responder, *((said(number, LONG), "unanswered") for number in range(100, 170)))


@pytest.mark.parametrize("is_remembered", [True, False])
async def test_a_repeat_after_the_chat_has_forgotten_it_is_still_a_repeat(
    make_app: MakeApp, agent: Recorder, is_remembered: bool
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.submit_visitor_message(said(1))
    await drain(responder.app, raise_errors=True)
    await crowd_out(responder)
    chat = await chat_of(responder)
    assert chat.said("m1") is None
    assert "m1" in chat.gone
    if not is_remembered:  # the lane knows it in any case
        async with responder.app.turn("visitor:v1", state=dict) as turn:
            turn.state["chats"][":c1"]["gone"] = {}
    again = await responder.accept(said(1))
    assert (again.receipt.status, again.is_repeat) == ("duplicate", True)
    assert (await chat_of(responder)).waiting == []
    assert await drain(responder.app) == []
    assert await responder.handle_visitor_message(said(2)) is not None
    assert agent.texts == ["text 1", "text 2"]


async def test_an_awaited_repeat_of_what_has_left_is_not_answered_again(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.handle_visitor_message(said(1))
    await crowd_out(responder)
    assert await responder.handle_visitor_message(said(1)) is None, "the answer has left with it"
    assert agent.texts == ["text 1"]


async def test_a_repeat_that_meets_its_first_delivery_in_the_lane_takes_nothing_back(app: InTurn) -> None:
    agent = Recorder()
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    await asyncio.gather(*(responder.accept(said(1)) for _ in range(5)))
    assert await outcomes(responder) == {"m1": None}
    await drain(app, raise_errors=True)
    assert await outcomes(responder) == {"m1": "answered"}


@pytest.mark.parametrize("later", ["drop", "reject", "interrupt", "queue"])
async def test_a_repeat_keeps_the_policy_that_it_came_under(make_app: MakeApp, agent: Recorder, later: str) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    first = await responder.accept(said(1))
    agent.hold()
    working = asyncio.create_task(drain(responder.app, raise_errors=True))
    await agent.reached.wait()
    await set_up(responder, busy=later)
    again = await responder.accept(said(1))
    assert (again.receipt.status, again.receipt.handler) == ("duplicate", first.receipt.handler)
    agent.opened.set()
    await working
    assert agent.cancelled == 0
    assert agent.texts == ["text 1"]
    assert await outcomes(responder) == {"m1": "answered"}


@pytest.mark.parametrize("busy", ["reject", "interrupt", "rollback", "drop"])
async def test_an_awaited_repeat_of_what_is_answered_disturbs_nobody(
    make_app: MakeApp, agent: Recorder, busy: str
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy=busy)
    first = await responder.handle_visitor_message(said(1))
    agent.hold()
    running = asyncio.create_task(responder.handle_visitor_message(said(2)))
    await agent.reached.wait()
    assert await responder.handle_visitor_message(said(1)) == first
    agent.opened.set()
    assert await running is not None
    assert agent.cancelled == 0


async def test_one_that_was_delivered_twice_and_whose_answer_failed_may_be_repeated(
    make_app: MakeApp, agent: Recorder
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy="drop")
    agent.hold()
    agent.reply = lambda ask: str(1 / 0)
    running = [asyncio.create_task(responder.handle_visitor_message(said(1)))]
    await agent.reached.wait()
    running.append(asyncio.create_task(responder.handle_visitor_message(said(1))))
    await asyncio.sleep(0)
    agent.opened.set()
    for ended in await asyncio.gather(*running, return_exceptions=True):
        assert isinstance(ended, ZeroDivisionError)
    assert await outcomes(responder) == {"m1": "failed"}
    agent.reply = lambda ask: "now"
    assert await responder.handle_visitor_message(said(1)) is not None


async def test_what_is_refused_is_not_in_the_chat_and_what_is_taken_is(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy="reject")
    await responder.submit_visitor_message(said(1))
    await until_waiting(responder.app, "visitor:v1", 1)
    with pytest.raises(LaneBusy):
        await responder.submit_visitor_message(said(2))
    assert await outcomes(responder) == {"m1": None}
    await drain(responder.app, raise_errors=True)
    await set_up(responder, busy="queue")
    for number in range(100, 100 + MAX_MESSAGES):
        await responder.submit_visitor_message(said(number))
    with pytest.raises(MailboxFull):
        await responder.submit_visitor_message(said(2))
    assert "m2" not in await outcomes(responder)


async def test_a_conversation_that_does_not_exist(
    make_app: MakeApp, agent: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    responder = VisitorResponder(make_app(), agent)
    for busy in ("merge", "reject", "drop"):
        await set_up(responder, busy=busy)
        for event in (said(1, conversation_id="c9"), said(1, visitor_uid="v2")):
            caplog.clear()
            assert await responder.handle_visitor_message(event) is None
            assert "there is no such conversation" in caplog.text
            with pytest.raises(UnknownConversation):
                await responder.submit_visitor_message(event)
    assert await drain(responder.app) == []
