"""What a route refuses is a problem document, with a code that says what it is; and nothing of it was saved."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any
from unittest.mock import Mock

import pytest

from inturn import errors
from inturn.http.exception_handlers import problem_of
from inturn.http.problems import CATALOGUE
from inturn.workflows import loop
from tests.http.site import Site, problem

AGENT = [
    (errors.AgentTimeout("openai", "did not answer within 60 s"), 504, "agent-timeout"),
    (errors.AgentUnavailable("openai", "cannot be reached", "refused"), 502, "agent-unavailable"),
    (errors.AgentRejected("openai", "refused it", "no such model"), 502, "agent-rejected"),
]
OTHER = [
    (errors.LaneTimeout("k", 60), 409, "conversation-busy"),
    (errors.LaneBusy("k", None, 0, 0, "paused"), 503, "conversation-stopped"),
    (errors.MailboxFull("k", 10), 429, "mailbox-full"),
    (errors.StoreUnavailable("secret host"), 503, "store-unavailable"),
    (errors.CommitUnknown("k", 1), 503, "outcome-unknown"),
    (errors.LeaseLost("k", 1, "gone"), 503, "turn-lost"),
    (errors.HandlerTimeout("k", 300), 503, "turn-lost"),
    (errors.StateMismatch("k", "turn_count"), 503, "state-mismatch"),
    (errors.DefinitionMissing("c", "intake"), 503, "definition-missing"),
    (errors.DefinitionError(["node 't': no tool 'secret' is registered here"]), 500, "internal-error"),
    (errors.BadMessage("body: is no JSON"), 422, "invalid-request"),
    (errors.TooLarge("the state", 10, 5), 422, "invalid-request"),
]


@pytest.mark.parametrize(("error", "status", "code"), AGENT, ids=lambda value: str(value)[:30])
async def test_an_agent_that_fails_is_named_with_what_it_said(
    site: Site, error: errors.AgentError, status: int, code: str
) -> None:
    conversation = await site.start()
    site.agent.error = error
    told = problem(await site.say(conversation, "name=Ada", message_id="m"), status, code)
    assert told["agent"] == "openai"
    assert error.said in told["detail"]
    again = await site.say(conversation, "name=Ada", message_id="m")
    assert again.json()["turn_meta"]["turn_number"] == 1


@pytest.mark.parametrize(("error", "status", "code"), OTHER, ids=lambda value: str(value)[:30])
async def test_every_error_has_its_status_and_code(site: Site, error: Exception, status: int, code: str) -> None:
    conversation = await site.start()
    site.agent.error = error
    answer = await site.say(conversation, "hi")
    told = problem(answer, status, code)
    assert "secret" not in json.dumps(told)
    retry = CATALOGUE[code].retry_after_s
    assert answer.headers.get("retry-after") == (None if retry is None else str(retry))


async def test_a_bug_of_an_agent_is_logged_and_not_told(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    conversation = await site.start()
    for error in (RuntimeError("hunter2"), ValueError("password='hunter2': must not be told")):
        site.agent.error = error
        caplog.clear()
        answer = await site.say(conversation, "hi")
        assert "hunter2" not in json.dumps(problem(answer, 502, "agent-unavailable"))
        assert any(record.exc_info is not None and record.exc_info[1] is error for record in caplog.records)


async def test_what_nobody_foresaw_is_logged_and_not_told(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = await site.start()
    for error in (RuntimeError("hunter2"), ValueError("hunter2 is no field"), KeyError("hunter2")):
        monkeypatch.setattr(loop, "normalize_activities", Mock(side_effect=error))
        caplog.clear()
        with caplog.at_level(logging.ERROR, "inturn.http"):
            answer = await site.say(conversation, "hi")
        assert "hunter2" not in json.dumps(problem(answer, 500, "internal-error"))
        (logged,) = [record for record in caplog.records if record.name == "inturn.http"]
        assert logged.exc_info is not None
        assert logged.exc_info[1] is error


BODIES = [
    ({}, "text"),
    ({"text": ""}, "text"),
    ({"text": " \n"}, "text"),
    ({"text": "x" * 16_001}, "text"),
    ({"text": 3}, "text"),
    ({"text": "\ud800"}, "text"),
    ({"text": "hi", "message_id": ""}, "message_id"),
    ({"text": "hi", "message_id": "m\0"}, "message_id"),
    ({"text": "hi", "message_id": "m" * 513}, "message_id"),
    ({"text": "hi", "message_id": "\udcff"}, "message_id"),
    ({"text": "hi", "other": 1}, "other"),
]


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
async def test_json_that_is_not_called_so_is_refused_with_the_header_to_send(site: Site, kind: str | None) -> None:
    """What curl does with `-d` alone."""
    conversation = await site.start()
    answer = await site.client.post(
        f"/api/v1/workflows/{conversation}/turns",
        content=json.dumps({"text": "hi"}),
        headers={} if kind is None else {"content-type": kind},
    )
    told = problem(answer, 422, "invalid-request")
    assert told["errors"] == [
        {"field": "body", "message": "is not JSON: send it with the header Content-Type: application/json"}
    ]


@pytest.mark.parametrize(("body", "field"), BODIES, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("path", ["turns", "turns/stream"])
async def test_a_body_that_does_not_fit_names_the_field(site: Site, path: str, body: Any, field: str) -> None:
    conversation = await site.start()
    answer = await site.client.post(
        f"/api/v1/workflows/{conversation}/{path}",
        content=json.dumps(body),
        headers={"content-type": "application/json"},
    )
    (wrong,) = problem(answer, 422, "invalid-request")["errors"]
    assert wrong["field"] == field
    assert wrong["message"]
    assert site.agent.asked == []


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 422, "invalid-request"),
        (b"", 422, "invalid-request"),
        (b"[]", 422, "invalid-request"),
        (b'"text"', 422, "invalid-request"),
        (b'{"text": "\xff"}', 400, "bad-request"),
        (b"[" * 100_000, 400, "bad-request"),
        (b"1" * 5000, 400, "bad-request"),
    ],
)
async def test_what_is_no_json_is_refused(site: Site, content: bytes, status: int, code: str) -> None:
    conversation = await site.start()
    path = f"/api/v1/workflows/{conversation}/turns"
    answer = await site.client.post(path, content=content, headers={"content-type": "application/json"})
    problem(answer, status, code)


async def test_json_of_another_content_type_is_refused(site: Site) -> None:
    """A page of another site can send plain text without being asked, and JSON not."""
    answer = await site.client.post(
        "/api/v1/workflows", content=b'{"busy": "merge"}', headers={"content-type": "text/plain"}
    )
    problem(answer, 422, "invalid-request")


async def test_an_unknown_definition_names_the_field(site: Site) -> None:
    for body, field in (({"definition": "no\ud800pe"}, "definition"), ({"busy": "drop"}, "busy")):
        answer = await site.client.post(
            "/api/v1/workflows", content=json.dumps(body), headers={"content-type": "application/json"}
        )
        assert problem(answer, 422, "invalid-request")["errors"][0]["field"] == field
    told = problem(await site.client.post("/api/v1/workflows", json={"definition": "nope"}), 422, "invalid-request")
    assert told["errors"] == [{"field": "definition", "message": "no such workflow; known: intake"}]
    long = await site.client.post("/api/v1/workflows", json={"definition": "n" * 65})
    told = problem(long, 422, "invalid-request")
    assert told["errors"] == [{"field": "definition", "message": "String should have at most 64 characters"}]


@pytest.mark.parametrize("name", ["nobody", "%00", "a%3Eb", "%ff", "x" * 2000, "%F0%9F%98%80", "..%2f..", "%ed%a0%80"])
async def test_a_conversation_that_cannot_be_is_unknown(site: Site, name: str) -> None:
    for answer in (
        await site.client.get(f"/api/v1/workflows/{name}"),
        await site.client.post(f"/api/v1/workflows/{name}/turns", json={"text": "hi"}),
    ):
        assert answer.status_code == 404
        assert answer.json()["code"] in ("unknown-conversation", "not-found")


@pytest.mark.parametrize(
    "data", [{"name": "a\0b"}, {"name": "\ud800"}, {"\ud800": 1}, {"name": float("nan")}, {"": ""}]
)
async def test_odd_values_of_a_card_are_taken_without_a_fault(site: Site, data: dict[str, Any]) -> None:
    conversation = await site.start()
    body = json.dumps({"card_id": "details_card", "data": data})
    answer = await site.client.post(
        f"/api/v1/workflows/{conversation}/card-actions",
        content=body,
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 200
    assert (await site.client.get(f"/api/v1/workflows/{conversation}")).status_code == 200


@pytest.mark.parametrize(
    "data",
    [{"deep": eval("[" * 30 + "]" * 30)}, {"big": 10**200}, {"long": "x" * 70_000}, {str(n): n for n in range(3000)}],
    ids=["deep", "big", "long", "many"],
)
async def test_values_that_cannot_be_kept_name_the_field(site: Site, data: dict[str, Any]) -> None:
    conversation = await site.start()
    body = {"card_id": "details_card", "data": data}
    answer = await site.client.post(f"/api/v1/workflows/{conversation}/card-actions", json=body)
    assert problem(answer, 422, "invalid-request")["errors"][0]["field"] == "data"


async def test_what_is_not_there_is_a_problem_too(site: Site) -> None:
    problem(await site.client.get("/api/v1/nothing"), 404, "not-found")
    refused = await site.client.put("/api/v1/workflows")
    problem(refused, 405, "method-not-allowed")
    assert refused.headers["allow"] == "POST"


def test_an_error_that_names_no_field_is_nobody_elses_fault() -> None:
    for error in (ValueError("Expecting value: line 1"), UnicodeEncodeError("utf-8", "x", 0, 1, "y"), KeyError("text")):
        assert problem_of(error) is None


def test_every_code_has_one_kind() -> None:
    assert all(kind.code == code and kind.detail for code, kind in CATALOGUE.items())
    assert all(400 <= kind.status < 600 for kind in CATALOGUE.values())


async def test_many_refusals_at_once_are_each_their_own(site: Site) -> None:
    answers = await asyncio.gather(*(site.client.get(f"/api/v1/workflows/{number}") for number in range(20)))
    for number, answer in enumerate(answers):
        assert problem(answer, 404, "unknown-conversation")["instance"] == f"/api/v1/workflows/{number}"
