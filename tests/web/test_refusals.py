"""What is told of a request that is cancelled: that it may have been saved."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import Mock

import pytest

from inturn.http.asgi import Receive, Scope, Send
from inturn.web.refusals import LastResort
from tests.lanes.conftest import Gate
from tests.http.site import Site, problem
from tests.http.calls import Call, scope_of


@pytest.mark.parametrize("is_committed", [True, False], ids=["in its commit", "before it"])
async def test_a_turn_that_is_cancelled_may_have_been_saved(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    conversation = await site.start()
    store, gate = site.turns.process.store, Gate()
    commit = store.commit

    async def slow(*given: Any) -> Any:
        answered = await commit(*given)
        await gate.pass_through()  # the reply is on its way
        return answered

    if is_committed:
        monkeypatch.setattr(store, "commit", slow)
    else:
        site.agent.gate = gate
    body = json.dumps({"text": "name=Ada", "message_id": "m"}).encode()
    call = site.call(f"/api/v1/workflows/{conversation}/turns", body)
    await gate.reached.wait()
    call.task.cancel()  # as uvicorn does when the grace is over
    await call.task
    told = json.loads(call.body)
    assert (call.status, told["code"], call.header("retry-after")) == (503, "outcome-unknown", "5")
    assert "all of it was saved, or nothing" in told["detail"]
    gate.opened.set()
    again = await site.say(conversation, "name=Ada", message_id="m")
    assert (again.status_code, again.json()["turn_meta"]["turn_number"]) == (200, 1)
    assert site.agent.texts == ["name=Ada"] * (1 if is_committed else 2)


@pytest.mark.parametrize("is_stopping", [True, False])
async def test_a_response_that_has_begun_breaks_off_quietly_only_when_the_server_stops(is_stopping: bool) -> None:
    stopping = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    call = Call(LastResort(endless, stopping), scope_of(None))
    await call.some_sent.wait()
    if is_stopping:
        stopping.set()
    call.task.cancel()
    await asyncio.wait({call.task})
    assert call.task.cancelled() is not is_stopping
    assert len(call.sent) == 1


async def test_what_is_stored_and_does_not_fit_is_for_an_operator(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async with site.turns.turn("presence:p", message_id=None, state=dict) as turn:
        turn.state = {"until": "hunter2"}
    told = problem(await site.client.get("/api/v1/projects/p/presence"), 503, "state-mismatch")
    assert "hunter2" not in json.dumps(told)
    assert any(record.name == "inturn.web" and record.exc_info for record in caplog.records)


@pytest.mark.parametrize("path", ["turns", "turns/stream"])
async def test_what_took_too_long_may_have_been_saved(site: Site, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    conversation = await site.start()
    monkeypatch.setattr(site.api.state.orchestrator.sessions, "must_be_of", Mock(side_effect=TimeoutError))
    answer = await site.client.post(f"/api/v1/workflows/{conversation}/{path}", json={"text": "hi"})
    problem(answer, 503, "outcome-unknown")
