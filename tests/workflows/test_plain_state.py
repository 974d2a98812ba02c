"""The plain layout `wf:{conversation_id}` of other services: read with care, renewed by every set."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis.asyncio

from inturn import InTurn
from inturn.errors import SettingsError, StateMismatch, StoreUnavailable
from inturn.settings import Settings
from inturn.workflows import Owner, RedisWorkflowStateStore, WorkflowState
from inturn.workflows.plain_state import read_state
from inturn.workflows.state import Line
from tests.conftest import PATIENT_S
from tests.servers import PrivateRedis
from tests.workflows.conftest import state_of


async def test_a_state_is_kept_as_json_under_its_name_for_a_day(
    plain: RedisWorkflowStateStore, client: redis.asyncio.Redis, namespace: str
) -> None:
    state = state_of(namespace, collected_data={"name": "Ada"})
    assert await plain.get(namespace) is None
    await plain.set(namespace, state)
    assert json.loads(await client.get(f"wf:{namespace}") or b"") == state.model_dump()
    assert 86_390 <= await client.ttl(f"wf:{namespace}") <= 86_400
    assert await plain.get(namespace) == state
    await plain.delete(namespace)
    assert await client.exists(f"wf:{namespace}") == 0
    await plain.delete(namespace)


async def test_every_set_renews_the_life_and_a_get_does_not(client: redis.asyncio.Redis, namespace: str) -> None:
    plain = RedisWorkflowStateStore(client, ttl_seconds=1000)
    await plain.set(namespace, state_of(namespace))
    await client.expire(f"wf:{namespace}", 10)
    await plain.get(namespace)
    assert await client.ttl(f"wf:{namespace}") <= 10
    await plain.set(namespace, state_of(namespace))
    assert 990 <= await client.ttl(f"wf:{namespace}") <= 1000


GARBAGE = [
    b"", b"garbage", b"{}", b"[]", b"null", b"\xff\xfe", b'{"conversation_id": 7}', b'{"name": "Ada"}',
    b'{"status": "active", "collectedData": []}', b'{"turnCount": "many"}', b'{"turnCount": [1]}',
    b'{"status": "active", "owner": {"userId": []}}',
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_is_not_read_as_a_state(
    plain: RedisWorkflowStateStore, client: redis.asyncio.Redis, namespace: str, garbage: bytes
) -> None:
    await client.set(f"wf:{namespace}", garbage)
    with pytest.raises(StateMismatch, match=f"wf:{namespace}"):
        await plain.get(namespace)
    wrong = {**state_of(namespace).model_dump(), "turn_count": -1}
    await client.set(f"wf:{namespace}", json.dumps(wrong))
    with pytest.raises(StateMismatch, match="turn_count"):
        await plain.get(namespace)


async def test_the_state_of_another_conversation_is_none_of_this_one(
    plain: RedisWorkflowStateStore, client: redis.asyncio.Redis, namespace: str
) -> None:
    await client.set(f"wf:{namespace}", state_of("another").model_dump_json())
    with pytest.raises(StateMismatch, match="conversation_id"):
        await plain.get(namespace)


async def test_a_key_that_holds_no_string_is_a_state_that_cannot_be_read(
    redis_url: str, client: redis.asyncio.Redis, namespace: str
) -> None:
    await client.hset(f"wf:{namespace}", "status", "active")
    async with InTurn(redis_url, namespace=namespace, settings=Settings(store_timeout=PATIENT_S)) as app:
        for source in (client, app):
            with pytest.raises(StateMismatch, match=f"wf:{namespace}.*is no string"):
                await RedisWorkflowStateStore(source).get(namespace)


async def test_a_redis_that_is_away_is_the_store_that_is_away(fresh_redis: PrivateRedis, namespace: str) -> None:
    async with redis.asyncio.Redis.from_url(fresh_redis.url, socket_timeout=PATIENT_S) as client:
        plain = RedisWorkflowStateStore(client)
        await plain.set(namespace, state_of(namespace))
        fresh_redis.kill()
        for call in (plain.get(namespace), plain.set(namespace, state_of(namespace)), plain.delete(namespace)):
            with pytest.raises(StoreUnavailable):
                await call


@pytest.mark.parametrize("life", [0, -1, float("nan"), float("inf")])
def test_a_life_that_is_none_is_refused(client: Any, life: float) -> None:
    with pytest.raises(ValueError, match="ttl_seconds"):
        RedisWorkflowStateStore(client, life)


FULL = {
    "conversation_id": "c7", "definition": "intake", "owner": {"user_id": "ada", "tenant_id": "acme"},
    "status": "active", "current_step": 1, "phase": "details", "collected_data": {"name": "Ada", "fullName": "A. L."},
    "turn_count": 4, "last_recommendation": "How many?", "suggested_input_type": "number", "choices": ["1", "2"],
    "history": [{"role": "user", "text": "hi"}, {"role": "assistant", "text": "How many?"}],
}  # fmt: skip
CAMEL = {
    "conversationId": "c7", "definition": "intake", "owner": {"userId": "ada", "tenantId": "acme"},
    "status": "active", "currentStep": 1, "phase": "details", "collectedData": {"name": "Ada", "fullName": "A. L."},
    "turnCount": 4, "lastRecommendation": "How many?", "suggestedInputType": "number", "choices": ["1", "2"],
    "history": [{"role": "user", "text": "hi"}, {"role": "assistant", "text": "How many?"}],
}  # fmt: skip


def test_both_spellings_are_the_same_state() -> None:
    snake, camel = (read_state("c7", json.dumps(each)) for each in (FULL, CAMEL))
    assert snake == camel == WorkflowState.model_validate(FULL)
    assert camel.collected_data == {"name": "Ada", "fullName": "A. L."}, "names of fields are the user's"
    mixed = read_state("c7", json.dumps({**FULL, "collected_data": None, "collectedData": {"name": "Eve"}}))
    assert mixed.collected_data == {"name": "Eve"}


@pytest.mark.parametrize("missing", ["conversationId", "definition", "owner"])
def test_a_state_may_lack_its_id_its_definition_and_its_owner(missing: str) -> None:
    state = read_state("c7", json.dumps({name: value for name, value in CAMEL.items() if name != missing}))
    assert state.conversation_id == "c7"
    assert state.collected_data["name"] == "Ada"
    assert (state.definition == "") == (missing == "definition")
    assert (state.owner.user_id == "") == (missing == "owner")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"status": "COMPLETED"}, {"status": "completed"}),
        ({"status": "done", "turns": 3}, {"status": "completed", "turn_count": 3}),
        ({"status": "failed"}, {"status": "error"}),
        ({"status": "in_progress", "data": {"name": "Ada"}}, {"status": "active", "collected_data": {"name": "Ada"}}),
        ({"currentStep": "about_you"}, {"current_step": 0}),
        ({"current_step": -3, "currentPhase": "details"}, {"current_step": 0, "phase": "details"}),
        ({"turnCount": 1, "userId": 42, "tenantId": "acme"}, {"owner": Owner(user_id="42", tenant_id="acme")}),
        ({"turnCount": 1, "owner": "ada"}, {"owner": Owner(user_id="ada", tenant_id="")}),
        ({"turnCount": 1, "definition": {"id": "intake", "steps": []}}, {"definition": "intake"}),
        ({"turnCount": 1, "workflowId": "intake"}, {"definition": "intake"}),
        (
            {"messages": [{"role": "human", "content": "hi"}, {"role": "Bot", "text": "yes"}, {"role": "tool"}, 7]},
            {"history": [Line(role="user", text="hi"), Line(role="assistant", text="yes")]},
        ),
        ({"turnCount": 1, "choices": "yes,no"}, {"choices": []}),
        ({"turnCount": 1, "choices": {"yes": 1}, "currentStep": True}, {"choices": [], "current_step": 0}),
        ({"turns": [{"role": "user", "text": "hi"}]}, {"turn_count": 0, "history": [Line(role="user", text="hi")]}),
        ({"turnCount": 1, "definition": 7}, {"definition": ""}),
        ({"turnCount": 1, "definition": {"id": ["x"]}}, {"definition": ""}),
        ({"turnCount": 1, "conversationId": 5}, {"conversation_id": "c7"}),
        ({"turnCount": 1, "conversationId": ""}, {"conversation_id": "c7"}),
        ({"turnCount": 1, "choices": [1], "busy": "never", "memory": 7, "answered": []}, {"choices": [], "memory": {}}),
    ],
)
def test_what_other_services_write_is_understood(written: dict[str, Any], expected: dict[str, Any]) -> None:
    state = read_state("c7", json.dumps(written))
    assert {name: getattr(state, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("written", "owner"),
    [
        ({"owner": {"id": "ada", "tenant": "acme"}}, ("ada", "acme")),
        ({"owner": {"user": "ada"}}, ("ada", "")),
        ({"owner": {"user": {"id": 7}, "tenant": {"tenantId": "acme"}}}, ("7", "acme")),
        ({"owner": "ada", "tenantId": "acme"}, ("ada", "acme")),
        ({"user": "ada", "tenant": "acme", "id": "c7"}, ("ada", "acme")),
        ({"ownerId": "ada"}, ("ada", "")),
        ({"owner": {}, "userId": "ada"}, ("ada", "")),
        ({"tenant": "acme"}, ("", "acme")),
        ({"user": {"id": "ada", "tenantId": "acme"}}, ("ada", "acme")),
        ({"user": {"id": "ada", "tenant": {"id": "acme"}}}, ("ada", "acme")),
        ({"user": {"userId": "ada", "TenantID": "acme"}}, ("ada", "acme")),
        ({"userId": {"id": "ada", "tenant_id": 7}}, ("ada", "7")),
        ({"owner": {"user": {"id": "ada", "tenant": "acme"}}}, ("ada", "acme")),
        ({"owner": "ada", "user": {"id": "ada", "tenant": "acme"}}, ("ada", "acme")),
        ({"owner": {"id": "ada", "tenant": "acme"}, "tenantId": "acme"}, ("ada", "acme")),
        ({"id": "c7"}, ("", "")),
        ({"owner": {"user_id": "", "tenant_id": ""}}, ("", "")),
    ],
)
def test_an_owner_is_read_in_the_forms_that_services_write(written: dict[str, Any], owner: tuple[str, str]) -> None:
    found = read_state("c7", json.dumps({"turnCount": 1, **written})).owner
    assert (found.user_id, found.tenant_id) == owner


@pytest.mark.parametrize(
    "written",
    [
        {"owner": {"name": "ada"}},
        {"owner": {"tenant": "acme"}},
        {"owner": {"name": "ada"}, "userId": "bob"},
        {"owner": ["ada"]},
        {"owner": True},
        {"owner": {"id": "ada", "tenant": {"name": "acme"}}},
        {"user": {"name": "ada"}},
        {"user": ["ada"]},
        {"userId": "ada", "tenant": ["acme"]},
        {"user": {"id": "ada", "tenant": ["acme"]}},
        {"owner": {"id": "ada", "tenant": "acme"}, "tenantId": "other"},
        {"user": {"id": "ada", "tenant": "acme"}, "tenantId": "other"},
    ],
)
def test_a_state_whose_owner_cannot_be_read_belongs_to_nobody_who_asks(written: dict[str, Any]) -> None:
    with pytest.raises(StateMismatch, match=r"owner: .* cannot be read"):
        read_state("c7", json.dumps({"turnCount": 1, **written}))


async def test_an_app_on_redis_is_a_client_too(redis_url: str, client: redis.asyncio.Redis, namespace: str) -> None:
    async with InTurn(redis_url, namespace=namespace, settings=Settings(store_timeout=PATIENT_S)) as app:
        plain = RedisWorkflowStateStore(app, ttl_seconds=1000)
        assert await plain.get(namespace) is None
        await plain.set(namespace, state_of(namespace, collected_data={"name": "Ada"}))
        assert 990 <= await client.ttl(f"wf:{namespace}") <= 1000
        assert await plain.get(namespace) == state_of(namespace, collected_data={"name": "Ada"})
        await plain.delete(namespace)
        assert await client.exists(f"wf:{namespace}") == 0


async def test_an_app_on_sqlite_has_no_states_of_other_services(sqlite_url: str) -> None:
    async with InTurn(sqlite_url) as app:
        with pytest.raises(SettingsError, match="Redis"):
            RedisWorkflowStateStore(app)
