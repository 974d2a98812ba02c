"""A turn told while it runs: in order, with a real status where nothing was told yet, and to its end in any case."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import AgentUnavailable
from inturn.http import streams as sse
from inturn.http.asgi import Receive, Scope, Send
from tests.http.calls import Call, scope_of
from tests.http.site import Site, problem
from tests.lanes.workbench import Gate
from tests.waiting import until
from tests.workflows.scripted import collecting

Told = list[tuple[str, Any]]


def read(text: str) -> Told:
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


class Writing:
    """Writes pieces, waits at its gate between them, and then answers (or fails)."""

    def __init__(self, *pieces: str, error: Exception | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.gate = Gate()

    async def __call__(self, ask: Ask) -> AsyncIterator[Activity]:
        yield Activity(type="typing")
        for piece in self.pieces:
            yield Activity.piece(piece)
        await self.gate.pass_through()
        if self.error is not None:
            raise self.error
        async for activity in collecting(ask):
            yield activity


def streaming(site: Site, conversation: str, text: str, **more: Any) -> Call:
    body = json.dumps({"text": text, **more}).encode()
    return site.call(f"/api/v1/workflows/{conversation}/turns/stream", body)


def text_of(call: Call) -> str:
    return b"".join(event.get("body", b"") for event in call.sent[1:]).decode()


async def test_pieces_come_as_they_are_written_and_then_the_response(site: Site) -> None:
    conversation = await site.start()
    writing = site.agent.answer = Writing("Hel", "lo")
    call = streaming(site, conversation, "name=Ada", message_id="m")
    await until(lambda: "lo" in text_of(call))
    assert call.status == 200
    assert (call.header("content-type") or "").startswith("text/event-stream")
    assert read(text_of(call)) == [("typing", {}), ("token", {"text": "Hel"}), ("token", {"text": "lo"})]
    writing.gate.opened.set()
    await call.task
    *_, (name, response) = read(text_of(call))
    assert (name, response["workflow_state"]["collected_data"]) == ("response", {"name": "Ada"})
    again = await site.say(conversation, "name=Eve", message_id="m")
    assert again.json() == response


async def test_a_card_is_told_in_the_same_way_and_goes_on_when_its_client_goes_away(site: Site) -> None:
    conversation = await site.start()
    writing = site.agent.answer = Writing("Hel", "lo")
    path = f"/api/v1/workflows/{conversation}/card-actions/stream"
    card = {"card_id": "details_card", "data": {"count": 3}, "action": "submit", "message_id": "m"}
    call = site.call(path, json.dumps(card).encode())
    await until(lambda: "lo" in text_of(call))
    assert (call.header("content-type") or "").startswith("text/event-stream")
    assert read(text_of(call)) == [("typing", {}), ("token", {"text": "Hel"}), ("token", {"text": "lo"})]
    await writing.gate.reached.wait()
    call.disconnect()
    call.task.cancel()  # as a server does with a request whose client has left
    await asyncio.wait({call.task})
    again = asyncio.create_task(site.client.post(path, json=card))
    writing.gate.opened.set()
    ((name, response),) = read((await again).text)
    assert (name, response["workflow_state"]["collected_data"]) == ("response", {"count": 3})
    assert (await site.client.post(path.removesuffix("/stream"), json=card)).json() == response
    assert [ask.card for ask in site.agent.asked] == [{"count": 3, "cardId": "details_card", "action": "submit"}]


async def test_what_fails_in_a_card_that_is_told_has_a_status_or_is_an_event(site: Site) -> None:
    conversation = await site.start()
    path = f"/api/v1/workflows/{conversation}/card-actions/stream"
    card = {"card_id": "details_card", "data": {"count": 3}}
    problem(await site.client.post(path, json={**card, "data": {"big": 10**200}}), 422, "invalid-request")
    site.agent.error = AgentUnavailable("openai", "cannot be reached")
    problem(await site.client.post(path, json=card), 502, "agent-unavailable")
    writing = site.agent.answer = Writing("Hel", error=AgentUnavailable("openai", "broke off"))
    writing.gate.opened.set()
    *_, (name, told) = read((await site.client.post(path, json=card)).text)
    assert (name, told["code"], told["instance"]) == ("problem", "agent-unavailable", path)
    view = (await site.client.get(f"/api/v1/workflows/{conversation}")).json()
    assert view["workflow_state"]["turn_count"] == 0


async def test_a_restart_is_told(site: Site) -> None:
    conversation = await site.start()

    async def twice(ask: Ask) -> AsyncIterator[Activity]:
        yield Activity.piece("half")
        yield Activity(type="event", value={"restart": True})
        yield Activity.piece("\ud800whole\nline")
        yield Activity.said("whole")

    site.agent.answer = twice
    answer = await site.client.post(f"/api/v1/workflows/{conversation}/turns/stream", json={"text": "hi"})
    told = read(answer.text)
    assert [name for name, _ in told] == ["token", "restart", "token", "response"]
    assert told[2][1]["text"].endswith("whole\nline")


async def test_what_fails_before_the_first_event_has_a_status(site: Site) -> None:
    conversation = await site.start()
    path = f"/api/v1/workflows/{conversation}/turns/stream"
    problem(
        await site.client.post("/api/v1/workflows/none/turns/stream", json={"text": "x"}), 404, "unknown-conversation"
    )
    problem(await site.client.post(path, json={"text": ""}), 422, "invalid-request")
    site.agent.error = AgentUnavailable("openai", "cannot be reached")
    problem(await site.client.post(path, json={"text": "x"}), 502, "agent-unavailable")
    gate = site.agent.gate = Gate()
    first = asyncio.create_task(site.client.post(path, json={"text": "name=Ada"}))
    await gate.reached.wait()
    busy = await site.client.post(path, json={"text": "x"})
    problem(busy, 409, "conversation-busy")
    assert busy.headers["retry-after"] == "1"
    gate.opened.set()
    assert [name for name, _ in read((await first).text)] == ["response"]
    await site.client.post(f"/api/v1/workflows/{conversation}/complete")
    problem(await site.client.post(path, json={"text": "x"}), 409, "session-completed")


@pytest.mark.parametrize(
    ("error", "code"),
    [(AgentUnavailable("openai", "broke off"), "agent-unavailable"), (KeyError("hunter2"), "agent-unavailable")],
)
async def test_what_fails_after_the_first_event_is_told_by_an_event(site: Site, error: Exception, code: str) -> None:
    conversation = await site.start()
    writing = site.agent.answer = Writing("Hel", error=error)
    writing.gate.opened.set()
    answer = await site.client.post(f"/api/v1/workflows/{conversation}/turns/stream", json={"text": "name=Ada"})
    assert answer.status_code == 200
    *_, (name, told) = read(answer.text)
    assert (name, told["code"], told["instance"]) == ("problem", code, f"/api/v1/workflows/{conversation}/turns/stream")
    assert "hunter2" not in answer.text
    view = (await site.client.get(f"/api/v1/workflows/{conversation}")).json()
    assert view["workflow_state"]["turn_count"] == 0


@pytest.mark.parametrize("is_begun", [True, False], ids=["after the first event", "before it"])
async def test_a_turn_goes_on_when_its_client_goes_away(site: Site, is_begun: bool) -> None:
    conversation = await site.start()
    gate = Gate()
    if is_begun:
        writing = site.agent.answer = Writing("Hel")
        gate = writing.gate
    else:
        site.agent.gate = gate
    call = streaming(site, conversation, "name=Ada", message_id="m")
    await gate.reached.wait()
    call.disconnect()
    call.task.cancel()  # as a server does with a request whose client has left
    await asyncio.wait({call.task})
    again = asyncio.create_task(site.say(conversation, "name=Ada", message_id="m"))
    gate.opened.set()
    answer = await again
    assert (answer.status_code, answer.json()["turn_meta"]["turn_number"]) == (200, 1)
    assert site.agent.texts == ["name=Ada"]


async def test_a_stopping_server_waits_for_turns_whose_clients_have_left(site: Site) -> None:
    conversation = await site.start()
    writing = site.agent.answer = Writing("Hel")
    call = streaming(site, conversation, "name=Ada")
    await writing.gate.reached.wait()
    call.task.cancel()
    await asyncio.wait({call.task})
    stopping = asyncio.create_task(site.api.state.lifecycle.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    writing.gate.opened.set()
    await stopping
    view = (await site.client.get(f"/api/v1/workflows/{conversation}")).json()
    assert view["workflow_state"]["collected_data"] == {"name": "Ada"}


async def test_a_turn_that_does_not_end_in_time_is_cut_off_and_its_client_told_to_find_out(site: Site) -> None:
    conversation = await site.start()
    writing = site.agent.answer = Writing("Hel")
    call = streaming(site, conversation, "name=Ada")
    await writing.gate.reached.wait()
    await site.api.state.lifecycle.streams.finish(0)
    await call.task
    *_, (name, told) = read(text_of(call))
    assert (name, told["code"], told["retry_after"]) == ("problem", "outcome-unknown", 5)
    view = (await site.client.get(f"/api/v1/workflows/{conversation}")).json()
    assert view["workflow_state"]["turn_count"] == 0


async def test_a_silent_agent_does_not_let_the_connection_die(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "PING_S", 0.01)
    conversation = await site.start()
    writing = site.agent.answer = Writing("Hel")
    call = streaming(site, conversation, "name=Ada")
    await until(lambda: ": ping" in text_of(call))
    writing.gate.opened.set()
    await call.task
    assert [name for name, _ in read(text_of(call))][-1] == "response"


async def test_event_streams_end_when_the_server_stops(site: Site) -> None:
    body = {"conversation_id": "c", "project_id": "p", "message_id": "m", "text": "hi"}
    assert (await site.client.post("/api/v1/visitors/v/messages", json=body)).status_code == 202
    call = site.call("/api/v1/conversations/c/events", b"", "GET")
    await until(lambda: bool(call.sent))
    assert call.status == 200
    assert not call.task.done()
    site.api.state.lifecycle.begin_to_stop()
    await call.task
    assert call.sent[-1].get("more_body", False) is False


@pytest.mark.parametrize("why", ["the server stops", "the key is withdrawn"])
async def test_an_event_stream_that_has_not_begun_when_it_must_end_ends_as_soon_as_it_has_begun(why: str) -> None:
    stopping, is_withdrawn, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def opening(scope: Scope, receive: Receive, send: Send) -> None:
        await goes_on.wait()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await asyncio.Event().wait()

    async def withdrawn(scope: Scope) -> None:
        await is_withdrawn.wait()

    app = sse.EndingStreams(opening, stopping, withdrawn)
    call = Call(app, scope_of(None, method="GET", path="/conversations/c/events"))
    (stopping if why == "the server stops" else is_withdrawn).set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert call.sent == []
    goes_on.set()
    async with asyncio.timeout(20):
        await call.task
    assert (call.status, call.body) == (200, b"")


async def test_an_event_stream_that_is_refused_is_refused_as_before(site: Site) -> None:
    problem(await site.client.get("/api/v1/conversations/none/events"), 404, "unknown-conversation")
