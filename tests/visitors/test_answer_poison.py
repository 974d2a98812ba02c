"""A message that the agent cannot take costs nobody else an answer, however it comes in. On both stores."""

from __future__ import annotations

import pytest

from inturn.agents.protocol import Ask
from inturn.errors import AgentRejected, AgentTimeout, HandlerFailed, StoreUnavailable
from inturn.testing import ManualClock, app_for_tests, drain
from inturn.visitors.responder import VisitorResponder
from inturn.visitors.selection import choose
from tests.conftest import MakeApp
from tests.visitors.world import (
    Recorder,
    SavesBadly,
    answers,
    chat_of,
    every_attempt,
    filled_chat,
    outcomes,
    said,
    set_up,
    working,
)
from tests.waiting import until


def choke(ask: Ask) -> str:
    if any("poison" in text for text in (ask.text, *(said.text for said in ask.history))):
        raise AgentTimeout("recorder", "did not answer")
    return f"re: {ask.text}"


async def test_what_others_have_failed_over_is_not_gathered_again(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    agent.reply = choke
    with pytest.raises(AgentTimeout):
        await responder.handle_visitor_message(said(1, "poison"))
    for number in (2, 3):
        answer = await responder.handle_visitor_message(said(number))
        assert answer is not None
        assert answer.answers == (f"m{number}",)
    assert agent.texts == ["poison", "poison\ntext 2", "text 2", "text 3"], "it is not told as history either"
    with pytest.raises(AgentTimeout):
        await responder.handle_visitor_message(said(1, "poison"))
    agent.reply = lambda ask: "at last"
    assert await responder.handle_visitor_message(said(1, "poison")) is not None, "its own repeats try it again"


async def test_a_dead_letter_is_failed_in_its_chat_and_may_be_replayed(agent: Recorder) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent)
        await set_up(responder)
        agent.reply = choke
        receipt = await responder.submit_visitor_message(said(1, "poison"))
        await every_attempt(app, clock)
        with pytest.raises(HandlerFailed):
            await receipt.result(1)
        assert await outcomes(responder) == {"m1": "failed"}
        asked = len(agent.asked)
        for number in (2, 3):
            await responder.submit_visitor_message(said(number))
            await drain(app, raise_errors=True)
        assert agent.texts[asked:] == ["poison\ntext 2", "text 2", "text 3"], "the failed one holds up nobody"
        agent.reply = lambda ask: "at last"
        (letter,) = await app.dead_letters.list()
        await app.dead_letters.replay(letter.key, letter.handler, letter.id)
        await drain(app, raise_errors=True)
        assert (await answers(responder))[-1] == ("at last", ["m1"])
        assert set((await outcomes(responder)).values()) == {"answered"}


@pytest.mark.parametrize("busy", ["merge", "interrupt", "reject"])
async def test_a_failed_one_is_tried_again_when_it_is_repeated(agent: Recorder, busy: str) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        responder = VisitorResponder(app, agent)
        await set_up(responder, busy=busy)
        agent.reply = choke
        for number in (1, 2):
            await responder.submit_visitor_message(said(number, "poison"))
            await every_attempt(app, clock)
        agent.reply = lambda ask: "at last"
        assert await responder.handle_visitor_message(said(1, "poison")) is not None
        accepted = await responder.accept(said(2, "poison"))
        assert (accepted.receipt.status, accepted.is_repeat) == ("accepted", True)
        await drain(app, raise_errors=True)
        assert await outcomes(responder) == {"m1": "answered", "m2": "answered"}


@pytest.mark.parametrize("away", [StoreUnavailable("it is away"), OSError("of someone else's store")])
async def test_an_error_is_not_hidden_by_a_count_that_cannot_be_written(
    make_app: MakeApp, agent: Recorder, away: Exception
) -> None:
    app = make_app()
    responder = VisitorResponder(app, agent, conversations=SavesBadly(app, away))
    await set_up(responder)
    agent.reply = choke
    with pytest.raises(AgentTimeout):
        await responder.handle_visitor_message(said(1, "poison"))
    assert (await chat_of(responder)).messages[0].tries == 0


async def test_a_worker_that_died_has_tried_too(make_app: MakeApp, agent: Recorder) -> None:
    """It could not count: the next attempt does, before it asks."""
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)

    class Dies(BaseException):
        """Nothing that a handler catches."""

    def die(ask: Ask) -> str:
        raise Dies

    agent.reply = die
    await responder.submit_visitor_message(said(1))
    with pytest.raises(HandlerFailed):  # ends after one attempt: the pause before the next is random, and may be none
        await drain(responder.app, raise_errors=True)
    assert (await chat_of(responder)).messages[0].tries == 0
    agent.reply = lambda ask: "alive"
    agent.hold()
    async with working(responder.app):
        await agent.reached.wait()
        assert (await chat_of(responder)).messages[0].tries == 1
        agent.opened.set()

        async def is_answered() -> bool:
            return await outcomes(responder) == {"m1": "answered"}

        await until(is_answered)


def test_with_replacing_policies_what_failed_is_superseded_but_takes_nobodys_place() -> None:
    chat = filled_chat(3, is_settled=False)
    chat.messages[0].tries = chat.messages[2].tries = 1
    choice = choose(chat, "latest", ["m1"], False)
    assert [message.id for message in choice.burst] == ["m1"]
    assert [message.id for message in choice.superseded] == ["m0"]
    chat.messages[2].tries = 0
    choice = choose(chat, "latest", ["m1"], False)
    assert [message.id for message in choice.burst] == ["m2"]
    assert {message.id for message in choice.superseded} == {"m0", "m1"}


async def test_one_of_a_gathered_burst_that_is_refused_costs_the_others_nothing(
    make_app: MakeApp, agent: Recorder
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)

    def refuse(ask: Ask) -> str:
        if "poison" in ask.text:
            raise AgentRejected("recorder", "no")
        return f"re: {ask.text}"

    agent.reply = refuse
    await responder.conversations.add("c1", said(1, "poison"))
    assert await responder.handle_visitor_message(said(2)) is not None
    assert agent.texts == ["poison\ntext 2", "text 2"]
    assert [message.tries for message in (await chat_of(responder)).messages[:2]] == [1, 1]
