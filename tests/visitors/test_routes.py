"""The routes: what they take, give and refuse. Errors are told by the app around them; here, in short."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from inturn import InTurn
from inturn.testing import drain
from inturn.visitors.responder import VisitorResponder
from tests.visitors.graph.graphs import END, START, edges
from tests.visitors.listener import served
from tests.visitors.world import Recorder, outcomes, said
from tests.waiting import until


@pytest.fixture
async def responder(app: InTurn, agent: Recorder) -> VisitorResponder:
    @app.handler("deliver")
    async def deliver(turn: Any) -> None: ...

    return VisitorResponder(app, agent)


@pytest.fixture
async def client(responder: VisitorResponder) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(served(responder))
    async with httpx.AsyncClient(transport=transport, base_url="http://test/api/v1") as client:
        yield client


def message(number: int, **more: str) -> dict[str, str]:
    return {"conversation_id": "c1", "project_id": "p1", "message_id": f"m{number}", "text": f"text {number}"} | more


async def post(client: httpx.AsyncClient, number: int, visitor: str = "v1", **more: str) -> httpx.Response:
    return await client.post(f"/visitors/{visitor}/messages", json=message(number, **more))


async def test_settings_of_a_project_are_set_and_shown(client: httpx.AsyncClient) -> None:
    assert (await client.get("/projects/p1/ai")).json()["enabled"] is False, "nobody has set it up"
    graph = {"nodes": [START, END], "edges": edges("s > e")}
    given = {"enabled": True, "busy": "queue", "instructions": "Be kind.", "graph": graph, "deliver": "deliver"}
    put = await client.put("/projects/p1/ai", json=given)
    assert put.status_code == 200
    assert put.json() == given == (await client.get("/projects/p1/ai")).json()
    other = await client.get("/projects/p1/ai", headers={"x-tenant": "acme"})
    assert other.json()["enabled"] is False


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"busy": "sometimes"}, "busy"),
        ({"deliver": "nobody"}, "no handler 'nobody'"),
        ({"deliver": "visitor"}, "cannot deliver answers"),
        ({"graph": {"nodes": [START, END]}}, "node 's': has no edge"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_wrong_settings_are_422_and_name_the_field(
    client: httpx.AsyncClient, wrong: dict[str, Any], told: str
) -> None:
    answer = await client.put("/projects/p1/ai", json=wrong)
    assert answer.status_code == 422
    assert told in answer.text


async def test_each_problem_of_a_graph_is_an_error_of_its_own_and_names_the_node(client: httpx.AsyncClient) -> None:
    graph = {"nodes": [START, END, {"type": "message", "id": "hello"}, {"type": "dance", "id": "d"}]}
    answer = await client.put("/projects/p1/ai", json={"graph": graph})
    assert answer.status_code == 422
    assert [(each["loc"], each["msg"].partition(":")[0]) for each in answer.json()["detail"]] == [
        (["body", "graph"], "node 'hello'"),
        (["body", "graph"], "node 'd'"),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (r'{"instructions": "\ud83d"}', "instructions"),
        ('{"enabled": NaN}', "enabled"),
        ('{"graph": 5}', "graph"),
        ('{"graph": "{}"}', "graph"),
        ('{"graph": ' + "[" * 100 + "]" * 100 + "}", "graph"),
        (r'{"graph": {"nodes": [{"type": "start", "id": "\ud83d"}]}}', "graph"),
        (r'{"graph": {"nodes": [{"type": "tool", "id": "t", "tool": "x", "arguments": {"a": "\ud83d"}}]}}', "graph"),
        ('{"graph": {"nodes": [{"type": "tool", "id": "t", "tool": "x", "arguments": {"a": NaN}}]}}', "graph"),
    ],
)
async def test_odd_values_in_settings_are_422_and_name_the_field(
    client: httpx.AsyncClient, body: str, field: str
) -> None:
    answer = await client.put("/projects/p1/ai", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert all(each["loc"][:2] == ["body", field] for each in answer.json()["detail"])


async def test_a_repeat_under_another_policy_gets_the_very_same_body(client: httpx.AsyncClient) -> None:
    await client.put("/projects/p1/ai", json={})
    first = await post(client, 1)
    for busy in ("drop", "reject", "interrupt", "latest"):
        await client.put("/projects/p1/ai", json={"busy": busy})
        again = await post(client, 1)
        assert (again.status_code, again.content) == (202, first.content)
        assert again.headers["idempotency-replayed"] == "true"


async def test_what_only_the_responder_needs_to_know_is_not_shown(client: httpx.AsyncClient, app: InTurn) -> None:
    await post(client, 1)
    await drain(app, raise_errors=True)
    (shown,) = (await client.get("/conversations/c1/messages")).json()["messages"]
    assert set(shown) == {"seq", "id", "role", "text", "at", "outcome", "answers", "agent"}


async def test_presence_is_set_and_shown(client: httpx.AsyncClient) -> None:
    put = await client.put("/projects/p1/presence", json={"agent_id": "anna", "online": True, "for_s": 60})
    assert put.json()["human_online"] is True
    shown = (await client.get("/projects/p1/presence")).json()
    assert [agent["agent_id"] for agent in shown["agents"]] == ["anna"]
    await client.put("/projects/p1/presence", json={"agent_id": "anna", "online": False})
    assert (await client.get("/projects/p1/presence")).json()["human_online"] is False
    for for_s in (0, 1e9):
        refused = await client.put("/projects/p1/presence", json={"agent_id": "a", "online": True, "for_s": for_s})
        assert refused.status_code == 422


async def test_a_message_gets_a_receipt_and_a_repeat_the_very_same(client: httpx.AsyncClient, app: InTurn) -> None:
    await client.put("/projects/p1/ai", json={})
    first = await post(client, 1)
    assert first.status_code == 202
    assert first.json() == {
        "message_id": "m1", "conversation_id": "c1", "visitor_uid": "v1", "status": "accepted", "lane": "visitor:v1",
    }  # fmt: skip
    assert "idempotency-replayed" not in first.headers
    await drain(app, raise_errors=True)
    again = await post(client, 1)
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert await drain(app) == []
    shown = (await client.get("/conversations/c1/messages")).json()
    assert [(m["seq"], m["role"], m["text"]) for m in shown["messages"]] == [
        (1, "visitor", "text 1"),
        (2, "assistant", "re: text 1"),
    ]
    later = (await client.get("/conversations/c1/messages", params={"after": 1})).json()
    assert [m["seq"] for m in later["messages"]] == [2]
    page = (await client.get("/conversations/c1/messages", params={"limit": 1})).json()
    assert ([m["seq"] for m in page["messages"]], page["has_more"]) == ([1], True)


async def test_a_dropped_one_is_dropped_again_in_the_same_words(client: httpx.AsyncClient, app: InTurn) -> None:
    await client.put("/projects/p1/ai", json={"busy": "drop"})
    await post(client, 1)
    dropped = await post(client, 2)
    assert (dropped.status_code, dropped.json()["status"]) == (202, "dropped")
    assert "idempotency-replayed" not in dropped.headers
    await drain(app, raise_errors=True)
    again = await post(client, 2)
    assert again.content == dropped.content
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_busy_visitor_of_a_rejecting_project_is_told(client: httpx.AsyncClient) -> None:
    await client.put("/projects/p1/ai", json={"busy": "reject"})
    assert (await post(client, 1)).status_code == 202
    assert (await post(client, 2)).status_code == 409


async def test_another_visitors_conversation_is_not_there(client: httpx.AsyncClient) -> None:
    await post(client, 1)
    assert (await post(client, 2, visitor="v2")).status_code == 404
    assert (await post(client, 2, project_id="p2")).status_code == 404
    acme = {"x-tenant": "acme"}
    assert (await client.get("/conversations/c1/messages", headers=acme)).status_code == 404
    assert (await client.get("/conversations/c1/events", headers=acme)).status_code == 404
    assert (await client.patch("/conversations/c1", json={"ai_enabled": True}, headers=acme)).status_code == 404


async def test_tenants_may_use_the_same_names(client: httpx.AsyncClient, responder: VisitorResponder) -> None:
    await post(client, 1)
    acme = await client.post("/visitors/v1/messages", json=message(1), headers={"x-tenant": "acme"})
    assert acme.json()["lane"] == "visitor:acme:v1"
    assert "idempotency-replayed" not in acme.headers


async def test_the_ai_is_switched_off_for_a_conversation(
    client: httpx.AsyncClient, app: InTurn, responder: VisitorResponder, agent: Recorder
) -> None:
    assert (await client.patch("/conversations/c1", json={"ai_enabled": False})).status_code == 404
    await client.put("/projects/p1/ai", json={})
    await post(client, 1)
    patched = await client.patch("/conversations/c1", json={"ai_enabled": False})
    assert patched.json() == {
        "conversation_id": "c1", "project_id": "p1", "visitor_uid": "v1", "ai_enabled": False,
    }  # fmt: skip

    async def is_settled() -> bool:
        await drain(app, raise_errors=True)  # while the change itself may be under way
        return await outcomes(responder) == {"m1": "unanswered"}

    await until(is_settled)
    assert agent.asked == []


@pytest.mark.parametrize(
    "wrong",
    [{"text": ""}, {"text": "x" * 8001}, {"message_id": "a>b"}, {"conversation_id": "a/b"}, {"project_id": "a\x00"},
     {"project_id": "a/b"}],
)  # fmt: skip
async def test_a_wrong_message_is_422(client: httpx.AsyncClient, wrong: dict[str, str]) -> None:
    answer = await post(client, 1, **wrong)
    assert answer.status_code == 422
    assert next(iter(wrong)) in answer.text


async def test_wrong_names_in_addresses_are_422(client: httpx.AsyncClient) -> None:
    assert (await post(client, 1, visitor="a%3Eb")).status_code == 422
    assert (await client.get("/conversations/a%3Eb/messages")).status_code == 422
    assert (await client.get("/projects/a%0Ab/ai")).status_code == 422
    await post(client, 1)
    assert (await client.get("/conversations/c1/messages?limit=0")).status_code == 422


async def test_every_body_has_an_example_that_is_right(responder: VisitorResponder) -> None:
    schemas = served(responder).openapi()["components"]["schemas"]
    for name in ("PresenceIn", "MessageIn", "MessageReceipt", "ConversationPatch", "MessagesOut", "ProjectSettings"):
        assert schemas[name]["examples"], name


async def test_an_event_with_all_its_fields_is_what_the_responder_takes(responder: VisitorResponder) -> None:
    assert said(1).model_dump() == {
        "conversation_id": "c1", "project_id": "p1", "visitor_uid": "v1", "message_id": "m1", "text": "text 1",
        "tenant_id": "",
    }  # fmt: skip


WITHOUT_FASTAPI = """
import sys
sys.modules["fastapi"] = None
import inturn.visitors.responder
try:
    import inturn.visitors.routes
