"""Cut off between two steps: what is there then, and what the next one makes of it. On both stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn
from inturn.agents.protocol import Ask
from inturn.errors import LeaseLost
from inturn.testing import drain
from inturn.visitors.chat import Change, Chat, LaneConversations, NewAnswer
from inturn.visitors.patch import difference
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import Recorder, answers, chat_of, outcomes, said, set_up, working
from tests.waiting import until


class Died(Exception):
    """As if the process had been killed here."""


class DiesAfterSaving(LaneConversations):
    """The first save is written, and whoever asked for it never hears of it."""

    has_died = False

    async def save(self, conversation_id: str, change: Change, tenant_id: str = "") -> Chat:
        chat = await super().save(conversation_id, change, tenant_id)
        if not self.has_died:
            self.has_died = True
            raise Died
        return chat


def delivering(app: InTurn, delivered: list[Any]) -> None:
    @app.handler("deliver")
    async def deliver(turn: Any) -> None:
        delivered.append(turn.body["text"])


async def test_a_submitted_one_is_answered_once_and_delivered_once(make_app: MakeApp, agent: Recorder) -> None:
    app, delivered = make_app(), []  # type: ignore[var-annotated]
    responder = VisitorResponder(app, agent, conversations=DiesAfterSaving(app))
    delivering(app, delivered)
    await set_up(responder, deliver="deliver")
    receipt = await responder.submit_visitor_message(said(1))
    with pytest.raises(Died):  # ends after the first attempt: the pause before the next is random, and may be none
        await drain(app, raise_errors=True)
    (waiting,) = (await app.lanes.inspect(receipt.key)).messages
    assert (waiting.id, waiting.attempts, len(waiting.errors)) == (receipt.id, 1, 1), "it is tried again"
    assert await answers(responder) == [("re: text 1", ["m1"])]
    assert delivered == []
    task = asyncio.create_task(app.run())
    try:
        result = await receipt.result(30)

        async def is_delivered() -> bool:
            """Committed: a delivery that is cut off before that is made again."""
            return bool(delivered) and (await app.lanes.inspect(f"{receipt.key}>deliver")).status == "idle"

        await until(is_delivered)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [answer["seq"] for answer in result["answers"]] == [2]
    assert await drain(app) == []
    assert agent.texts == ["text 1"], "the agent is not asked again"
    assert delivered == ["re: text 1"]


async def test_an_awaited_one_finds_its_answer_when_it_is_repeated(make_app: MakeApp, agent: Recorder) -> None:
    app, delivered = make_app(), []  # type: ignore[var-annotated]
    responder = VisitorResponder(app, agent, conversations=DiesAfterSaving(app))
    delivering(app, delivered)
    await set_up(responder, deliver="deliver")
    with pytest.raises(Died):
        await responder.handle_visitor_message(said(1))
    for _ in range(3):
        answer = await responder.handle_visitor_message(said(1))
        assert answer is not None
        assert answer.text == "re: text 1"
        await drain(app, raise_errors=True)
    assert agent.texts == ["text 1"]
    assert delivered == ["re: text 1"], "however often it is repeated"


async def test_cut_off_before_the_submit_the_repeat_is_one_message(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    await responder.conversations.add("c1", said(1))  # and then it died
    await responder.submit_visitor_message(said(1))
    await drain(responder.app, raise_errors=True)
    assert await answers(responder) == [("re: text 1", ["m1"])]


async def test_a_zombie_cannot_save(make_app: MakeApp, agent: Recorder) -> None:
    """A turn that was paused past its lease: someone else has answered under a newer fence."""
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    async with responder.app.turn("visitor:v1") as turn:
        old = turn.fence
    await responder.handle_visitor_message(said(1))
    await responder.conversations.add("c1", said(2))
    before = await chat_of(responder)
    late = NewAnswer("x", "too late", "2030-01-01T00:00:00+00:00", ("m2",), "zombie")
    with pytest.raises(LeaseLost):
        await responder.conversations.save("c1", Change({"m2": "answered"}, late, fence=old))
    assert await chat_of(responder) == before


async def test_whoever_saved_first_is_found_by_a_turn_that_had_looked_before(
    make_app: MakeApp, agent: Recorder
) -> None:
    """An older turn's save arrives after a newer turn has read the chat: the message gets no second answer."""
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)

    async def late_save() -> None:
        answer = NewAnswer("x", "first", "2030-01-01T00:00:00+00:00", ("m1",), "other")
        await responder.conversations.save("c1", Change({"m1": "answered"}, answer, fence=1))

    agent.hold()
    answering = asyncio.create_task(responder.handle_visitor_message(said(1)))
    await agent.reached.wait()
    await late_save()
    agent.opened.set()
    answer = await answering
    assert answer is not None
    assert answer.text == "first"
    assert await answers(responder) == [("first", ["m1"])]


async def test_a_cancelled_caller_leaves_its_message_waiting(make_app: MakeApp, agent: Recorder) -> None:
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder)
    agent.hold()
    asking = asyncio.create_task(responder.handle_visitor_message(said(1)))
    await agent.reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await outcomes(responder) == {"m1": None}
    agent.opened.set()
    assert await responder.handle_visitor_message(said(2)) is not None
    assert agent.texts == ["text 1", "text 1\ntext 2"]


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
    edit = difference({}, {"crm": {"owner": "anna"}, "agent_memory": {"note": "vip"}})
    await responder.conversations.save("c1", Change(patch=edit))
    agent.opened.set()
    await answering
    assert (await chat_of(responder)).metadata == {
        "crm": {"owner": "anna"},
        "agent_memory": {"note": "vip", "thread": "t1"},
    }


@pytest.mark.parametrize("busy", ["latest", "rollback"])
@pytest.mark.parametrize("dies", [False, True])
async def test_an_answer_to_another_message_than_the_turns_own_is_delivered(
    make_app: MakeApp, agent: Recorder, busy: str, dies: bool
) -> None:
    """The newer one was added, and its sender died before the submit: the turn of the older one answers it."""
    app, delivered = make_app(), []  # type: ignore[var-annotated]
    conversations = DiesAfterSaving(app)
    conversations.has_died = not dies
    responder = VisitorResponder(app, agent, conversations=conversations)
    delivering(app, delivered)
    await set_up(responder, deliver="deliver", busy=busy)
    await responder.submit_visitor_message(said(1))
    await responder.conversations.add("c1", said(2))

    async def is_delivered() -> bool:
        return len(delivered) > 0

    async with working(app):
        await until(is_delivered)
    await drain(app)
    assert agent.texts == ["text 2"]
    assert delivered == ["re: text 2"]
    assert await outcomes(responder) == {"m1": "superseded", "m2": "answered"}


@pytest.mark.parametrize("busy", ["merge", "queue", "drop", "reject", "interrupt", "rollback", "latest"])
async def test_an_awaited_one_that_was_cut_off_is_delivered_when_it_is_submitted(
    make_app: MakeApp, agent: Recorder, busy: str
) -> None:
    app, delivered = make_app(), []  # type: ignore[var-annotated]
    responder = VisitorResponder(app, agent, conversations=DiesAfterSaving(app))
    delivering(app, delivered)
    await set_up(responder, deliver="deliver", busy=busy)
    with pytest.raises(Died):
        await responder.handle_visitor_message(said(1))
    for _ in range(2):
        accepted = await responder.accept(said(1))
        assert accepted.is_repeat
        assert accepted.receipt.status != "dropped"
        await drain(app, raise_errors=True)
    assert agent.texts == ["text 1"]
    assert delivered == ["re: text 1"]
