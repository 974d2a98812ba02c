"""Who is not answered, and why: the gates in their order, and an answer that is empty."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from inturn import InTurn
from inturn.agents.activity import Activity
from inturn.visitors.presence import LanePresence
from inturn.visitors.projects import LaneProjects, ProjectSettings
from inturn.visitors.responder import VisitorResponder
from tests.visitors.world import Recorder, answers, chat_of, outcomes, said, set_up

ALL_OPEN = {"enabled": True, "human": False, "exists": True, "ai_enabled": True}
REASONS = {
    "enabled": "AI answers are off",
    "human": "human agent is online",
    "exists": "no such conversation",
    "ai_enabled": "ai_enabled off",
}


async def ask_with(
    app: InTurn, agent: Recorder, gates: Mapping[str, bool], caplog: pytest.LogCaptureFixture
) -> list[str]:
    """The reasons that were logged."""
    responder = VisitorResponder(app, agent)
    await responder.projects.put("p1", ProjectSettings(enabled=gates["enabled"]))
    await responder.presence.set("p1", "anna", gates["human"])
    if gates["exists"]:
        await responder.conversations.open("c1", "p1", "v1")
        await responder.conversations.set_ai_enabled("c1", gates["ai_enabled"])
    answer = await responder.handle_visitor_message(said(1))
    assert (answer is None) == (agent.asked == [])
    if gates["exists"]:
        assert await outcomes(responder) == {"m1": "answered" if agent.asked else "unanswered"}
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("unanswered")]


async def test_all_gates_open_is_answered(app: InTurn, agent: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    assert await ask_with(app, agent, ALL_OPEN, caplog) == []
    assert agent.texts == ["text 1"]


@pytest.mark.parametrize("first", list(REASONS))
@pytest.mark.parametrize("others", ["open", "closed"])
async def test_the_first_closed_gate_is_the_reason(
    app: InTurn, agent: Recorder, caplog: pytest.LogCaptureFixture, first: str, others: str
) -> None:
    names = list(REASONS)
    closed = [first] if others == "open" else names[names.index(first) :]
    gates = {name: is_open if name not in closed else not is_open for name, is_open in ALL_OPEN.items()}
    (reason,) = await ask_with(app, agent, gates, caplog)
    assert REASONS[first] in reason
    assert agent.asked == []


async def test_an_unknown_project_does_not_answer(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await responder.conversations.open("c1", "p1", "v1")
    assert await responder.handle_visitor_message(said(1)) is None
    assert await outcomes(responder) == {"m1": "unanswered"}


async def test_gates_are_asked_in_order_and_no_further_than_needed(app: InTurn, agent: Recorder) -> None:
    seen: list[str] = []

    class Projects(LaneProjects):
        async def get(self, project_id: str, tenant_id: str = "") -> ProjectSettings | None:
            seen.append("project")
            return await super().get(project_id, tenant_id)

    class Presence(LanePresence):
        async def human_online(self, project_id: str, tenant_id: str = "") -> bool:
            seen.append("presence")
            return await super().human_online(project_id, tenant_id)

    responder = VisitorResponder(app, agent, None, Projects(app), Presence(app))
    await set_up(responder)
    seen.clear()
    await responder.handle_visitor_message(said(1))
    assert seen == ["project", "project", "presence"], "the first asks for the policy"
    await responder.projects.put("p1", ProjectSettings(enabled=False))
    seen.clear()
    await responder.handle_visitor_message(said(2))
    assert seen == ["project", "project"]


async def test_what_belongs_to_another_visitor_is_not_there(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    assert await responder.handle_visitor_message(said(1, visitor_uid="v2")) is None
    assert (await chat_of(responder)).messages == []
    assert agent.asked == []


@pytest.mark.parametrize("empty", ["", "  \n"])
async def test_an_empty_answer_stores_and_sends_nothing(app: InTurn, agent: Recorder, empty: str) -> None:
    delivered: list[object] = []
    app.handler("deliver")(lambda turn: delivered.append(turn.body))
    responder = VisitorResponder(app, agent)
    await set_up(responder, deliver="deliver")
    agent.reply = lambda ask: empty
    agent.activities = [Activity(type="message", sender={"role": "user"}, text="an echo of the user")]
    assert await responder.handle_visitor_message(said(1)) is None
    assert await outcomes(responder) == {"m1": "unanswered"}
    assert await answers(responder) == []
    assert [lane.key for lane in await app.lanes.list()] == []


async def test_history_is_the_newest_ten_oldest_first(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder, instructions="Be kind.")
    for number in range(7):
        await responder.handle_visitor_message(said(number))
    last = agent.asked[-1]
    assert last.instructions == "Be kind."
    assert [said.text for said in last.history] == [
        text for number in range(1, 6) for text in (f"text {number}", f"re: text {number}")
    ]
    assert [said.role for said in last.history] == ["user", "assistant"] * 5


async def test_what_the_agent_must_remember_comes_back_to_it(app: InTurn, agent: Recorder) -> None:
    def count(ask: object) -> str:
        memory = agent.asked[-1].memory
        memory["asked"] = memory.get("asked", 0) + 1
        return str(memory["asked"])

    agent.reply = count
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    told = [await responder.handle_visitor_message(said(number)) for number in range(3)]
    assert [answer.text for answer in told if answer is not None] == ["1", "2", "3"]
