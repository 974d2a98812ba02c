"""The routes of workflows: what they take and give."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from inturn.workflows import bodies
from inturn.workflows.response import SessionView, WorkflowResponse
from tests.http.site import ADA_KEY, BOB_KEY, KEYS, Site, opened, problem
from tests.lanes.workbench import Gate


async def test_a_workflow_is_walked_from_start_to_end(site: Site) -> None:
    started = await site.client.post("/api/v1/workflows")
    assert started.status_code == 201
    first = WorkflowResponse.model_validate(started.json())
    assert started.headers["location"] == f"/api/v1/workflows/{first.conversation_id}"
    assert (first.agent, first.turn_meta.turn_number, first.progress.percent_complete) == ("scripted", 0, 0)

    turn = await site.say(first.conversation_id, "name=Ada email=ada@example.com")
    assert turn.status_code == 200
    response = WorkflowResponse.model_validate(turn.json())
    assert response.turn_meta.collected_this_turn == {"name": "Ada", "email": "ada@example.com"}

    card = {"card_id": "details_card", "data": {"count": 3}, "action": "submit"}
    submitted = await site.client.post(f"{started.headers['location']}/card-actions", json=card)
    assert submitted.json()["workflow_state"]["collected_data"]["count"] == 3

    view = SessionView.model_validate((await site.client.get(started.headers["location"])).json())
    assert (view.workflow_state.turn_count, view.workflow_state.current_phase) == (2, "confirm")

    completed = await site.client.post(f"{started.headers['location']}/complete")
    assert completed.json()["progress"]["percent_complete"] == 100
    problem(await site.say(first.conversation_id, "more"), 409, "session-completed")

    gone = await site.client.delete(started.headers["location"])
    assert (gone.status_code, gone.content) == (204, b"")
    problem(await site.client.get(started.headers["location"]), 404, "unknown-conversation")


async def test_where_a_workflow_stands_says_who_answers_and_which_card_is_open(site: Site) -> None:
    conversation = await site.start()
    path = f"/api/v1/workflows/{conversation}"
    first = (await site.client.get(path)).json()
    assert (first["agent"], first["card"]) == ("scripted", None)
    await site.say(conversation, "name=Ada email=ada@example.com")
    card = (await site.client.get(path)).json()["card"]
    assert card["id"] == "details_card"
    assert {part["id"] for part in card["body"] if "id" in part} == {"count", "urgent"}
    await site.say(conversation, "count=3 urgent=true")
    assert (await site.client.get(path)).json()["card"] is None
    completed = (await site.client.post(f"{path}/complete")).json()
    assert (completed["agent"], completed["card"]) == ("scripted", None)


async def test_definitions_are_listed_with_their_steps_and_fields(site: Site) -> None:
    (listed,) = (await site.client.get("/api/v1/workflow-definitions")).json()
    assert (listed["id"], listed["title"], listed["is_default"]) == ("intake", "Intake", True)
    assert [step["title"] for step in listed["steps"]] == ["About you", "Details"]
    assert [step["card_id"] for step in listed["steps"]] == [None, "details_card"]
    assert [(field["name"], field["type"]) for field in listed["steps"][1]["fields"]] == [
        ("count", "integer"),
        ("urgent", "boolean"),
    ]


async def test_a_repeated_message_id_gets_the_first_response(site: Site) -> None:
    conversation = await site.start()
    first = await site.say(conversation, "name=Ada", message_id="m1")
    again = await site.say(conversation, "name=Eve", message_id="m1")
    assert again.json() == first.json()
    assert site.agent.texts == ["name=Ada"]


async def test_a_busy_conversation_answers_409_and_says_when_to_come_again(site: Site) -> None:
    conversation = await site.start()
    gate = site.agent.gate = Gate()
    first = asyncio.create_task(site.say(conversation, "name=Ada"))
    await gate.reached.wait()
    refused = await site.say(conversation, "name=Eve")
    problem(refused, 409, "conversation-busy")
    assert refused.headers["retry-after"] == "1"
    for change in (
        site.client.post(f"/api/v1/workflows/{conversation}/complete"),
        site.client.delete(f"/api/v1/workflows/{conversation}"),
    ):
        problem(await change, 409, "conversation-busy")
    gate.opened.set()
    assert (await first).json()["workflow_state"]["collected_data"] == {"name": "Ada"}


@pytest.mark.parametrize("busy", ["queue", "merge"])
async def test_other_policies_answer_all_that_was_written(site: Site, busy: str) -> None:
    conversation = await site.start(busy=busy)
    gate = site.agent.gate = Gate()
    first = asyncio.create_task(site.say(conversation, "name=Ada"))
    await gate.reached.wait()
    others = [asyncio.create_task(site.say(conversation, f"k{number}=v")) for number in range(3)]
    gate.opened.set()
    assert [answer.status_code for answer in await asyncio.gather(first, *others)] == [200] * 4
    view = (await site.client.get(f"/api/v1/workflows/{conversation}")).json()
    assert view["busy"] == busy
    assert set(view["workflow_state"]["collected_data"]) == {"name", "k0", "k1", "k2"}


async def test_a_card_or_action_that_is_not_listed_is_403(site: Site) -> None:
    conversation = await site.start()
    for way in ("card-actions", "card-actions/stream"):
        path = f"/api/v1/workflows/{conversation}/{way}"
        problem(await site.client.post(path, json={"card_id": "other", "data": {}}), 403, "card-not-allowed")
        wrong = {"card_id": "details_card", "data": {}, "action": "delete"}
        problem(await site.client.post(path, json=wrong), 403, "card-not-allowed")
    assert site.agent.asked == []


async def test_the_conversation_of_another_user_or_tenant_does_not_exist(sqlite_url: str, namespace: str) -> None:
    keys = f"{KEYS},eve-key-0123456789:ada:other"
    async with opened(sqlite_url, namespace, api_keys=keys) as site:
        ada, bob, eve = (
            {"authorization": f"Bearer {key}"} for key in (ADA_KEY, BOB_KEY, "eve-key-0123456789")
        )  # fmt: skip
        started = await site.client.post("/api/v1/workflows", headers=ada)
        path = started.headers["location"]
        card = {"card_id": "details_card", "data": {}}
        for other in (bob, eve):
            for answer in (
                await site.client.get(path, headers=other),
                await site.client.post(f"{path}/turns", json={"text": "hi"}, headers=other),
                await site.client.post(f"{path}/turns/stream", json={"text": "hi"}, headers=other),
                await site.client.post(f"{path}/card-actions", json=card, headers=other),
                await site.client.post(f"{path}/card-actions/stream", json=card, headers=other),
                await site.client.post(f"{path}/complete", headers=other),
                await site.client.delete(path, headers=other),
            ):
                problem(answer, 404, "unknown-conversation")
        assert (await site.client.get(path, headers=ada)).status_code == 200
        assert site.agent.asked == []


async def test_an_idempotency_key_makes_any_post_happen_once(site: Site) -> None:
    key = {"idempotency-key": '"8e03978e"'}
    first = await site.client.post("/api/v1/workflows", headers=key)
    again = await site.client.post("/api/v1/workflows", headers=key)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_turn_that_was_refused_as_busy_runs_when_it_is_repeated_with_its_key(site: Site) -> None:
    conversation = await site.start()
    gate = site.agent.gate = Gate()
    first = asyncio.create_task(site.say(conversation, "name=Ada"))
    await gate.reached.wait()
    path, key = f"/api/v1/workflows/{conversation}/turns", {"idempotency-key": '"8e03978e"'}
    body = {"text": "email=ada@example.com"}
    problem(await site.client.post(path, json=body, headers=key), 409, "conversation-busy")
    gate.opened.set()
    await first
    for is_repeat in (False, True):
        answer = await site.client.post(path, json=body, headers=key)
        assert (answer.status_code, "idempotency-replayed" in answer.headers) == (200, is_repeat)
        assert answer.json()["workflow_state"]["collected_data"] == {"name": "Ada", "email": "ada@example.com"}


MODELS: list[type[BaseModel]] = [
    WorkflowResponse, SessionView, bodies.StartWorkflow, bodies.TakeTurn, bodies.SubmitCard, bodies.DefinitionView,
]  # fmt: skip


async def test_the_examples_of_the_description_are_what_they_are_examples_of(site: Site) -> None:
    """As it is served: what is null is not in it."""
    described = (await site.client.get("/openapi.json")).json()
    schemas = described["components"]["schemas"]
    found = [(name, given) for name, schema in schemas.items() for given in schema.get("examples", [])]
    for operations in described["paths"].values():
        for operation in operations.values():
            for told in operation["responses"].values():
                content = told.get("content", {}).get("application/json", {})
                if "example" in content:
                    found.append((content["schema"]["$ref"].rpartition("/")[2], content["example"]))
    known = {model.__name__: model for model in MODELS}
    assert known.keys() <= {name for name, _ in found}
    for name, given in found:
        if name in known:
            known[name].model_validate(given)


async def test_the_examples_tell_what_the_shipped_workflow_says(site: Site) -> None:
    started = WorkflowResponse.model_validate(bodies.STARTED)
    assert (started.turn_meta.turn_number, started.progress.percent_complete) == (0, 0)
    assert started.messages[0].text.endswith("What is your name?")
    response = WorkflowResponse.model_validate(bodies.RESPONSE)
    assert (response.turn_meta.turn_number, response.workflow_state.current_phase) == (1, "problem")
    view = SessionView.model_validate(bodies.SESSION)
    assert view.card is not None
    assert (view.card["id"], view.progress) == ("problem_card", response.progress)
