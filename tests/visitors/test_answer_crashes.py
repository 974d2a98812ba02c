"""Cut off around the commit: all of an answer is there, or nothing. On both stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn
from inturn.agents.protocol import Ask
from inturn.errors import StoreUnavailable
from inturn.store.lane import Commit, Ended
from inturn.testing import drain
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import Recorder, answers, chat_of, outcomes, said, set_up
from tests.waiting import until


def delivering(app: InTurn, delivered: list[Any]) -> None:
    @app.handler("deliver")
    async def deliver(turn: Any) -> None:
        delivered.append(turn.body["text"])


def cut_off(app: InTurn, monkeypatch: pytest.MonkeyPatch, *, is_written: bool) -> None:
    """The next commit of an answer is not confirmed: it was written, or never came to the store."""
    store, commit = app.process.store, app.process.store.commit
    has_been: list[bool] = []

    async def once(effects: Commit) -> Ended:
        if effects.ident.startswith("visitor\0") and not has_been:
            has_been.append(True)
            if is_written:
                await commit(effects)
            raise StoreUnavailable("no answer")
        return await commit(effects)

    monkeypatch.setattr(store, "commit", once)


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("busy", ["merge", "queue", "drop", "reject", "interrupt", "rollback", "latest"])
async def test_a_submitted_one_is_answered_once_and_delivered_once(
    make_app: MakeApp, agent: Recorder, monkeypatch: pytest.MonkeyPatch, busy: str, is_written: bool
) -> None:
    app, delivered = make_app(), []  # type: ignore[var-annotated]
    responder = VisitorResponder(app, agent)
    delivering(app, delivered)
    await set_up(responder, deliver="deliver", busy=busy)

    def remember(ask: Ask) -> str:
        ask.memory["seen"] = 1
        return f"re: {ask.text}"

    agent.reply = remember
    receipt = await responder.submit_visitor_message(said(1))
    cut_off(app, monkeypatch, is_written=is_written)

    async def is_settled() -> bool:
        await drain(app)
        return await outcomes(responder) == {"m1": "answered"} and bool(delivered)

    await until(is_settled)
    assert await receipt.result(5)
    assert await answers(responder) == [("re: text 1", ["m1"])]
    assert (await chat_of(responder)).metadata == {"agent_memory": {"seen": 1}}
    assert agent.texts == ["text 1"] * (1 if is_written else 2)
    for _ in range(2):
        assert (await responder.accept(said(1))).is_repeat
        await drain(app, raise_errors=True)
    assert delivered == ["re: text 1"], "however often it is repeated"


@pytest.mark.parametrize("is_written", [True, False])
async def test_an_awaited_one_gets_its_answer(
    make_app: MakeApp, agent: Recorder, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    app, delivered = make_app(), []  # type: ignore[var-annotated]
    responder = VisitorResponder(app, agent)
    delivering(app, delivered)
    await set_up(responder, deliver="deliver")
    cut_off(app, monkeypatch, is_written=is_written)
    for _ in range(3):
        answer = await responder.handle_visitor_message(said(1))
        assert answer is not None
        assert answer.text == "re: text 1"
        await drain(app, raise_errors=True)
    assert agent.texts == ["text 1"] * (1 if is_written else 2)
    assert delivered == ["re: text 1"]


async def test_a_turn_that_lost_its_lease_writes_nothing(make_app: MakeApp, agent: Recorder) -> None:
    """A process that was paused: someone else has cleared the lane meanwhile."""
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    agent.hold()
    answering = asyncio.create_task(responder.handle_visitor_message(said(1)))
    await agent.reached.wait()
    await responder.app.lanes.clear("visitor:v1")
    agent.reached.clear()
    agent.opened.set()
    answer = await answering
    assert answer is not None, "its caller asks again"
    assert await answers(responder) == [("re: text 1", ["m1"])]


async def test_what_someone_else_edits_during_the_answer_survives(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)

    def remember(ask: Ask) -> str:
        ask.memory["thread"] = "t1"
        return "noted"

    agent.reply = remember
    agent.hold()
    answering = asyncio.create_task(responder.handle_visitor_message(said(1)))
    await agent.reached.wait()
    edit = {"crm": {"owner": "anna"}, "agent_memory": {"note": "vip"}}
    assert (await responder.conversations.merge_metadata("c1", edit)).metadata == edit
    agent.opened.set()
    await answering
    assert (await chat_of(responder)).metadata == {
        "crm": {"owner": "anna"},
        "agent_memory": {"note": "vip", "thread": "t1"},
    }


@pytest.mark.parametrize("busy", ["latest", "rollback"])
async def test_the_answer_to_the_newest_is_delivered(make_app: MakeApp, agent: Recorder, busy: str) -> None:
    app, delivered = make_app(), []  # type: ignore[var-annotated]
    responder = VisitorResponder(app, agent)
    delivering(app, delivered)
    await set_up(responder, deliver="deliver", busy=busy)
    for number in (1, 2):
        await responder.submit_visitor_message(said(number))
    await drain(app, raise_errors=True)
    assert agent.texts == ["text 2"]
    assert delivered == ["re: text 2"]
    assert await outcomes(responder) == {"m1": "superseded", "m2": "answered"}
