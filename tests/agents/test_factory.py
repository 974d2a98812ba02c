"""The settings name the agent, or say which variable is missing."""

from __future__ import annotations

import pytest

from inturn.agents import CopilotStudioAgent, Failover, OpenAIAgent
from inturn.agents.activity import signature_of
from inturn.agents.factory import _MAKERS, make_agent
from inturn.errors import SettingsError
from inturn.settings import AGENTS, load_settings
from tests.agents.conftest import asking, heard, said
from tests.agents.provider import SSE, Provider, Request, Wire
from tests.agents.wire import END, activity, completion, delta, says

OPENAI = {"INTURN_AGENT": "openai", "INTURN_OPENAI_MODEL": "m", "OPENAI_API_KEY": "k"}
COPILOT = {
    "INTURN_AGENT": "copilot_studio",
    "INTURN_COPILOT_ENVIRONMENT_ID": "e",
    "INTURN_COPILOT_AGENT": "a",
    "INTURN_COPILOT_TOKEN": "t",
}


def test_every_agent_that_the_settings_may_name_can_be_made() -> None:
    assert tuple(_MAKERS) == AGENTS


def test_the_offline_agent_is_the_default() -> None:
    assert make_agent(load_settings({})).name == "offline"


async def test_an_endpoint_of_ones_own_needs_no_key(provider: Provider) -> None:
    provider.script = says(completion("ok"))
    environ = {**OPENAI, "OPENAI_API_KEY": "", "INTURN_OPENAI_BASE_URL": f"{provider.url}/v1"}
    agent = make_agent(load_settings(environ))
    assert isinstance(agent, OpenAIAgent)
    assert said(await heard(agent)) == ["ok"]
    assert provider.last.body["model"] == "m"
    await agent.aclose()


async def test_copilot_studio_by_its_direct_url(provider: Provider) -> None:
    provider.script = says(activity(text="ok"), END)
    environ = {
        "INTURN_AGENT": "copilot_studio",
        "INTURN_COPILOT_DIRECT_URL": f"{provider.url}/copilot",
        "INTURN_COPILOT_TOKEN": "t",
    }
    agent = make_agent(load_settings(environ))
    assert isinstance(agent, CopilotStudioAgent)
    assert said(await heard(agent, asking(memory={"conversation_id": "c-1"}))) == ["ok"]
    assert provider.last.headers["authorization"] == "Bearer t"
    await agent.aclose()


async def test_several_are_a_failover_in_their_order() -> None:
    agent = make_agent(load_settings({**COPILOT, **OPENAI, "INTURN_AGENT": "openai,copilot_studio,offline"}))
    assert isinstance(agent, Failover)
    assert [each.name for each in agent.agents] == ["openai", "copilot_studio", "offline"]
    await agent.aclose()


async def test_when_the_first_breaks_off_the_next_one_answers(provider: Provider) -> None:
    async def breaks(request: Request, wire: Wire) -> None:
        await wire.head(content_type=SSE)
        await wire.chunk(delta("half an ans"))
        wire.cut()

    provider.script = breaks
    environ = {**OPENAI, "INTURN_AGENT": "openai,offline", "OPENAI_BASE_URL": provider.url}
    agent = make_agent(load_settings(environ))
    activities = await heard(agent)
    assert activities[0].text == "half an ans"
    assert activities[1].value == {"restart": True}
    messages = [activity for activity in activities if activity.type == "message"]
    assert messages
    assert {signature_of(message) for message in messages} == {"offline"}
    await agent.aclose()


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        (OPENAI, "INTURN_OPENAI_MODEL"),
        ({**OPENAI, "INTURN_OPENAI_API_KEY": ""}, "OPENAI_API_KEY"),
        (COPILOT, "INTURN_COPILOT_ENVIRONMENT_ID"),
        (COPILOT, "INTURN_COPILOT_AGENT"),
        (COPILOT, "INTURN_COPILOT_TOKEN"),
    ],
)
def test_a_missing_variable_is_named(environ: dict[str, str], missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        make_agent(load_settings({**environ, missing: ""}))
