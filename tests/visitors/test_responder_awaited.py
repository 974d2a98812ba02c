"""`handle_visitor_message`: who is answered when several messages meet, by policy, on both stores."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from inturn import InTurn
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import AgentRejected, AgentUnavailable, BadMessage, HandlerTimeout, LaneBusy, OwnLane
from inturn.visitors.answer import Answer
from inturn.visitors.chat import Chat, VisitorState
from inturn.visitors.conversations import CHAT_TTL_S
from inturn.visitors.responder import AiResponderService, VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import SKIPPED, Recorder, answers, chat_of, outcomes, said, set_up
from tests.waiting import until, until_waiting

LANE = "visitor:v1"


class Plain:
    """Thinks on whichever loop it is asked."""

    name = "plain"

    async def ask(self, ask: Ask) -> AsyncIterator[Activity]:
        await asyncio.sleep(0.1)
        yield Activity.said(f"re: {ask.text}")

    async def aclose(self) -> None: ...


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
        ["text 1", "re: text 1", "text 2", "re: text 2"],
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
    agent.opened.set()
    old, new = await one, await two
    assert agent.cancelled == 1
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


async def test_a_message_that_is_delivered_twice_gets_one_answer_both_times(
    make_app: MakeApp, agent: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy="drop")
    agent.hold()
    one = asyncio.create_task(first.handle_visitor_message(said(1)))
    await agent.reached.wait()
    again = asyncio.create_task(second.handle_visitor_message(said(1)))
    done, _ = await asyncio.wait([again], timeout=0.2)
    assert not done
    agent.opened.set()
    assert await again == await one is not None
    assert SKIPPED not in caplog.text
    assert agent.texts == ["text 1"]
    assert await outcomes(first) == {"m1": "answered"}


async def test_an_agent_slower_than_the_lease_keeps_its_turn(make_app: MakeApp, agent: Recorder) -> None:
    # a lease that a process which gets no processor for eight seconds still keeps
    first, second = (VisitorResponder(make_app(), agent, lease=10) for _ in range(2))
    await set_up(first, busy="queue")
    agent.hold()
    one = asyncio.create_task(first.handle_visitor_message(said(1)))
    await agent.reached.wait()
    two = asyncio.create_task(second.handle_visitor_message(said(2)))
    done, _ = await asyncio.wait([one, two], timeout=12)
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


@pytest.mark.parametrize("busy", ["queue", "drop", "reject", "merge", "latest"])
async def test_the_message_of_a_cancelled_call_is_answered_without_it(
    make_app: MakeApp, agent: Recorder, busy: str
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy=busy)
    agent.hold()
    answering = asyncio.create_task(responder.handle_visitor_message(said(1)))
    await agent.reached.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    agent.opened.set()

    async def is_answered() -> bool:
        return await outcomes(responder) == {"m1": "answered"}

    await until(is_answered)
    assert await responder.handle_visitor_message(said(2)) is not None, "and nobody is held up"
    repeated = await responder.handle_visitor_message(said(1))
    assert repeated is not None
    assert repeated.text == "re: text 1"
    assert agent.texts == ["text 1", "text 2"]


async def test_a_call_that_is_cancelled_while_it_waits_is_answered_too(make_app: MakeApp, agent: Recorder) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy="queue")
    agent.hold()
    running = asyncio.create_task(first.handle_visitor_message(said(1)))
    await agent.reached.wait()
    waiting = asyncio.create_task(second.handle_visitor_message(said(2)))
    await until_waiting(first.app, LANE, 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    agent.opened.set()
    assert await running is not None

    async def is_answered() -> bool:
        return await outcomes(first) == {"m1": "answered", "m2": "answered"}

    await until(is_answered)


async def cancelled_call(responder: VisitorResponder, when: asyncio.Event) -> None:
    calling = asyncio.create_task(responder.handle_visitor_message(said(1)))
    await when.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def until_answered(responder: VisitorResponder) -> None:
    async def is_answered() -> bool:
        return await outcomes(responder) == {"m1": "answered"}

    await until(is_answered)


@pytest.mark.parametrize("busy", ["merge", "queue", "drop", "reject", "interrupt"])
@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_call_that_is_cancelled_while_the_store_takes_its_message_is_answered(
    make_app: MakeApp, agent: Recorder, monkeypatch: pytest.MonkeyPatch, busy: str, is_taken: bool
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy=busy)
    store, asked = responder.app.process.store, asyncio.Event()
    take = store.submit

    async def never_replies(submission: Any) -> Any:
        if is_taken:
            await take(submission)
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "submit", never_replies)
    calling = asyncio.create_task(cancelled_call(responder, asked))
    await asked.wait()
    monkeypatch.setattr(store, "submit", take)
    await calling
    await until_answered(responder)
    assert agent.texts == ["text 1"]


async def test_a_call_that_is_cancelled_while_another_process_has_the_lane_for_one_turn_is_answered(
    make_app: MakeApp, agent: Recorder
) -> None:
    responder, other = VisitorResponder(make_app(), agent), make_app()
    await set_up(responder, busy="queue")
    is_there = asyncio.Event()
    async with other.turn(LANE):
        calling = asyncio.create_task(cancelled_call(responder, is_there))
        await until_waiting(other, LANE, 1)
        is_there.set()
        await calling
    await until_answered(responder)


async def test_a_call_that_is_cancelled_while_its_own_process_changes_the_chat_is_answered(
    make_app: MakeApp, agent: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, busy="queue")
    store, begun, goes_on, is_there = responder.app.process.store, asyncio.Event(), asyncio.Event(), asyncio.Event()
    commit = store.commit

    async def slow(effects: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await commit(effects)

    monkeypatch.setattr(store, "commit", slow)
    await responder.conversations.merge_metadata("c1", {"a": 1})
    await begun.wait()
    calling = asyncio.create_task(cancelled_call(responder, is_there))
    await until_waiting(responder.app, LANE, 1)
    is_there.set()
    await calling
    goes_on.set()
    await until_answered(responder)


async def test_what_goes_on_for_a_cancelled_call_ends_with_the_app(make_app: MakeApp, agent: Recorder) -> None:
    responder, other = VisitorResponder(make_app(), agent), make_app()
    await set_up(responder, busy="queue")
    is_there = asyncio.Event()
    async with other.turn(LANE):
        calling = asyncio.create_task(cancelled_call(responder, is_there))
        await until_waiting(other, LANE, 1)
        is_there.set()
        await calling
        assert responder.app.runtime.own_work
        await responder.app.close()
        await until(lambda: not responder.app.runtime.own_work)
    assert responder._callers == {}


@pytest.mark.parametrize("busy", ["queue", "merge"])
async def test_calls_of_several_loops_are_all_answered(app: InTurn, busy: str) -> None:
    """Not on Redis, where a loop that ends before its app is closed leaves a connection behind."""
    responder = VisitorResponder(app, Plain())
    await set_up(responder, busy=busy)

    def call(number: int) -> Answer | None:
        async def in_time() -> Answer | None:
            async with asyncio.timeout(60):
                return await responder.handle_visitor_message(said(number))

        return asyncio.run(in_time())

    numbers = range(4)
    told = await asyncio.gather(*(asyncio.to_thread(call, number) for number in numbers))
    assert [f"m{number}" in answer.answers for number, answer in zip(numbers, told, strict=True) if answer] == [
        True
    ] * 4
    assert responder._callers == {}
    gc.collect()  # what such a loop leaves behind would be told here


@pytest.mark.parametrize("busy", ["merge", "queue", "drop", "reject"])
async def test_what_a_process_left_behind_when_it_died_is_answered_by_the_next_call(
    make_app: MakeApp, agent: Recorder, busy: str
) -> None:
    """No worker runs. Under `drop` and `reject` it is in the way only until the first call has met it."""
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy=busy)
    await first.submit_visitor_message(said(1))
    if busy in ("drop", "reject"):
        with contextlib.suppress(LaneBusy):
            assert await second.handle_visitor_message(said(2)) is None
    else:
        assert await second.handle_visitor_message(said(2)) is not None

    async def is_answered() -> bool:
        return (await outcomes(first))["m1"] == "answered"

    await until(is_answered)

    async def is_free() -> bool:
        return (await first.app.lanes.inspect(LANE)).status == "idle"

    await until(is_free)
    assert await second.handle_visitor_message(said(3)) is not None


async def test_the_error_of_a_call_that_another_process_ran_is_raised_to_its_own_caller(
    make_app: MakeApp, agent: Recorder
) -> None:
    first, second = VisitorResponder(make_app(), agent), VisitorResponder(make_app(), agent)
    await set_up(first, busy="queue")

    def fail(ask: Ask) -> str:
        raise AgentUnavailable("recorder", ask.text)

    agent.reply = fail
    agent.hold()
    calls = [asyncio.create_task(first.handle_visitor_message(said(1)))]
    await agent.reached.wait()
    calls.append(asyncio.create_task(second.handle_visitor_message(said(2))))
    await until_waiting(first.app, LANE, 1)
    agent.opened.set()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in ended] == [AgentUnavailable, AgentUnavailable]
    assert ["text 1" in str(ended[0]), "text 2" in str(ended[1])] == [True, True]
    assert await outcomes(first) == {"m1": "failed", "m2": "failed"}
    assert await first.app.dead_letters.list() == []


async def test_a_tool_that_waits_for_its_own_visitors_answer_is_told(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    async with responder.app.turn(LANE):
        with pytest.raises(OwnLane):
            await responder.handle_visitor_message(said(1))


async def test_an_answer_that_takes_too_long_is_told_to_its_caller_and_not_tried_again(
    make_app: MakeApp, agent: Recorder
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    handlers = responder.app.runtime.handlers
    patient = handlers["visitor"]
    # it runs from when the lane is asked for: a busy machine must not use it up before the agent is asked
    timing = replace(responder._awaited["merge"].timing, limit_ms=5000)
    handlers["visitor"] = replace(patient, timing=timing)
    agent.hold()
    with pytest.raises(HandlerTimeout):
        await responder.handle_visitor_message(said(1))
    assert agent.texts == ["text 1"]
    assert await outcomes(responder) == {"m1": "failed"}
    handlers["visitor"] = patient
    agent.opened.set()
    assert await responder.handle_visitor_message(said(1)) is not None


async def test_a_message_that_fails_makes_room_for_itself(make_app: MakeApp, agent: Recorder) -> None:
    """Else its failure could not be committed, and it would be tried again until it is a dead letter."""
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    async with responder.app.turn(LANE, state=VisitorState, state_ttl=CHAT_TTL_S) as turn:
        for number in range(4):
            chat = Chat(conversation_id=f"old{number}", project_id="p1", visitor_uid="v1")
            chat.metadata, chat.changed_at = {"long": "x" * 255_000}, time.time() - 100 + number
            turn.state.keep(chat)

    def fail(ask: Ask) -> str:
        raise AgentUnavailable("recorder", "cannot be reached")

    agent.reply = fail
    with pytest.raises(AgentUnavailable):
        await responder.handle_visitor_message(said(1, "\N{TEACUP WITHOUT HANDLE}" * 8000))
    assert await outcomes(responder) == {"m1": "failed"}
    assert len(agent.asked) == 1


async def test_a_conversation_that_does_not_exist_yet_may_come_in_a_burst_with_others(
    make_app: MakeApp, agent: Recorder
) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    agent.hold()
    early = said(3, conversation_id="c9")
    calls = [asyncio.create_task(responder.handle_visitor_message(said(1)))]
    await agent.reached.wait()
    for number, event in enumerate((said(2), early), 1):
        calls.append(asyncio.create_task(responder.handle_visitor_message(event)))
        await until_waiting(responder.app, LANE, number)
    agent.opened.set()
    _, known, unknown = await asyncio.gather(*calls)
    assert known is not None
    assert unknown is None
    assert agent.texts == ["text 1", "text 2"], "no answer was thrown away"
    await responder.conversations.open("c9", "p1", "v1")
    answer = await responder.handle_visitor_message(early)
    assert answer is not None
    assert answer.answers == ("m3",)
    assert await responder.handle_visitor_message(said(2)) == known
