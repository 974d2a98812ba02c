"""What a visitor's message costs: store calls from its arrival to its answer, counted on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.lanes.executor import take_turn
from inturn.testing import drain
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import Recorder, answers, said, set_up

VERBS = (
    "submit",
    "begin",
    "commit",
    "fail",
    "leave",
    "claim",
    "claim_lane",
    "attend",
    "lane",
    "steer",
    "cancel",
    "stop",
)
MOST = 5


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Any:
    def count(*responders: VisitorResponder) -> list[str]:
        calls: list[str] = []
        for store in {responder.app.process.store for responder in responders}:
            for verb in VERBS:
                monkeypatch.setattr(store, verb, noting(calls, verb, getattr(store, verb)))
        return calls

    return count


def noting(calls: list[str], verb: str, call: Any) -> Any:
    async def noted(*args: Any, **options: Any) -> Any:
        calls.append(verb)
        return await call(*args, **options)

    return noted


@pytest.mark.parametrize("busy", ["merge", "queue", "drop", "reject", "interrupt", "rollback", "latest"])
async def test_an_awaited_message_costs_five_calls(make_app: MakeApp, agent: Recorder, counted: Any, busy: str) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy=busy)
    await responder.handle_visitor_message(said(1))
    calls = counted(responder)
    assert await responder.handle_visitor_message(said(2)) is not None
    assert calls == ["lane", "submit", "claim_lane", "lane", "commit"]
    assert len(calls) <= MOST


@pytest.mark.parametrize("busy", ["merge", "queue", "drop", "reject", "interrupt", "rollback", "latest"])
async def test_a_submitted_message_costs_five_calls(
    make_app: MakeApp, agent: Recorder, counted: Any, busy: str
) -> None:
    """From one process to the worker of another, with a delivery."""
    front, back = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    for responder in (front, back):
        responder.app.handler("deliver")(lambda turn: None)
    await set_up(front, busy=busy, deliver="deliver")
    await front.submit_visitor_message(said(1))
    await drain(back.app, raise_errors=True)
    await front.conversations.open("c1", "p1", "v1")  # as the route does for each message
    calls = counted(front, back)
    await front.conversations.open("c1", "p1", "v1")
    await front.submit_visitor_message(said(2))
    posted = list(calls)
    calls.clear()
    given = await back.app.runtime.claim(["visitor"], 1, back.app.process.store.partition_of("visitor:v1"))
    await take_turn(back.app.runtime, given.turns[0], given.turns[0].state, lambda: False)
    assert posted == ["lane", "submit"]
    assert calls == ["claim", "lane", "commit"]
    assert len(posted) + len(calls) <= MOST
    assert len(await answers(front)) == 2
