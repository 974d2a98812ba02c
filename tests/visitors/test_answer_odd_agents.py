"""Agents that yield odd things, and agents that never stop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from inturn import InTurn
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import AgentRejected
from inturn.testing import drain
from inturn.visitors.responder import VisitorResponder
from tests.visitors.world import Recorder, chat_of, said, set_up


async def test_half_a_character_costs_nobody_the_answer(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    agent.activities = [Activity.piece("half \ud83d")]
    agent.reply = lambda ask: "whole \ud83d"
    await responder.submit_visitor_message(said(1))
    async with app.watch("visitor:v1") as events:
        await drain(app, raise_errors=True)
        chunks = []
        async for event in events:
            if event.what == "commit":
                break
            chunks += [event.data] if event.what == "chunk" else []
    assert chunks[-1]["text"] == "half ?"
    assert (await chat_of(responder)).messages[-1].text == "whole ?"


async def test_what_is_no_activity_is_passed_over(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    agent.activities = [None, 5, {"type": "typing", "text": 7}, {"text": "as a mapping"}]  # type: ignore[list-item]
    answer = await responder.handle_visitor_message(said(1))
    assert answer is not None
    assert answer.text == "as a mapping\n\nre: text 1"


@pytest.mark.parametrize(("odd", "kept"), [("\ud83d", "?"), (float("inf"), None), (object(), None)])
async def test_memory_is_kept_as_json_or_refused(app: InTurn, agent: Recorder, odd: Any, kept: Any) -> None:
    def remember(ask: Ask) -> str:
        ask.memory["odd"] = odd
        return "noted"

    responder = VisitorResponder(app, agent)
    await set_up(responder)
    agent.reply = remember
    if type(odd) is object:
        with pytest.raises(AgentRejected, match="remember"):
            await responder.handle_visitor_message(said(1))
    else:
        await responder.handle_visitor_message(said(1))
        assert (await chat_of(responder)).metadata == {"agent_memory": {"odd": kept}}


@pytest.mark.parametrize("activity", [Activity.said("again"), Activity.piece("x" * 8000)])
@pytest.mark.timeout(60)
async def test_an_agent_that_never_stops_is_stopped(app: InTurn, activity: Activity) -> None:
    class Endless:
        name = "endless"
        is_closed = False

        async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
            try:
                while True:
                    yield activity
            finally:
                self.is_closed = True

        async def aclose(self) -> None: ...

    agent = Endless()
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    with pytest.raises(AgentRejected, match="without end"):
        await responder.handle_visitor_message(said(1))
    assert agent.is_closed


async def test_an_error_of_the_agents_own_is_raised_as_it_is(app: InTurn, agent: Recorder) -> None:
    failure = ZeroDivisionError("of the agent")

    def fail(ask: Ask) -> str:
        raise failure

    responder = VisitorResponder(app, agent)
    await set_up(responder)
    agent.reply = fail
    with pytest.raises(ZeroDivisionError) as raised:
        await responder.handle_visitor_message(said(1))
    assert raised.value is failure
