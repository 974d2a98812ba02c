"""Answers that wait for each other's visitors end with `DeadlockDetected` within seconds. No message is left behind.

The time limit of a turn is ten minutes, so whatever ends these tests is the detection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import DeadlockDetected, HandlerFailed
from inturn.visitors.message import VisitorMessage
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.lanes.workbench import apart
from tests.visitors.world import Recorder, outcomes, said, set_up, working
from tests.waiting import until

WITHIN_S = 60.0
"""A bound for a busy machine; it takes about four seconds."""
VISITORS = ("v1", "v2")


class Crossing(Recorder):
    """Asked to `cross` by a visitor, it asks for the other one's answer, when both are being answered."""

    def __init__(self) -> None:
        super().__init__()
        self.both = asyncio.Barrier(2)
        self.responder: VisitorResponder | None = None

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        if ask.text == "cross":
            await self.both.wait()
            here = ask.conversation_id.removeprefix("c-")
            other = VISITORS[1 - VISITORS.index(here)]
            assert self.responder is not None
            await self.responder.handle_visitor_message(asked_by(other, f"for {here}", "leaf"))
        yield Activity.said("done")


def asked_by(visitor: str, number: str, text: str) -> VisitorMessage:
    return said(number, text, conversation_id=f"c-{visitor}", visitor_uid=visitor)


@pytest.fixture
async def crossing(make_app: MakeApp) -> VisitorResponder:
    agent = Crossing()
    responder = agent.responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy="queue")
    for visitor in VISITORS:
        await responder.conversations.open(f"c-{visitor}", "p1", visitor)
    return responder


async def all_settled(responder: VisitorResponder) -> bool:
    ended = [outcome for visitor in VISITORS for outcome in (await outcomes(responder, f"c-{visitor}")).values()]
    return len(ended) == 4 and None not in ended


async def test_awaited_visitors_that_await_each_other_end_with_one_of_them(crossing: VisitorResponder) -> None:
    calls = [apart(crossing.handle_visitor_message(asked_by(visitor, "1", "cross"))) for visitor in VISITORS]
    async with asyncio.timeout(WITHIN_S):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(each).__name__ for each in ended) == ["Answer", "DeadlockDetected"]
    (error,) = [each for each in ended if isinstance(each, DeadlockDetected)]
    assert "waits for 'visitor:v1'" in str(error)
    await until(lambda: all_settled(crossing), WITHIN_S)  # the message of the call that gave up is answered too


async def test_submitted_visitors_that_await_each_other_end_with_one_of_them(crossing: VisitorResponder) -> None:
    async with working(crossing.app):
        receipts = [await crossing.submit_visitor_message(asked_by(v, "1", "cross")) for v in VISITORS]
        async with asyncio.timeout(WITHIN_S):
            ended = await asyncio.gather(*(receipt.result() for receipt in receipts), return_exceptions=True)
        assert sorted(type(each).__name__ for each in ended) == ["HandlerFailed", "dict"]
        (failed,) = [each for each in ended if isinstance(each, HandlerFailed)]
        assert failed.errors[-1]["type"] == "DeadlockDetected"
        await until(lambda: all_settled(crossing), WITHIN_S)
