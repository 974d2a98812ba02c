"""`handle_visitor_message`: who is answered when several messages meet, by policy, on both stores."""

from __future__ import annotations

import asyncio
import logging

import pytest

from inturn.agents.protocol import Ask
from inturn.errors import AgentRejected, AgentUnavailable, BadMessage, LaneBusy
from inturn.visitors.responder import AiResponderService, VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import SKIPPED, Recorder, answers, chat_of, outcomes, said, set_up
from tests.waiting import until, until_waiting

LANE = "visitor:v1"


async def burst(first: VisitorResponder, second: VisitorResponder, agent: Recorder) -> list[object]:
    """One message is being answered, two more come from another process."""
    agent.hold()
    running = [asyncio.create_task(first.handle_visitor_message(said(1)))]
    await agent.reached.wait()
    for number in (2, 3):
        running.append(asyncio.create_task(second.handle_visitor_message(said(number))))
        await until_waiting(first.app, LANE, number - 1)
    agent.opened.set()
    return list(await asyncio.gather(*running))


async def test_a_message_gets_its_answer_and_a_repeat_gets_the_same(make_app: MakeApp, agent: Recorder) -> None:
    responder = AiResponderService(make_app(), agent)
    await set_up(responder)
    first = await responder.handle_visitor_message(said(1).model_dump())
    assert first is not None
    assert (first.text, first.answers, first.agent) == ("re: text 1", ("m1",), "recorder")
    assert await responder.handle_visitor_message(said(1)) == first
    assert agent.texts == ["text 1"]
    chat = await chat_of(responder)
    assert [(m.seq, m.role, m.text, m.outcome) for m in chat.messages] == [
        (1, "visitor", "text 1", "answered"),
        (2, "assistant", "re: text 1", None),
    ]
    assert chat.fence > 0


async def test_merge_answers_all_that_waited_with_one_answer(make_app: MakeApp, agent: Recorder) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first)
    one, two, three = await burst(first, second, agent)
    assert agent.texts == ["text 1", "text 2\ntext 3"]
    assert two == three != one
    assert await answers(first) == [("re: text 1", ["m1"]), ("re: text 2\ntext 3", ["m2", "m3"])]


async def test_queue_answers_each_in_order(make_app: MakeApp, agent: Recorder) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy="queue")
    await burst(first, second, agent)
    assert agent.texts == ["text 1", "text 2", "text 3"]
    assert [[said.text for said in ask.history] for ask in agent.asked] == [
        [],
        ["text 1", "re: text 1"],
        ["text 1", "text 2", "re: text 1", "re: text 2"],
    ]


async def test_latest_answers_the_newest_and_supersedes_the_older(make_app: MakeApp, agent: Recorder) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy="latest")
    one, two, three = await burst(first, second, agent)
    assert agent.texts == ["text 1", "text 3"]
    assert one is not None
    assert two is None
    assert three is not None
    assert await outcomes(first) == {"m1": "answered", "m2": "superseded", "m3": "answered"}


@pytest.mark.parametrize(
    ("busy", "last", "ends"),
    [
        ("interrupt", "text 1\ntext 2", {"m1": "answered", "m2": "answered"}),
        ("rollback", "text 2", {"m1": "superseded", "m2": "answered"}),
    ],
)
async def test_a_newer_message_interrupts_the_answer(
    make_app: MakeApp, agent: Recorder, busy: str, last: str, ends: dict[str, str]
) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy=busy)
    agent.hold()
    one = asyncio.create_task(first.handle_visitor_message(said(1)))
    await agent.reached.wait()
    agent.reached.clear()
    two = asyncio.create_task(second.handle_visitor_message(said(2)))
    await agent.reached.wait()
    await until_waiting(first.app, LANE, 1)  # the first has come round again
    agent.opened.set()
    old, new = await one, await two
    assert agent.cancelled == 1, "it does not interrupt back"
    assert agent.texts == ["text 1", last]
    assert old == (new if busy == "interrupt" else None)
    assert await outcomes(first) == ends


async def test_drop_logs_the_line_marks_the_message_and_returns(
    make_app: MakeApp, agent: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy="drop")
    agent.hold()
    one = asyncio.create_task(first.handle_visitor_message(said(1)))
    await agent.reached.wait()
    assert await second.handle_visitor_message(said(2)) is None
    lines = [r for r in caplog.records if r.getMessage() == SKIPPED]
    assert [(r.name, r.levelno >= logging.INFO) for r in lines] == [("inturn.visitors", True)]
    agent.opened.set()
    first_answer = await one
    assert first_answer is not None
    assert await second.handle_visitor_message(said(2)) is None, "a repeat of what was dropped is not answered"
    assert await outcomes(first) == {"m1": "answered", "m2": "dropped"}
    agent.hold()
    three = asyncio.create_task(first.handle_visitor_message(said(3)))
    await agent.reached.wait()
    assert await second.handle_visitor_message(said(1)) == first_answer, "what was answered is not dropped later"
    agent.opened.set()
    await three
    assert agent.texts == ["text 1", "text 3"]


