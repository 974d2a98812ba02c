"""The one app: its description, its settings, and what happens when its store goes away."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio
from fastapi import FastAPI

from inturn.agents.offline.agent import OfflineAgent
from inturn.capabilities.outcome import WEBHOOK_PATH
from inturn.errors import DefinitionError, SettingsError
from inturn.http.problems import _EVERYWHERE as EVERYWHERE
from inturn.http.problems import CATALOGUE, SCHEMA
from inturn.settings import Settings
from inturn.web.app import make_app
from inturn.workflows.config import OrchestratorConfig
from tests.conftest import PATIENT_S
from tests.http.site import ADA_KEY, Site, opened, problem
from tests.servers import PrivateRedis
from tests.waiting import until

READ = {"store-unavailable", "state-mismatch"}
WRITE = {"conversation-busy", "mailbox-full", "outcome-unknown", "turn-lost", *READ}
NEEDS_NO_STORE = {"/api/v1/workflow-definitions", "/api/v1/capabilities/{name}", "/healthz"}


def described(api: FastAPI) -> list[tuple[str, str, dict[str, Any]]]:
    paths = api.openapi()["paths"]
    return [(path, method, operation) for path in paths for method, operation in paths[path].items()]


def body_of(api: FastAPI, operation: dict[str, Any]) -> Any:
    """The example of its description."""
    if "requestBody" not in operation:
        return None
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    if "examples" in schema:
        return schema["examples"][0]
    schema = next(iter(schema.get("anyOf", [schema])))
    name = schema["$ref"].rpartition("/")[2]
    found = api.openapi()["components"]["schemas"][name]
    return found.get("examples", [{}])[0]


async def test_what_is_somebodys_is_kept_in_no_cache(site: Site) -> None:
    started = await site.client.post("/api/v1/workflows")
    conversation = await site.client.get(started.headers["location"])
    for answer in (started, conversation):
        assert answer.is_success
        assert answer.headers.get_list("cache-control") == ["no-store"]


def test_the_description_has_examples_and_problems_for_every_route() -> None:
    api = make_app(Settings(url="sqlite:///:memory:"))
    names = []
    for path, method, operation in described(api):
        if not path.startswith("/api/"):
            continue
        names.append(operation["operationId"])
        assert operation["tags"]
        assert operation["summary"]
        responses = operation["responses"]
        assert "security" in operation or path == WEBHOOK_PATH, path  # that one is proved by its signature
        for status in ("401", "413", "500"):
            assert status in responses, (path, status)
        for status, told in responses.items():
            if int(status) >= 400:
                (content,) = told["content"].items()
                assert content[0] == "application/problem+json", (path, method, status)
                for code, shown in content[1]["examples"].items():
                    assert shown["value"]["code"] == code
                    assert (shown["value"]["status"], CATALOGUE[code].status) == (int(status), int(status))
        if method == "post" and "requestBody" in operation:
            assert body_of(api, operation), path
    assert len(set(names)) == len(names)
    assert {"start_workflow", "take_turn", "stream_turn", "submit_card", "get_workflow"} <= set(names)
    assert "HTTPValidationError" not in json.dumps(api.openapi())


def references(described: Any) -> list[str]:
    if isinstance(described, list):
        return [found for each in described for found in references(each)]
    if not isinstance(described, dict):
        return []
    own = [described["$ref"]] if isinstance(described.get("$ref"), str) else []
    return own + [found for each in described.values() for found in references(each)]


def test_the_description_refers_to_nothing_that_it_does_not_hold() -> None:
    description = make_app(Settings(url="sqlite:///:memory:")).openapi()
    found = set(references(description))
    assert len(found) > 20
    for reference in found:
        place: Any = description
        for step in reference.removeprefix("#/").split("/"):
            place = place[step.replace("~1", "/").replace("~0", "~")]


@pytest.mark.parametrize(
    ("method", "path", "codes"),
    [
        ("get", "/projects/{project_id}/presence", READ),
        ("get", "/conversations/{conversation_id}/messages", {"unknown-conversation", *READ}),
        ("get", "/conversations/{conversation_id}/events", {"unknown-conversation", "too-many-streams", *READ}),
        ("put", "/projects/{project_id}/ai", WRITE),
        ("get", "/projects/{project_id}/ai", WRITE),
        ("put", "/projects/{project_id}/presence", WRITE),
        ("delete", "/projects/{project_id}", WRITE),
        ("patch", "/conversations/{conversation_id}", {"unknown-conversation", *WRITE}),
        ("delete", "/conversations/{conversation_id}", {"unknown-conversation", *WRITE}),
        ("post", "/visitors/{visitor_uid}/messages", {"unknown-conversation", "conversation-stopped", *WRITE}),
    ],
)
def test_a_visitor_route_lists_the_problems_that_it_can_answer_with(method: str, path: str, codes: set[str]) -> None:
    api = make_app(Settings(url="sqlite:///:memory:"))
    responses = api.openapi()["paths"][f"/api/v1{path}"][method]["responses"]
    listed = [
        code
        for status, told in responses.items()
        if int(status) >= 400
        for code in told["content"]["application/problem+json"]["examples"]
    ]
    assert set(listed) - set(EVERYWHERE) == codes


def bare(schemas: dict[str, Any]) -> list[str]:
    """Schemas and properties that a reader of the API reference is told nothing about."""
    found = []
    for name, schema in schemas.items():
        if not schema.get("description"):
            found.append(name)
        for inner, about in schema.get("properties", {}).items():
            meant = schemas[about["$ref"].rpartition("/")[2]] if "$ref" in about else {}
            # the one value that the type of a node can have says all
            if not (about.get("description") or meant.get("description") or "const" in about):
                found.append(f"{name}.{inner}")
    return found


def test_the_description_explains_every_schema_and_every_property() -> None:
    schemas = make_app(Settings(url="sqlite:///:memory:")).openapi()["components"]["schemas"]
    assert {"MessageOut", "ProjectSettings", "WorkflowResponse", "Graph"} <= set(schemas)
    assert bare({**schemas, "Problem": SCHEMA}) == []


def test_the_check_would_find_what_is_not_explained() -> None:
    explained = {"description": "x", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/schemas/Bare"}}}
    assert bare({"Explained": explained, "Bare": {}}) == ["Explained.a", "Explained.b", "Bare"]


async def until_ready(site: Site) -> None:
    async with asyncio.timeout(30):
        while (await site.client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - it knows no event
            await asyncio.sleep(0.02)


async def test_with_its_store_away_every_route_is_503_and_then_it_goes_on(
    durable_redis: PrivateRedis, namespace: str
) -> None:
    async with opened(durable_redis.url, namespace) as site:
        await until(lambda: site.turns.process.is_ready, within_s=30)
        conversation = await site.start()
        await site.say(conversation, "name=Ada")
        site.turns.process.store.timeout_s = 3.0
        durable_redis.kill()

        async def ask(path: str, method: str, operation: dict[str, Any]) -> None:
            where = re.sub(r"\{\w+\}", conversation, path)
            body = body_of(site.api, operation)
            if body:
                body.pop("definition", None)  # of the shipped workflow, which this site does not have
            answer = await site.client.request(method, where, json=body)
            if path == "/readyz":
                assert (answer.status_code, answer.json()["status"]) == (503, "unready")
            else:
                problem(answer, 503, "store-unavailable")
                assert answer.headers["retry-after"] == "5"

        asked = [route for route in described(site.api) if route[0] not in NEEDS_NO_STORE]
        assert len(asked) > 10
        await asyncio.gather(*(ask(*route) for route in asked))  # each takes as long as the store may
        assert (await site.client.get("/healthz")).status_code == 200
        assert site.agent.texts == ["name=Ada"]
        await asyncio.to_thread(durable_redis.start)
        site.turns.process.store.timeout_s = PATIENT_S  # now one that answers late is not away
        await until_ready(site)
        answer = await site.say(conversation, "email=ada@example.com")
        assert answer.json()["workflow_state"]["collected_data"] == {"name": "Ada", "email": "ada@example.com"}
        assert answer.json()["turn_meta"]["turn_number"] == 2


@pytest.mark.parametrize("path", ["/docs/", "/healthz/", "/api/v1/workflows/"])
async def test_no_request_is_led_elsewhere(keyed_site: Site, path: str) -> None:
    """A redirect would name whatever host the request does."""
    headers = {"host": "evil.example.com", "authorization": f"Bearer {ADA_KEY}"}
    problem(await keyed_site.client.get(path, headers=headers), 404, "not-found")


def test_a_given_agent_is_not_measured_by_the_settings_of_another(tmp_path: Path) -> None:
    settings = Settings(url=f"sqlite:///{tmp_path / 'x.db'}", agent_timeout=1)
    made, given = make_app(settings), make_app(settings, agent=OfflineAgent())
    assert made.state.orchestrator.config.agent_timeout == 6
    assert given.state.orchestrator.config.agent_timeout == OrchestratorConfig().agent_timeout


async def test_it_starts_without_its_store_and_works_when_that_comes(fresh_redis: PrivateRedis, namespace: str) -> None:
    fresh_redis.kill()
    async with opened(fresh_redis.url, namespace, store_timeout=3) as site:
        assert (await site.client.get("/readyz")).status_code == 503
        problem(await site.client.post("/api/v1/workflows"), 503, "store-unavailable")
        await asyncio.to_thread(fresh_redis.start)
        site.turns.process.store.timeout_s = PATIENT_S  # now one that answers late is not away
        await until_ready(site)
        await site.start()
        await until(lambda: bool(site.turns.runtime.workers), within_s=30)


async def test_by_default_it_is_the_shipped_workflow_with_the_offline_agent(tmp_path: Path) -> None:
    api = make_app(Settings(url=f"sqlite:///{tmp_path / 'x.db'}"))
    assert isinstance(api.state.agent, OfflineAgent)
    transport = httpx.ASGITransport(api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        (listed,) = (await client.get("/api/v1/workflow-definitions")).json()
        assert listed["id"] == "support_intake"
        started = (await client.post("/api/v1/workflows")).json()
        assert started["agent"] == "offline"


def test_what_is_wrong_with_its_settings_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="is empty"):
        make_app(Settings(workflows=str(tmp_path)))
    with pytest.raises(SettingsError, match="cannot be read"):
        make_app(Settings(api_keys_file=str(tmp_path / "none")))
    with pytest.raises(SettingsError, match="INTURN_OPENAI_MODEL"):
        make_app(Settings(agent=("openai",)))


async def test_a_server_takes_part_in_what_other_services_lock_and_keep(redis_url: str, namespace: str) -> None:
    shared = {"share_conversation_lock": True, "adopt_workflows": True}
    async with opened(redis_url, namespace, **shared) as site, redis.asyncio.Redis.from_url(redis_url) as other:
        await other.set(f"wf:{namespace}", json.dumps({"collectedData": {"name": "Ada"}, "turnCount": 4}), ex=60)
        await other.set(f"lock:conv:{namespace}", "theirs", ex=60)
        problem(await site.say(namespace, "x"), 409, "conversation-busy")
        await other.delete(f"lock:conv:{namespace}")
        answer = await site.say(namespace, "email=ada@example.org")
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert told["workflow_state"]["collected_data"] == {"name": "Ada", "email": "ada@example.org"}
        assert (told["progress"]["current_step"], told["progress"]["current_step_id"]) == (2, "details")
        await other.delete(f"wf:{namespace}")


@pytest.mark.parametrize("setting", ["share_conversation_lock", "adopt_workflows"])
def test_what_needs_redis_is_refused_without_it(setting: str) -> None:
    with pytest.raises(SettingsError, match="Redis"):
        make_app(Settings(url="sqlite:///:memory:", **{setting: True}))
