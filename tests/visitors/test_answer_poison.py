"""A message that the agent cannot take costs nobody else an answer, however it comes in. On both stores."""

from __future__ import annotations

import asyncio

import pytest

from inturn.agents.protocol import Ask
from inturn.errors import AgentRejected, AgentTimeout, HandlerFailed
from inturn.testing import ManualClock, app_for_tests, drain
from inturn.visitors.responder import VisitorResponder
from inturn.visitors.selection import choose
from tests.conftest import MakeApp
from tests.visitors.world import (
    Recorder,
    answers,
    every_attempt,
    filled_chat,
    outcomes,
    said,
    set_up,
)
from tests.waiting import until_waiting


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
        assert accepted.receipt.status == "accepted"
        await drain(app, raise_errors=True)
        assert await outcomes(responder) == {"m1": "answered", "m2": "answered"}


def test_with_gathering_policies_what_failed_since_the_last_answer_is_taken_in() -> None:
    chat = filled_chat(4)
    for message, outcome in zip(chat.messages, ("failed", "failed", "failed", None), strict=True):
        message.outcome = outcome  # type: ignore[assignment]
    chat.messages[1].is_left_out = True
    own = chat.messages[3:]
    assert [message.id for message in choose(chat, "merge", own, False).burst] == ["m0", "m2", "m3"]
    assert [message.id for message in choose(chat, "merge", own, True).burst] == ["m3"]
    assert [message.id for message in choose(chat, "queue", own, False).burst] == ["m3"]


def test_with_replacing_policies_the_newest_is_answered() -> None:
    chat = filled_chat(3)
    choice = choose(chat, "latest", chat.messages[1:], False)
    assert [message.id for message in choice.burst] == ["m2"]
    assert [message.id for message in choice.superseded] == ["m1"]


@pytest.mark.parametrize("is_awaited", [True, False])
async def test_one_of_a_burst_that_is_refused_costs_the_others_nothing(
    make_app: MakeApp, agent: Recorder, is_awaited: bool
) -> None:
    """Each is tried by itself at once: the others need not wait until all attempts are used up together."""
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)

    def refuse(ask: Ask) -> str:
        if "poison" in ask.text:
            raise AgentRejected("recorder", "no")
        return f"re: {ask.text}"

    agent.reply = refuse
    await responder.app.lanes.pause("visitor:v1")
    events = [said(1), said(2, "poison"), said(3)]
    if not is_awaited:
        for event in events:
            await responder.submit_visitor_message(event)
        await responder.app.lanes.resume("visitor:v1")
        await drain(responder.app)
        assert [ran.startswith("re: ") for ran, _ in await answers(responder)] == [True], "before the one at fault"
    else:
        calls = [asyncio.create_task(responder.handle_visitor_message(event)) for event in events]
        await until_waiting(responder.app, "visitor:v1", 3)
        await responder.app.lanes.resume("visitor:v1")
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each).__name__ for each in ended] == ["Answer", "AgentRejected", "Answer"]
        assert await outcomes(responder) == {"m1": "answered", "m2": "failed", "m3": "answered"}
    assert agent.texts[:2] == ["text 1\npoison\ntext 3", "text 1"]
