"""`submit_visitor_message`: a worker answers; retries, dead letters and duplicates go the lane's way."""

from __future__ import annotations

import pytest

from inturn import InTurn
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import AgentError, AgentRejected, AgentUnavailable, HandlerFailed, LaneBusy
from inturn.testing import ManualClock, app_for_tests, drain
from inturn.visitors.message import Posted
from inturn.visitors.projects import ProjectSettings
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import SKIPPED, Recorder, answers, chat_of, every_attempt, outcomes, said, set_up, working
from tests.waiting import until_waiting


@pytest.mark.parametrize(
    ("busy", "asked", "ends"),
    [
        ("merge", ["text 1\ntext 2\ntext 3"], ["answered"] * 3),
        ("interrupt", ["text 1\ntext 2\ntext 3"], ["answered"] * 3),
        ("queue", ["text 1", "text 2", "text 3"], ["answered"] * 3),
        ("latest", ["text 3"], ["superseded", "superseded", "answered"]),
        ("rollback", ["text 3"], ["superseded", "superseded", "answered"]),
        ("drop", ["text 1"], ["answered", "dropped", "dropped"]),
    ],
)
async def test_what_waits_is_answered_by_policy(
    make_app: MakeApp, agent: Recorder, busy: str, asked: list[str], ends: list[str]
) -> None:
    front, back = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(front, busy=busy)
    for number in (1, 2, 3):
        receipt = await front.submit_visitor_message(said(number))
        assert (receipt.key, receipt.id) == ("visitor:v1", f"c1/m{number}")
    await drain(back.app, raise_errors=True)
    assert agent.texts == asked
    assert list((await outcomes(front)).values()) == ends


async def test_a_receipt_says_which_answer_it_is(make_app: MakeApp, agent: Recorder) -> None:
    front, back = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(front)
    receipt = await front.submit_visitor_message(said(1))
    async with working(back.app):
        result = await receipt.result(20)
    answer = (await chat_of(front)).messages[-1]
    assert result == {"answers": [{"conversation_id": "c1", "id": answer.id, "seq": 2}]}


async def test_a_burst_over_several_conversations_gets_an_answer_in_each(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, "c1", "c2")
    for number, conversation in enumerate(("c1", "c2", "c1")):
        await responder.submit_visitor_message(said(number, conversation_id=conversation))
    (ran,) = await drain(responder.app, raise_errors=True)
    assert len(ran.ids) == 3
    assert await answers(responder, "c1") == [("re: text 0\ntext 2", ["m0", "m2"])]
    assert await answers(responder, "c2") == [("re: text 1", ["m1"])]


@pytest.mark.parametrize("busy", ["latest", "rollback"])
async def test_a_newer_message_of_another_conversation_supersedes_nothing(
    make_app: MakeApp, agent: Recorder, busy: str
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, "c1", "c2", busy=busy)
    await responder.submit_visitor_message(said(1))
    await responder.submit_visitor_message(said(2, conversation_id="c2"))
    await drain(responder.app, raise_errors=True)
    assert await outcomes(responder, "c1") == {"m1": "answered"}
    assert await outcomes(responder, "c2") == {"m2": "answered"}


async def test_a_dropped_one_says_so_again_when_it_is_repeated(
    make_app: MakeApp, agent: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy="drop")
    first = await responder.accept(said(1))
    assert (first.receipt.status, first.is_repeat) == ("accepted", False)
    second = await responder.accept(said(2))
    assert (second.receipt.status, second.is_repeat) == ("dropped", False)
    again = await responder.accept(said(1))
    assert (again.receipt.status, again.is_repeat) == ("duplicate", True), "its own turn does not make it busy"
    repeated = await responder.accept(said(2))
    assert (repeated.receipt.status, repeated.is_repeat) == ("dropped", True)
    await drain(responder.app)
    assert await outcomes(responder) == {"m1": "answered", "m2": "dropped"}
    repeated = await responder.accept(said(2))
    assert (repeated.receipt.status, repeated.is_repeat) == ("dropped", True)
    assert await drain(responder.app) == []
    assert [r.getMessage() for r in caplog.records].count(SKIPPED) == 1
    assert agent.texts == ["text 1"]


async def test_reject_raises_busy_and_leaves_nothing_in_the_chat(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy="reject")
    await responder.submit_visitor_message(said(1))
    assert await outcomes(responder) == {"m1": None}
    with pytest.raises(LaneBusy):
        await responder.submit_visitor_message(said(2))
    await drain(responder.app, raise_errors=True)
    assert await outcomes(responder) == {"m1": "answered"}


