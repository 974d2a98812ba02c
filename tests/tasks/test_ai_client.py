"""What the Tasks service asks the AI service for, over a real connection, and what its users are told of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from inturn.capabilities.outcome import TokenReservation
from inturn.http.problems import CATALOGUE
from inturn.http.request_id import with_request_id
from inturn.tasks import ai_client
from inturn.tasks.ai_client import AiClient, NotAccepted
from tests.agents.provider import Provider, Request, Script, Wire, hangs_up, serving

SECRET = "worker-7.internal.example"
"""Stands for whatever the AI service says about itself."""
HOLD = TokenReservation(tokens_reserved=1000, window_start_timestamp=86_400, hold_id="h1")


@dataclass
class Asked:
    """An AI service that answers as the test says, and its client."""

    service: Provider
    client: AiClient

    async def ask(self) -> str:
        return await self.client.ask(
            "Pay the rent", "Europe/Berlin", idempotency_key="r1", callback_url="http://tasks.example/api/v1/webhooks",
            user_id="ada", hold=HOLD,
        )  # fmt: skip

    async def refused(self, script: Script) -> NotAccepted:
        self.service.script = script
        with pytest.raises(NotAccepted) as refused:
            await self.ask()
        assert SECRET not in json.dumps(refused.value.problem.document())
        assert "127.0.0.1" not in json.dumps(refused.value.problem.document())
        return refused.value


@pytest.fixture
async def ai() -> AsyncIterator[Asked]:
    async with serving() as service:
        client = AiClient(service.url + "/", key="a-service-key-of-the-tests")
        try:
            yield Asked(service, client)
        finally:
            await client.aclose()


def answers(status: int, body: object, **headers: str) -> Script:
    async def script(request: Request, wire: Wire) -> None:
        await wire.whole(status, body, **headers)

    return script


def problem(status: int, code: str, **more: Any) -> Script:
    about = {"type": f"urn:inturn:problem:{code}", "title": SECRET, "status": status, "detail": SECRET, "code": code}
    return answers(status, about | {"instance": f"/{SECRET}"} | more)


async def test_it_sends_the_sentence_with_all_that_the_job_needs(ai: Asked) -> None:
    ai.service.script = answers(202, {"ai_service_request_id": "job-1", "message": "queued"})
    with with_request_id("the-request"):
        assert await ai.ask() == "job-1"
    sent = ai.service.last
    assert (sent.method, sent.path) == ("POST", "/api/v1/capabilities/parse-task?pattern=async")
    assert sent.headers["authorization"] == "Bearer a-service-key-of-the-tests"
    assert sent.headers["x-request-id"] == "the-request"
    assert sent.headers["idempotency-key"] == "r1"
    assert sent.body == {
        "natural_language": "Pay the rent", "time_zone": "Europe/Berlin", "user_id": "ada",
        "callback_url": "http://tasks.example/api/v1/webhooks",
        "token_reservation": {"tokens_reserved": 1000, "window_start_timestamp": 86_400, "hold_id": "h1"},
    }  # fmt: skip


async def test_outside_of_a_request_and_without_a_key_no_such_header_is_sent() -> None:
    async with serving() as service:
        service.script = answers(202, {"ai_service_request_id": "j"})
        client = AiClient(service.url)
        await Asked(service, client).ask()
        await client.aclose()
        assert not {"authorization", "x-request-id"} & set(service.last.headers)


@pytest.mark.parametrize(
    "job_id", [None, 7, "", "a b", "x" * 65, "../admin", "j\n", "é", ["j"], {"a": 1}, "a/b", "j?x=1"]
)
async def test_what_is_no_id_of_a_job_is_no_acceptance(ai: Asked, job_id: object) -> None:
    """It becomes a part of paths."""
    refused = await ai.refused(answers(202, {"ai_service_request_id": job_id}))
    assert refused.problem.code == "ai-unavailable"


@pytest.mark.parametrize(
    "body", [b"", b"<html>" + SECRET.encode(), b"[]", b"null", b'"x"', b"\xff\xfe", b"{", b"[" * 9000]
)
@pytest.mark.parametrize("status", [202, 400, 503])
async def test_a_body_that_is_no_object_is_told_as_an_ai_service_that_is_away(
    ai: Asked, status: int, body: bytes
) -> None:
    refused = await ai.refused(answers(status, body))
    assert (refused.problem.code, refused.problem.status) == ("ai-unavailable", 503)


async def test_what_the_guard_refuses_is_told_without_its_reasons(ai: Asked) -> None:
    refused = await ai.refused(problem(400, "input-refused", family=SECRET))
    assert (refused.problem.code, refused.problem.status, refused.is_certain) == ("input-refused", 400, True)
    assert refused.problem.detail == CATALOGUE["input-refused"].detail


async def test_vague_input_is_told_with_its_suggestions(ai: Asked) -> None:
    vague = {"code": "vague-input", "detail": "Fix what?", "suggestions": ["Fix the tap"], "more": SECRET}
    refused = await ai.refused(answers(400, vague))
    assert (refused.problem.code, refused.problem.detail, refused.is_certain) == ("vague-input", "Fix what?", True)
    assert refused.problem.more == {"suggestions": ["Fix the tap"]}
    odd = await ai.refused(answers(400, {"code": "vague-input", "detail": 7, "suggestions": SECRET}))
    assert (odd.problem.detail, odd.problem.more) == (CATALOGUE["vague-input"].detail, {})


async def test_what_is_not_valid_there_is_told_as_not_valid(ai: Asked) -> None:
    refused = await ai.refused(problem(422, "invalid-request"))
    assert (refused.problem.code, refused.problem.status, refused.is_certain) == ("invalid-request", 422, True)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "callback-not-allowed"), (401, "not-authenticated"), (403, "not-allowed"), (404, "unknown-capability"),
        (409, "still-running"), (413, "too-large"), (422, "other-payload"), (429, "mailbox-full"),
        (429, "budget-exhausted"), (500, "internal-error"), (502, "agent-unavailable"), (502, "agent-rejected"),
        (503, "broker-unavailable"), (503, "store-unavailable"), (503, "outcome-unknown"), (503, "turn-lost"),
        (503, "stopped"), (503, "took-too-long"), (503, "a-code-of-next-year"), (504, "agent-timeout"),
    ],
)  # fmt: skip
async def test_whatever_else_goes_wrong_there_is_told_as_an_ai_service_that_is_away(
    ai: Asked, status: int, code: str
) -> None:
    refused = await ai.refused(problem(status, code))
    assert (refused.problem.code, refused.problem.status) == ("ai-unavailable", 503)
    assert refused.problem.headers()["retry-after"]


_MAY_RUN = [
    (503, "outcome-unknown"), (503, "took-too-long"), (409, "still-running"), (422, "other-payload"), (502, ""),
    (504, ""),
]  # fmt: skip
_DOES_NOT_RUN = [(500, "internal-error"), (503, "broker-unavailable"), (429, "mailbox-full"), (403, "not-allowed")]


@pytest.mark.parametrize(("status", "code"), _MAY_RUN)
async def test_where_the_job_may_run_all_the_same_it_is_not_called_certain(ai: Asked, status: int, code: str) -> None:
    refused = await ai.refused(problem(status, code))
    assert not refused.is_certain
    assert "Idempotency-Key" in refused.problem.detail


@pytest.mark.parametrize(("status", "code"), _DOES_NOT_RUN)
async def test_where_no_job_can_run_it_is_certain(ai: Asked, status: int, code: str) -> None:
    assert (await ai.refused(problem(status, code))).is_certain


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(ai: Asked, status: int) -> None:
    """It would take the service key along."""
    refused = await ai.refused(answers(status, {}, location=f"{ai.service.url}/elsewhere"))
    assert refused.problem.code == "ai-unavailable"
    assert len(ai.service.requests) == 1


async def test_a_refused_connection_is_certain() -> None:
    async with serving() as service:
        url = service.url
    client = AiClient(url)
    with pytest.raises(NotAccepted) as refused:
        await Asked(service, client).ask()
    await client.aclose()
    assert (refused.value.problem.code, refused.value.is_certain) == ("ai-unavailable", True)
    assert "127.0.0.1" not in json.dumps(refused.value.problem.document())


async def test_an_answer_that_never_comes_is_given_up_and_nothing_is_known(
    ai: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ai.client, "_timeout_s", 0.2)
    refused = await ai.refused(lambda request, wire: ai.service.waits(wire))
    assert (refused.problem.code, refused.is_certain) == ("ai-unavailable", False)


async def _breaks_in_the_middle(request: Request, wire: Wire) -> None:
    await wire.head(202, content_type="application/json")
    await wire.chunk(b'{"ai_service_request_id": "j')
    wire.cut()


async def _is_no_http(request: Request, wire: Wire) -> None:
    await wire._write(b"SSH-2.0-" + SECRET.encode() + b"\r\n\r\n")
    wire.cut()


@pytest.mark.parametrize("script", [hangs_up, _breaks_in_the_middle, _is_no_http])
async def test_after_a_connection_that_broke_nothing_is_known(ai: Asked, script: Script) -> None:
    refused = await ai.refused(script)
    assert (refused.problem.code, refused.is_certain) == ("ai-unavailable", False)
    ai.service.script = answers(202, {"ai_service_request_id": "j"})
    assert await ai.ask() == "j"  # the same client goes on


async def test_whoever_waits_gets_the_answer_or_the_problem(ai: Asked) -> None:
    told = {"result": {"title": "x"}, "openai_metadata": [], "message": "m"}
    ai.service.script = answers(200, told)
    assert await ai.client.ask_and_wait("Pay the rent", "UTC") == told
    assert ai.service.last.path == "/api/v1/capabilities/parse-task?pattern=sync"
    assert ai.service.last.body == {"natural_language": "Pay the rent", "time_zone": "UTC"}
    ai.service.script = answers(400, {"code": "vague-input", "detail": "Fix what?", "suggestions": ["Fix the tap"]})
    with pytest.raises(NotAccepted) as vague:
        await ai.client.ask_and_wait("Fix it", "UTC")
    assert vague.value.problem.more == {"suggestions": ["Fix the tap"]}
    ai.service.script = problem(504, "agent-timeout")
    with pytest.raises(NotAccepted) as late:
        await ai.client.ask_and_wait("Fix it", "UTC")
    assert re.search("in time", late.value.problem.detail)
    assert SECRET not in str(late.value.problem.document())


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (answers(200, {"status": "running"}), "running"), (answers(200, {"status": "queued", "run": 2}), "queued"),
        (answers(404, {"status": "running"}), None), (answers(200, []), None), (answers(200, b"no JSON"), None),
        (answers(200, {"status": 1}), None), (answers(200, b"[" * 9000), None), (answers(503, {}), None),
        (hangs_up, None),
    ],
)  # fmt: skip
async def test_how_far_a_job_is_counts_only_if_the_ai_service_says_so(
    ai: Asked, script: Script, status: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ai_client, "STATUS_S", 60.0)  # an answer that comes late is one
    ai.service.script = script
    found = await ai.client.job("job-1")
    assert (found.status if found else None) == status
    assert (ai.service.last.method, ai.service.last.path) == ("GET", "/api/v1/jobs/job-1")


async def test_many_ask_at_once_over_connections_that_are_kept(ai: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ai_client, "KEPT_S", 60.0)  # a test that stands still for a moment keeps them too
    ai.service.script = answers(202, {"ai_service_request_id": "j"})
    assert await asyncio.gather(*(ai.ask() for _ in range(60))) == ["j"] * 60
    before = ai.service.connections
    await asyncio.gather(*(ai.ask() for _ in range(20)))
    assert ai.service.connections == before