except Exception as error:
    print(type(error).__name__, error)
"""


def test_the_routes_name_the_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FASTAPI], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == (
        "MissingExtra inturn.visitors.routes needs the extra 'server': pip install 'inturn[server]'\n"
    )


async def test_a_conversation_is_deleted_with_all_that_was_said(
    client: httpx.AsyncClient, responder: VisitorResponder
) -> None:
    await client.put("/projects/p1/ai", json={"enabled": True})
    await post(client, 1)
    await drain(responder.app, raise_errors=True)
    assert (await client.delete("/conversations/c1", headers={"x-tenant": "acme"})).status_code == 404
    assert (await client.delete("/conversations/c1")).status_code == 204
    assert (await client.get("/conversations/c1/messages")).status_code == 404
    assert (await client.delete("/conversations/c1")).status_code == 404
    assert (await post(client, 2)).status_code == 202, "a new message begins a new conversation"
    await drain(responder.app, raise_errors=True)
    said = (await client.get("/conversations/c1/messages")).json()["messages"]
    assert [each["text"] for each in said] == ["text 2", "re: text 2"]


async def test_a_project_is_deleted_and_no_longer_answers(
    client: httpx.AsyncClient, responder: VisitorResponder
) -> None:
    await client.put("/projects/p1/ai", json={"enabled": True})
    assert (await client.delete("/projects/p1")).status_code == 204
    assert (await client.delete("/projects/p1")).status_code == 204
    assert (await client.get("/projects/p1/ai")).json()["enabled"] is False
    await post(client, 1)
    await drain(responder.app, raise_errors=True)
    assert await outcomes(responder) == {"m1": "unanswered"}


async def test_what_waits_is_shown_without_a_number(client: httpx.AsyncClient, responder: VisitorResponder) -> None:
    await client.put("/projects/p1/ai", json={"enabled": True})
    await post(client, 1)
    shown = (await client.get("/conversations/c1/messages")).json()
    assert shown["messages"] == []
    assert [(each["id"], each["text"]) for each in shown["waiting"]] == [("m1", "text 1")]
    await drain(responder.app, raise_errors=True)
    shown = (await client.get("/conversations/c1/messages")).json()
    assert [each["seq"] for each in shown["messages"]] == [1, 2]
    assert shown["waiting"] == []
