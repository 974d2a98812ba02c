"""What becomes of a message whose answer failed: it blocks nobody, is seen by the next answer, and is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from inturn.agents.protocol import Ask
from inturn.app import LANE_TTL
from inturn.errors import AgentRejected, AgentTimeout, AgentUnavailable, HandlerFailed
from inturn.testing import ManualClock, app_for_tests, drain
from inturn.visitors.chat import Outcome
from inturn.visitors.message import WRITE_WAIT_S
from inturn.visitors.responder import VisitorResponder
from tests.acceptance.processes import Child
from tests.conftest import MakeApp
from tests.visitors.listener import listening, serving
from tests.visitors.world import Recorder, answers, chat_of, every_attempt, outcomes, said, set_up, working, written


class Dies(BaseException):
    """Nothing that a handler catches: as if its process had died there."""


def away(ask: Ask) -> str:
    raise AgentUnavailable("recorder", "is away")


def refusing(word: str) -> Callable[[Ask], str]:
    def reply(ask: Ask) -> str:
        if word in ask.text + "".join(each.text for each in ask.history):
            raise AgentRejected("recorder", "no")
        return f"re: {ask.text}"

    return reply


async def fails(responder: VisitorResponder, *numbers: int) -> None:
    for number in numbers:
        with pytest.raises(AgentUnavailable):
            await responder.handle_visitor_message(said(number))


@pytest.mark.parametrize("busy", ["merge", "interrupt"])
async def test_what_failed_while_the_agent_was_away_is_taken_in_by_the_next_answer(
    make_app: MakeApp, agent: Recorder, busy: str
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy=busy)
    agent.reply = away
    await fails(responder, 1, 2, 3)
    assert await outcomes(responder) == dict.fromkeys(("m1", "m2", "m3"), "failed")
    agent.reply = lambda ask: "back"
    answer = await responder.handle_visitor_message(said(4))
    assert answer is not None
    assert agent.texts[-1] == "text 1\ntext 2\ntext 3\ntext 4"
    assert set((await outcomes(responder)).values()) == {"answered"}
    asked = len(agent.asked)
    assert await responder.handle_visitor_message(said(2)) == answer, "its repeat finds the answer that has seen it"
    assert len(agent.asked) == asked
    await responder.handle_visitor_message(said(5))
    assert agent.texts[-1] == "text 5"


@pytest.mark.parametrize("busy", ["queue", "drop", "reject", "latest", "rollback"])
async def test_where_nothing_is_gathered_the_agent_is_told_of_it_as_history(
    make_app: MakeApp, agent: Recorder, busy: str
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy=busy)
    agent.reply = away
    await fails(responder, 1)
    agent.reply = lambda ask: "back"
    await responder.handle_visitor_message(said(2))
    assert agent.texts[-1] == "text 2"
    assert [each.text for each in agent.asked[-1].history] == ["text 1"]
    assert await outcomes(responder) == {"m1": "failed", "m2": "answered"}
    await responder.handle_visitor_message(said(1))
    assert agent.texts[-1] == "text 1", "its own repeat answers it"
    assert await outcomes(responder) == {"m1": "answered", "m2": "answered"}


@pytest.mark.parametrize("busy", ["merge", "queue"])
@pytest.mark.parametrize("error", [AgentRejected, AgentTimeout])
async def test_what_the_next_answer_fails_over_is_left_out_for_good(
    make_app: MakeApp, agent: Recorder, busy: str, error: type[Exception]
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy=busy)

    def choke(ask: Ask) -> str:
        if "poison" in ask.text + "".join(each.text for each in ask.history):
            raise error("recorder", "no")
        return f"re: {ask.text}"

    agent.reply = choke
    with pytest.raises(error):
        await responder.handle_visitor_message(said(1, "poison"))
    for number in (2, 3):
        assert await responder.handle_visitor_message(said(number)) is not None
    asked = ["poison", "poison\ntext 2" if busy == "merge" else "text 2", "text 2", "text 3"]
    assert agent.texts == asked, "it cost the second message one more question, and the third none"
    assert await outcomes(responder) == {"m1": "failed", "m2": "answered", "m3": "answered"}


@pytest.mark.parametrize("outcome", ["dropped", "superseded", "unanswered", "answered"])
async def test_what_no_agent_has_answered_cannot_spoil_the_chat_as_history(
    make_app: MakeApp, agent: Recorder, outcome: Outcome
) -> None:
    """It was never asked about, so nobody knew that the agent cannot take it."""
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    agent.reply = refusing("poison")
    await written(responder, (said(1, "poison"), outcome), by_graph=True)
    for number in (2, 3):
        assert await responder.handle_visitor_message(said(number)) is not None
    assert agent.texts == ["text 2", "text 2", "text 3"]
    assert [each.text for each in agent.asked[-1].history if each.role == "user"] == ["text 2"]


async def test_a_dead_letter_is_taken_in_by_the_next_answer_too(agent: Recorder) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent)
        await set_up(responder)
        agent.reply = away
        receipt = await responder.submit_visitor_message(said(1))
        await every_attempt(app, clock)
        with pytest.raises(HandlerFailed):
            await receipt.result(1)
        agent.reply = lambda ask: "back"
        await responder.submit_visitor_message(said(2))
        await drain(app, raise_errors=True)
        assert await answers(responder) == [("back", ["m1", "m2"])]
        asked = len(agent.asked)
        (letter,) = await app.dead_letters.list()
        await app.dead_letters.replay(letter.key, letter.handler, letter.id)
        await drain(app, raise_errors=True)
        assert len(agent.asked) == asked, "the replay finds it answered"


async def test_what_its_workers_died_over_each_time_is_failed_and_left_out(agent: Recorder) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent)
        await set_up(responder)

        def die(ask: Ask) -> str:
            raise Dies

        agent.reply = die
        receipt = await responder.submit_visitor_message(said(1))
        async with serving(responder) as base, listening(base) as events:
            await every_attempt(app, clock)
            with pytest.raises(HandlerFailed):
                await receipt.result(1)
            assert await outcomes(responder) == {"m1": "failed"}
            heard = [(await events.next()).event for _ in range(11)]
            assert heard == ["typing", "problem"] * 5 + ["outcome"]
        agent.reply = lambda ask: "back"
        await responder.submit_visitor_message(said(2))
        await drain(app, raise_errors=True)
        assert agent.texts[-1] == "text 2"
        assert agent.asked[-1].history == (), "nobody else dies over it"
        assert await responder.handle_visitor_message(said(1)) is not None
        assert await outcomes(responder) == {"m1": "answered", "m2": "answered"}


async def test_a_worker_that_dies_is_told_to_whoever_watches(make_app: MakeApp, store_url: str, namespace: str) -> None:
    """Killed while it answers. The next one answers."""
    app = make_app()
    responder = VisitorResponder(app, Recorder(), lease=4)
    await set_up(responder)
    async with serving(responder) as base, listening(base) as events:
        await responder.submit_visitor_message(said(1))
        stuck = Child("tests.visitors.stuck", store_url, namespace)
        try:
            assert (await events.next()).event == "typing"
            stuck.kill()
            async with working(app):
                heard = await events.take(3)
        finally:
            stuck.end()
    assert [each.event for each in heard] == ["problem", "typing", "answer"]


async def test_an_awaited_failure_is_told_to_whoever_watches(
    front: VisitorResponder, back: VisitorResponder, agent: Recorder
) -> None:
    """Or it would look as if someone were typing for ever."""
    agent.reply = away
    async with serving(front) as base, listening(base) as events:
        await fails(back, 1)
        heard = await events.take(3)
    assert [each.event for each in heard] == ["typing", "problem", "outcome"]
    assert heard[-1].data["outcome"] == "failed"


async def test_whoever_watches_gets_the_answer_though_its_caller_went_away(
    front: VisitorResponder, back: VisitorResponder, agent: Recorder
) -> None:
    agent.hold()
    async with serving(front) as base, listening(base) as events:
        asking = asyncio.create_task(back.handle_visitor_message(said(1)))
        assert (await events.next()).event == "typing"
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        agent.opened.set()
        assert (await events.next()).event == "answer"
    assert await outcomes(front) == {"m1": "answered"}


async def test_what_is_answered_is_told_as_history_even_if_it_once_was_left_out(
    make_app: MakeApp, agent: Recorder
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)

    agent.reply = refusing("odd")
    with pytest.raises(AgentRejected):
        await responder.handle_visitor_message(said(1, "odd"))
    await responder.handle_visitor_message(said(2))
    assert (await chat_of(responder)).messages[0].is_left_out
    agent.reply = lambda ask: f"re: {ask.text}"
    await responder.handle_visitor_message(said(1, "odd"))
    await responder.handle_visitor_message(said(3))
    assert [each.text for each in agent.asked[-1].history] == ["odd", "text 2", "re: text 2", "re: odd"]


async def test_who_comes_back_is_told_of_what_failed_meanwhile(front: VisitorResponder, agent: Recorder) -> None:
    await set_up(front, "c1", busy="queue")
    await front.handle_visitor_message(said(2))
    agent.reply = away
    await fails(front, 1)
    async with serving(front) as base, listening(base, **{"last-event-id": "2"}) as events:
        told = await events.next()
        assert (told.event, told.data["message_id"], told.data["outcome"]) == ("outcome", "m1", "failed")
        agent.reply = lambda ask: "back"
        await front.handle_visitor_message(said(3))
        assert [each.event for each in await events.take(2)] == ["typing", "answer"], "it is told once"


def test_a_write_outlasts_one_that_was_killed() -> None:
    """A process that dies while it writes to a chat keeps it for one lease: that must not cost a message of others."""
    assert WRITE_WAIT_S >= LANE_TTL + 3
