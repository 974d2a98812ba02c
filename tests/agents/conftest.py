"""A provider, and agents over the real client packages that ask it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest
from microsoft_agents.copilotstudio.client import ConnectionSettings
from prometheus_client import REGISTRY

from inturn.agents import Activity, Agent, Ask, CopilotStudioAgent, OpenAIAgent, Situation
from inturn.workflows.definition.model import FieldDefinition, StepDefinition, WorkflowDefinition
from tests.agents.provider import Provider, serving

KEY = "sk-very-secret-0123456789"
MakeAgent = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's proxy is not asked for a server of this process."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with serving() as provider:
        yield provider


@pytest.fixture
async def make_openai(provider: Provider) -> AsyncIterator[MakeAgent]:
    agents: list[Agent] = []

    def make(**options: Any) -> OpenAIAgent:
        agents.append(OpenAIAgent("m", **{"base_url": f"{provider.url}/v1", "api_key": KEY, **options}))
        return agents[-1]  # type: ignore[return-value]

    yield make
    for agent in agents:
        await agent.aclose()


@pytest.fixture
async def make_copilot(provider: Provider) -> AsyncIterator[MakeAgent]:
    agents: list[Agent] = []

    def make(**options: Any) -> CopilotStudioAgent:
        agents.append(CopilotStudioAgent(connection(provider), **{"token": KEY, **options}))
        return agents[-1]  # type: ignore[return-value]

    yield make
    for agent in agents:
        await agent.aclose()


def connection(provider: Provider) -> ConnectionSettings:
    return ConnectionSettings("", "", direct_connect_url=f"{provider.url}/copilot")


def asking(text: str = "hi", **more: Any) -> Ask:
    return Ask("c1", text, text, **more)


async def heard(agent: Agent, ask: Ask | None = None) -> list[Activity]:
    return [activity async for activity in agent.ask(ask or asking())]


async def cancel_in_the_middle(activities: AsyncIterator[Activity]) -> None:
    """As soon as the first has come."""
    began = asyncio.Event()

    async def listen() -> None:
        async for _ in activities:
            began.set()

    task = asyncio.create_task(listen())
    await asyncio.wait_for(began.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_in_the_middle(activities: AsyncIterator[Activity]) -> Activity:
    """Returns the one that came."""
    assert isinstance(activities, AsyncGenerator)
    first: Activity = await anext(activities)
    await activities.aclose()
    return first


def pieces(activities: list[Activity]) -> list[str]:
    return [activity.text for activity in activities if activity.type == "typing" and activity.text]


def said(activities: list[Activity]) -> list[str]:
    return [activity.text for activity in activities if activity.type == "message"]


def count(name: str, outcome: str) -> float:
    """How many calls of the agent have ended so."""
    return REGISTRY.get_sample_value("inturn_agent_calls_total", {"agent": name, "outcome": outcome}) or 0.0


def trip() -> WorkflowDefinition:
    return WorkflowDefinition(
        id="trip",
        title="A trip",
        about="We book trips.",
        answers={"price": "Trips cost 10 to 20 euros."},
        confirm="Ask whether all is right.",
        steps=(
            StepDefinition(
                id="where",
                title="Where to",
                prompt="Ask where the user wants to go.",
                fields=(
                    FieldDefinition(name="city", prompt="the city"),
                    FieldDefinition(name="class", type="choice", choices=("first", "second"), required=False),
                ),
            ),
            StepDefinition(
                id="when",
                title="When",
                prompt="Ask for the rest.",
                fields=(
                    FieldDefinition(name="day", type="date"),
                    FieldDefinition(name="people", type="integer"),
                    FieldDefinition(name="price", type="number"),
                    FieldDefinition(name="mail", type="email"),
                    FieldDefinition(name="pet", type="boolean"),
                    FieldDefinition(name="code", pattern="[A-Z]{3}"),
                ),
            ),
        ),
    )


def situation(step: int = 0) -> Situation:
    return Situation(trip(), step, "collecting", {})
