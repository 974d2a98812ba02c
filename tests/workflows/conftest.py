"""Orchestrators on both stores. Two apps are two processes as far as the store can tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis.asyncio

from inturn.agents.protocol import Agent
from inturn.workflows import Owner, RedisWorkflowStateStore, WorkflowOrchestrator, WorkflowState
from inturn.workflows.config import OrchestratorConfig
from tests.conftest import PATIENT_S, MakeApp
from tests.http.site import Site, opened
from tests.waiting import until
from tests.workflows.scripted import DEFINITION, Scripted

MakeOrchestrator = Callable[..., WorkflowOrchestrator]

ADA = Owner(user_id="ada", tenant_id="acme")


@pytest.fixture
def agent() -> Scripted:
    return Scripted()


@pytest.fixture
def make(make_app: MakeApp, agent: Scripted) -> MakeOrchestrator:
    """An orchestrator in a process of its own; options of its config by name."""

    def make(by: Agent | None = None, *, plain: Any = None, parts: dict[str, Any] | None = None, **config: Any) -> Any:
        return WorkflowOrchestrator(
            make_app(), by or agent, DEFINITION, config=OrchestratorConfig(**config), plain=plain, **(parts or {})
        )

    return make


@pytest.fixture
async def flow(make: MakeOrchestrator) -> WorkflowOrchestrator:
    return make()


@pytest.fixture
async def site(store_url: str, namespace: str) -> AsyncIterator[Site]:
    """The whole app over both stores."""
    async with opened(store_url, namespace) as made:
        yield made


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        yield client


@pytest.fixture
def plain(client: redis.asyncio.Redis) -> RedisWorkflowStateStore:
    return RedisWorkflowStateStore(client)


def state_of(conversation: str, **more: Any) -> WorkflowState:
    return WorkflowState(conversation_id=conversation, definition="intake", owner=ADA, phase="about_you", **more)


async def begin(flow: WorkflowOrchestrator, **options: Any) -> str:
    """The id of a new session of Ada's."""
    return (await flow.start_session("ada", "acme", **options)).conversation_id


async def stored(flow: WorkflowOrchestrator, conversation_id: str) -> bytes | None:
    """The state exactly as it is kept."""
    return (await flow.app.process.store.lane(f"conversation:{conversation_id}", 1)).state


async def collected(flow: WorkflowOrchestrator, conversation_id: str) -> dict[str, Any]:
    return (await flow.get_session(conversation_id)).workflow_state.collected_data


async def until_gathered(flow: WorkflowOrchestrator, count: int) -> None:
    """So many wait in this process to be answered together; the store knows only of the first of them."""

    async def have_come() -> bool:
        return sum(len(burst.items) for burst in flow._turns._bursts._waiting.values()) == count

    await until(have_come)