async def test_a_message_that_is_delivered_twice_is_not_dropped_under_its_own_answer(
    make_app: MakeApp, agent: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy="drop")
    agent.hold()
    one = asyncio.create_task(first.handle_visitor_message(said(1)))
    await agent.reached.wait()
    assert await second.handle_visitor_message(said(1)) is None
    assert SKIPPED in caplog.text
    agent.opened.set()
    assert await one is not None
    assert await outcomes(first) == {"m1": "answered"}


async def test_an_agent_slower_than_the_lease_keeps_its_turn(make_app: MakeApp, agent: Recorder) -> None:
    # a lease that a process which gets no processor for three seconds still keeps
    first, second = (VisitorResponder(make_app(), agent, lease=5) for _ in range(2))
    await set_up(first, busy="queue")
    agent.hold()
    one = asyncio.create_task(first.handle_visitor_message(said(1)))
    await agent.reached.wait()
    two = asyncio.create_task(second.handle_visitor_message(said(2)))
    done, _ = await asyncio.wait([one, two], timeout=7)
    assert not done
    assert agent.texts == ["text 1"], "nobody else has got the lane"
    agent.opened.set()
    assert None not in await asyncio.gather(one, two)


async def test_reject_raises_and_leaves_nothing_in_the_chat(make_app: MakeApp, agent: Recorder) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy="reject")
    agent.hold()
    one = asyncio.create_task(first.handle_visitor_message(said(1)))
    await agent.reached.wait()
    with pytest.raises(LaneBusy):
        await second.handle_visitor_message(said(2))
    agent.opened.set()
    await one
    assert await outcomes(first) == {"m1": "answered"}
    assert await second.handle_visitor_message(said(2)) is not None, "the same message may come again"


async def test_an_error_goes_to_the_caller_and_a_repeat_tries_again(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    failure = AgentUnavailable("recorder", "cannot be reached")

    def fail(ask: Ask) -> str:
        raise failure

    agent.reply = fail
    before = await chat_of(responder)
    with pytest.raises(AgentUnavailable) as raised:
        await responder.handle_visitor_message(said(1))
    assert raised.value is failure
    assert await outcomes(responder) == {"m1": "failed"}
    assert (await chat_of(responder)).metadata == before.metadata
    agent.reply = lambda ask: "now"
    answer = await responder.handle_visitor_message(said(1))
    assert answer is not None
    assert answer.text == "now"


async def test_a_message_that_the_agent_refuses_does_not_hold_up_the_next(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)

    def refuse_bad_words(ask: Ask) -> str:
        if any("bad" in text for text in [ask.text, *(said.text for said in ask.history)]):
            raise AgentRejected("recorder", "refused")
        return f"re: {ask.text}"

    agent.reply = refuse_bad_words
    with pytest.raises(AgentRejected):
        await responder.handle_visitor_message(said(1, "bad"))
    answer = await responder.handle_visitor_message(said(2, "good"))
    assert answer is not None
    assert answer.text == "re: good"
    assert await outcomes(responder) == {"m1": "failed", "m2": "answered"}


async def test_two_visitors_are_answered_at_once(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.conversations.open("c2", "p1", "v2")
    agent.hold()
    other = said(2, conversation_id="c2", visitor_uid="v2")
    both = [asyncio.create_task(responder.handle_visitor_message(event)) for event in (said(1), other)]

    async def both_are_asked() -> bool:
        return len(agent.asked) == 2

    await until(both_are_asked)
    agent.opened.set()
    await asyncio.gather(*both)


async def test_tenants_have_chats_and_lanes_of_their_own(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    event = said(1, tenant_id="acme")
    assert event.lane == "visitor:acme:v1"
    assert await responder.handle_visitor_message(event) is None, "the project of the other tenant is not this one"
    assert await responder.conversations.get("c1", "acme") is None
    assert agent.texts == []


@pytest.mark.parametrize(
    "wrong",
    [{"text": ""}, {"text": "x" * 8001}, {"visitor_uid": "a>b"}, {"visitor_uid": "a/b"}, {"message_id": "a\nb"},
     {"conversation_id": "a/b"},
     {"message_id": "x" * 129}, {"project_id": "\U0001f600" * 100}, {"tenant_id": "a:b"}],
)  # fmt: skip
async def test_what_is_no_message_is_refused(make_app: MakeApp, agent: Recorder, wrong: dict[str, str]) -> None:
    responder = VisitorResponder(make_app(), agent)
    with pytest.raises(BadMessage, match=next(iter(wrong))):
        await responder.handle_visitor_message(said(1).model_dump() | wrong)
