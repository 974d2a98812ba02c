"""The event stream of a chat, through a real server: typing, tokens, answers, resuming, and its end."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from inturn import InTurn
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import AgentUnavailable, StoreUnavailable
from inturn.http.problems import Problem
from inturn.http.tenant_streams import TenantStreams
from inturn.store import clock
from inturn.testing import drain
from inturn.visitors.chat import Chat
from inturn.visitors.conversations import LaneConversations
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.connections import NEW_EACH_TIME
from tests.visitors.listener import WITHIN_S, listening, serving
from tests.visitors.world import Recorder, said, set_up
from tests.waiting import until


async def test_typing_tokens_and_the_answer(front: VisitorResponder, back: VisitorResponder, agent: Recorder) -> None:
    agent.activities = [Activity.piece("re: "), Activity.piece("text\n1")]
    async with serving(front) as base, listening(base) as events:
        assert events.response.headers["content-type"].startswith("text/event-stream")
        await front.submit_visitor_message(said(9, conversation_id="c2"))
        await front.submit_visitor_message(said(1))
        await drain(back.app, raise_errors=True)
        heard = await events.take(4)
    assert [(each.event, each.id) for each in heard] == [("typing", ""), ("token", ""), ("token", ""), ("answer", "2")]
    assert heard[0].data == {"conversation_id": "c1"}
    assert [each.data for each in heard[1:3]] == [
        {"conversation_id": "c1", "text": "re: "},
        {"conversation_id": "c1", "text": "text\n1"},
    ]
    assert (heard[3].data["text"], heard[3].data["answers"]) == ("re: text 1", ["m1"])
    assert all(each.data["conversation_id"] == "c1" for each in heard[:3]), "nothing of the other conversation"


async def test_an_awaited_message_is_heard_too(front: VisitorResponder, back: VisitorResponder) -> None:
    async with serving(front) as base, listening(base) as events:
        await back.handle_visitor_message(said(1))
        assert [each.event for each in await events.take(2)] == ["typing", "answer"]


async def test_it_goes_on_after_the_last_that_was_seen(front: VisitorResponder) -> None:
    for number in (1, 2, 3):
        await front.handle_visitor_message(said(number))
    async with serving(front) as base:
        async with listening(base, "/conversations/c1/events?after=0") as events:
            assert [each.id for each in await events.take(3)] == ["2", "4", "6"]
        async with listening(base, "/conversations/c1/events?after=0", **{"last-event-id": "4"}) as events:
            assert [each.id for each in await events.take(1)] == ["6"]
        async with listening(base, **{"last-event-id": "rubbish"}) as events:
            await front.handle_visitor_message(said(4))
            heard = await events.take(2)
            assert [(each.event, each.id) for each in heard] == [("typing", ""), ("answer", "8")], "only what is new"


async def test_a_failed_answer_is_told_and_its_tokens_are_taken_back(
    front: VisitorResponder, back: VisitorResponder, agent: Recorder
) -> None:
    def fail(ask: Ask) -> str:
        raise AgentUnavailable("recorder", "a secret of the server")

    agent.reply = fail
    agent.activities = [Activity.piece("half")]
    async with serving(front) as base, listening(base) as events:
        await front.submit_visitor_message(said(1))
        await drain(back.app)
        heard = await events.take(4)
    assert [each.event for each in heard] == ["typing", "token", "restart", "problem"]
    assert heard[-1].data == {"conversation_id": "c1", **Problem("answer-failed").document()}


async def test_the_failure_of_another_conversation_is_not_told_here(
    front: VisitorResponder, back: VisitorResponder, agent: Recorder
) -> None:
    def fail(ask: Ask) -> str:
        raise AgentUnavailable("recorder", "is away")

    async with serving(front) as base, listening(base) as events:
        agent.reply = fail
        with pytest.raises(AgentUnavailable):
            await back.handle_visitor_message(said(8, conversation_id="c2"))
        await front.submit_visitor_message(said(9, conversation_id="c2"))
        await drain(back.app)
        await back.app.lanes.clear("visitor:v1")
        agent.reply = lambda ask: "well"
        await back.handle_visitor_message(said(1))
        # the stream looks at the chat whatever happens in the lane: if it is late, it finds the answer before the sign
        assert {each.event for each in await events.take(2)} == {"typing", "answer"}


async def test_an_agent_that_starts_anew_takes_its_tokens_back(
    front: VisitorResponder, back: VisitorResponder, agent: Recorder
) -> None:
    agent.activities = [Activity.piece("half"), Activity(type="event", value={"restart": True}), Activity.piece("re")]
    async with serving(front) as base, listening(base) as events:
        await front.submit_visitor_message(said(1))
        await drain(back.app, raise_errors=True)
        heard = [each.event for each in await events.take(5)]
    assert heard == ["typing", "token", "restart", "token", "answer"]


async def test_a_store_that_goes_away_ends_the_stream_with_a_word(make_app: MakeApp, agent: Recorder) -> None:
    app = make_app()

    class Away(LaneConversations):
        is_away = False

        async def watched(self, conversation_id: str, tenant_id: str = "") -> Chat:
            if self.is_away:
                raise StoreUnavailable("it is away")
            return await super().watched(conversation_id, tenant_id)

    conversations = Away(app)
    responder = VisitorResponder(app, agent, conversations=conversations)
    await set_up(responder)
    async with serving(responder) as base, listening(base) as events:
        # an answer is on its way when the chat cannot be read any more
        agent.hold()
        answering = asyncio.create_task(responder.handle_visitor_message(said(1)))
        assert (await events.next()).event == "typing"
        conversations.is_away = True
        agent.opened.set()
        await answering
        heard = await events.next()
        assert heard.event == "problem"
        assert heard.data == {"conversation_id": "c1", **Problem("stream-ended").document()}
        assert heard.data["detail"] == "The stream ended. Connect again."
        with pytest.raises(EOFError):
            await events.next()


async def test_the_watch_ends_when_the_client_goes(front: VisitorResponder) -> None:
    async with serving(front) as base:
        async with listening(base):
            assert len(front.app._watches) == 1

        async def is_gone() -> bool:
            return all(watch._is_over for watch in front.app._watches)

        await until(is_gone)


async def test_idle_streams_are_kept_alive(front: VisitorResponder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastapi.routing._PING_INTERVAL", 0.05)
    async with serving(front) as base, listening(base) as events:
        began = clock.now()
        async for line in events.response.aiter_lines():
            if line.startswith(":"):
                break
            assert clock.now() < began + WITHIN_S


async def test_a_tenant_may_have_so_many_streams_open(app: InTurn, agent: Recorder) -> None:
    responder = VisitorResponder(app, agent)
    await set_up(responder)
    await responder.conversations.open("c1", "p1", "v1", "acme")
    streams = TenantStreams(2)
    async with serving(responder, streams) as base:
        async with listening(base), listening(base):
            async with httpx.AsyncClient(base_url=base, limits=NEW_EACH_TIME) as client:
                refused = await client.get("/conversations/c1/events")
                assert refused.status_code == 429
            async with listening(base, **{"x-tenant": "acme"}):
                pass  # others have their own

        await until(lambda: streams.count("") == streams.count("acme") == 0)
        assert all(watch._is_over for watch in app._watches)
        async with listening(base) as events:
            await responder.handle_visitor_message(said(1))
            assert [each.event for each in await events.take(2)] == ["typing", "answer"]