async def test_a_repeat_is_one_message(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    statuses = [(await responder.accept(said(1)))[1] for _ in range(3)]
    await drain(responder.app, raise_errors=True)
    statuses.append((await responder.accept(said(1)))[1])
    assert statuses == [False, True, True, True]
    assert await drain(responder.app) == []
    assert agent.texts == ["text 1"]


async def test_a_failing_agent_is_tried_again_and_then_set_aside(agent: Recorder) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent)
        await set_up(responder)

        def fail(ask: Ask) -> str:
            raise AgentUnavailable("recorder", "is away")

        agent.reply = fail
        receipt = await responder.submit_visitor_message(said(1))
        assert await every_attempt(app, clock) == ["retry"] * 4 + ["dead"]
        with pytest.raises(HandlerFailed):
            await receipt.result(1)
        assert await outcomes(responder) == {"m1": "failed"}, "nothing vanishes"
        agent.reply = lambda ask: "at last"
        (letter,) = await app.dead_letters.list()
        await app.dead_letters.replay(letter.key, letter.handler, letter.id)
        await drain(app, raise_errors=True)
        assert await answers(responder) == [("at last", ["m1"])]


@pytest.mark.parametrize("kind", [AgentRejected, AgentUnavailable])
async def test_one_poisonous_message_of_a_burst_does_not_cost_the_others_their_answers(
    agent: Recorder, kind: type[AgentError]
) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent)
        await set_up(responder)

        def choke(ask: Ask) -> str:
            if "bad" in ask.text:
                raise kind("recorder", "choked")
            return f"re: {ask.text}"

        agent.reply = choke
        for number, text in enumerate(("good", "bad", "fine")):
            await responder.submit_visitor_message(said(number, text))
        await every_attempt(app, clock, 8)
        assert await outcomes(responder) == {"m0": "answered", "m1": "failed", "m2": "answered"}
        assert [letter.id for letter in await app.dead_letters.list()] == ["c1/m1"]
        await responder.submit_visitor_message(said(9, "later"))
        await every_attempt(app, clock, 8)
        assert (await outcomes(responder))["m9"] == "answered", "nor those that come later"


async def test_what_is_tried_again_is_answered_before_what_came_meanwhile(agent: Recorder) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent)
        await set_up(responder)
        agent.reply = lambda ask: f"re: {ask.text}" if len(agent.asked) > 1 else _away()
        await responder.submit_visitor_message(said(1))
        with pytest.raises(AgentUnavailable):  # ends after one attempt: the random pause before the next may be none
            await drain(app, raise_errors=True)
        await responder.submit_visitor_message(said(2))
        clock.advance(120)
        await drain(app, raise_errors=True)
        assert await answers(responder) == [("re: text 1", ["m1"]), ("re: text 2", ["m2"])]


def _away() -> str:
    raise AgentUnavailable("recorder", "is away")


async def test_watchers_see_typing_tokens_and_a_restart(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    again = Activity(type="event", value={"restart": True})
    agent.activities = [Activity.piece("lost"), Activity.said("lost"), again, Activity.piece("re: ")]
    await responder.submit_visitor_message(said(1))
    seen = []
    async with app.watch("visitor:v1") as events:
        await drain(app, raise_errors=True)
        async for event in events:
            if event.what == "chunk":
                seen.append(event.data)
            if event.what == "commit":
                break
    assert seen == [
        {"conversation_id": "c1", "event": "typing"},
        {"conversation_id": "c1", "event": "token", "text": "lost"},
        {"conversation_id": "c1", "event": "restart"},
        {"conversation_id": "c1", "event": "token", "text": "re: "},
    ]
    assert await answers(responder) == [("re: text 1", ["m1"])]


async def test_quiet_time_gathers_a_burst(agent: Recorder) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent, quiet=2)
        await set_up(responder)
        for number in (1, 2):
            await responder.submit_visitor_message(said(number))
            clock.advance(1)
            assert await drain(app) == []
        clock.advance(2)
        await drain(app, raise_errors=True)
        assert agent.texts == ["text 1\ntext 2"]


async def test_a_submitted_and_an_awaited_message_are_merged(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.submit_visitor_message(said(1))
    await until_waiting(responder.app, "visitor:v1", 1)
    async with working(responder.app):
        answer = await responder.handle_visitor_message(said(2))
    assert answer is not None
    assert "m2" in answer.answers
    await drain(responder.app)
    assert await outcomes(responder) == {"m1": "answered", "m2": "answered"}


async def test_a_message_that_names_a_wrong_project_costs_the_others_of_its_burst_nothing(
    app: InTurn, agent: Recorder
) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    await responder.projects.put("p2", ProjectSettings())
    for event in (said(1, project_id="p2"), said(2)):
        await app.submit("visitor", Posted(**event.model_dump()))
    await drain(app, raise_errors=True)
    assert await answers(responder) == [("re: text 2", ["m2"])]


async def test_long_answers_to_many_conversations_fit_into_one_result(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    names = [f"c{number}" for number in range(4)]
    await set_up(responder, *names)
    agent.reply = lambda ask: "\u8336" * 32_000
    for name in names:
        await responder.submit_visitor_message(said(1, conversation_id=name))
    (ran,) = await drain(app, raise_errors=True)
    assert len(ran.ids) == 4
    assert [len(await answers(responder, name)) for name in names] == [1] * 4
