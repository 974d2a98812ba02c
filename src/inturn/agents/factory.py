"""Makes the agent that the settings name. If they name several, they are tried in order."""

from __future__ import annotations

from collections.abc import Callable

from inturn.agents.copilot.agent import CopilotStudioAgent
from inturn.agents.failover import failover
from inturn.agents.offline.agent import OfflineAgent
from inturn.agents.openai.agent import OpenAIAgent
from inturn.agents.protocol import Agent
from inturn.errors import MissingExtra, SettingsError
from inturn.settings import AgentName, Settings


def make_agent(settings: Settings) -> Agent:
    """Raises a `SettingsError` that names the missing variable, if one is missing."""
    agents = [_MAKERS[name](settings) for name in settings.agent]
    return agents[0] if len(agents) == 1 else failover(agents)


def _offline(settings: Settings) -> Agent:
    return OfflineAgent(pace_s=settings.offline_pace or 0.0)


def _openai(settings: Settings) -> Agent:
    if not settings.openai_model:
        raise _needs("openai", "INTURN_OPENAI_MODEL", "the model to ask")
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else ""
    if not key and settings.openai_base_url is None:
        raise _needs("openai", "INTURN_OPENAI_API_KEY", "or INTURN_OPENAI_BASE_URL, if that endpoint needs no key")
    # Your own endpoint may need no key, but the package demands one. No provider uses this text in an answer.
    return OpenAIAgent(
        settings.openai_model,
        base_url=settings.openai_base_url or "https://api.openai.com/v1",
        api_key=key or "inturn-has-no-key",
        timeout=settings.agent_timeout,
    )


def _copilot_studio(settings: Settings) -> Agent:
    try:
        from microsoft_agents.copilotstudio.client import ConnectionSettings
    except ImportError as error:
        raise MissingExtra("the Copilot Studio agent", "copilot") from error
    if settings.copilot_direct_url is None:
        for name, value in (
            ("INTURN_COPILOT_ENVIRONMENT_ID", settings.copilot_environment_id),
            ("INTURN_COPILOT_AGENT", settings.copilot_agent),
        ):
            if not value:
                raise _needs("copilot_studio", name, "or INTURN_COPILOT_DIRECT_URL instead")
    if settings.copilot_token is None:
        raise _needs("copilot_studio", "INTURN_COPILOT_TOKEN", "an access token")
    connection = ConnectionSettings(
        environment_id=settings.copilot_environment_id or "",
        agent_identifier=settings.copilot_agent or "",
        direct_connect_url=settings.copilot_direct_url,
    )
    return CopilotStudioAgent(
        connection, token=settings.copilot_token.get_secret_value(), timeout=settings.agent_timeout
    )


def _needs(agent: str, variable: str, what: str) -> SettingsError:
    return SettingsError(f"{variable}: must be set if INTURN_AGENT names {agent}: {what}")


_MAKERS: dict[AgentName, Callable[[Settings], Agent]] = {
    "offline": _offline,
    "openai": _openai,
    "copilot_studio": _copilot_studio,
}
