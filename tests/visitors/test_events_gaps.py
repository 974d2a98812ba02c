"""The event stream of a chat: nothing falls between two looks, and what gets no answer is told, too."""

from __future__ import annotations

import asyncio

from inturn.agents.protocol import Ask
from inturn.errors import Stop
from inturn.lanes.watch import Event
from inturn.testing import drain
from inturn.visitors.chat import Chat
from inturn.visitors.conversations import LaneConversations
from inturn.visitors.events import ChatEvents
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.listener import WITHIN_S, listening, serving
from tests.visitors.world import Recorder, chat_of, said, set_up


async def test_nothing_falls_between_the_watch_and_the_first_reading(
    make_app: MakeApp, agent: Recorder, back: VisitorResponder
) -> None:
    """An answer that comes just before the chat is read is sent once, and one just after it, too."""
    app = make_app()

    class AnswersMeanwhile(LaneConversations):
        reads = 0

        async def watched(self, conversation_id: str, tenant_id: str = "") -> Chat:
            self.reads += 1
            if self.reads == 2:  # the first is for the 404, the second is the stream's own
                await asyncio.create_task(back.handle_visitor_message(said(1)))
            chat = await super().watched(conversation_id, tenant_id)
            if self.reads == 2:
                await asyncio.create_task(back.handle_visitor_message(said(2)))
            return chat

    await set_up(back)
    responder = VisitorResponder(app, agent, conversations=AnswersMeanwhile(app))
    async with serving(responder) as base, listening(base, "/conversations/c1/events?after=0") as events:
        answers: list[str] = []
        while len(answers) < 2:
            heard = await events.next()
            answers += [heard.data["text"]] if heard.event == "answer" else []
    assert answers == ["re: text 1", "re: text 2"]


async def test_an_answer_between_the_first_look_and_the_watch_is_not_missed(
    front: VisitorResponder, back: VisitorResponder
) -> None:
    """Whoever wants only what is new wants what is newer than the chat that the route has found."""
    found = await chat_of(front)
    await back.handle_visitor_message(said(1))
    async with front.app.watch("visitor:v1") as watch:
        events = ChatEvents(front.conversations, found, watch, None).stream()
        async with asyncio.timeout(WITHIN_S):
            told = await anext(events)
    assert (told.event, told.id) == ("answer", "2")


async def test_a_number_that_the_chat_has_not_come_to_means_from_now_on(
    front: VisitorResponder, back: VisitorResponder
) -> None:
    await back.handle_visitor_message(said(1))
    async with serving(front) as base, listening(base, **{"last-event-id": "999"}) as events:
        await back.handle_visitor_message(said(2))
        assert [(each.event, each.id) for each in await events.take(2)] == [("typing", ""), ("answer", "4")]


async def test_a_message_that_gets_no_answer_is_told(
    front: VisitorResponder, back: VisitorResponder, agent: Recorder
) -> None:
    agent.reply = lambda ask: "" if "1" in ask.text else f"re: {ask.text}"
    async with serving(front) as base, listening(base) as events:
        await back.handle_visitor_message(said(1))
        assert [each.event for each in await events.take(2)] == ["typing", "outcome"]
        await set_up(back, busy="latest")
        for number in (2, 3):
            await front.submit_visitor_message(said(number))
        await drain(back.app, raise_errors=True)
        heard = await events.take(3)
        assert [each.event for each in heard] == ["typing", "outcome", "answer"]
        assert heard[1].data == {"conversation_id": "c1", "message_id": "m2", "outcome": "superseded"}
        await back.presence.set("p1", "anna", True)
        await back.handle_visitor_message(said(4))
        assert (await events.next()).data["outcome"] == "unanswered"
    async with serving(front) as base, listening(base, "/conversations/c1/events?after=0") as events:
        heard = await events.take(4)
    assert [each.data.get("outcome") for each in heard] == ["unanswered", "superseded", None, "unanswered"]


async def test_a_message_that_failed_for_good_is_told(
    front: VisitorResponder, back: VisitorResponder, agent: Recorder
) -> None:
    def stop(ask: Ask) -> str:
        raise Stop("no use")

    agent.reply = stop
    async with serving(front) as base, listening(base) as events:
        await front.submit_visitor_message(said(1))
        await drain(back.app)
        heard = await events.take(3)
    assert [each.event for each in heard] == ["typing", "problem", "outcome"]
    assert heard[-1].data["outcome"] == "failed"


async def test_after_pieces_that_were_missed_the_rest_begins_anew(front: VisitorResponder) -> None:
    def chunk(number: int, **data: object) -> Event:
        return Event("chunk", "visitor:v1", 7, number, {"conversation_id": "c1", **data})

    watch = front.app.watch("visitor:v1")
    events = ChatEvents(front.conversations, await chat_of(front), watch, None)
    heard = [
        Event("begin", "visitor:v1", 7),
        chunk(1, event="typing"),
        chunk(2, event="token", text="a"),
        chunk(4, event="token", text="c"),
    ]
    told = [each.event for event in heard for each in events._tell(event)]
    assert told == ["typing", "token", "restart", "token"]
    heard = [Event("missed", "visitor:v1"), chunk(9, event="token", text="x")]
    told = [each.event for event in heard for each in events._tell(event)]
    assert told == ["restart", "token"]
    assert list(events._tell(Event("commit", "visitor:v1", 7))) == []


async def test_messages_that_are_dropped_meanwhile_hide_no_answer(
    front: VisitorResponder, back: VisitorResponder, agent: Recorder
) -> None:
    """They have no number before their turn has come, so the answer that they met is newer than what a client saw."""
    await set_up(front, busy="drop")
    agent.hold()
    answering = asyncio.create_task(back.handle_visitor_message(said(1)))
    await agent.reached.wait()
    for number in (2, 3):
        assert await front.handle_visitor_message(said(number)) is None
    async with serving(front) as base, listening(base) as events:
        agent.opened.set()
        assert await answering is not None
        heard = await events.take(3)
    assert [(each.event, each.data.get("outcome")) for each in heard] == [
        ("answer", None),
        ("outcome", "dropped"),
        ("outcome", "dropped"),
    ]


async def test_a_chat_that_begins_anew_is_told_from_its_beginning(front: VisitorResponder) -> None:
    for number in (1, 2, 3):
        await front.handle_visitor_message(said(number))
    async with serving(front) as base, listening(base) as events:
        await front.app.lanes.clear("visitor:v1")  # as if it had made room for others
        await front.handle_visitor_message(said(4))
        assert [(each.event, each.id) for each in await events.take(2)] == [("typing", ""), ("answer", "2")]
