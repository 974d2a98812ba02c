"""Agents answer in conversations, or one prompt with one object: one protocol, and a folder for each provider.

No provider's package is imported before its agent is made.
"""

from inturn.agents.activity import Activity
from inturn.agents.completion import Completed, Prompt, ProviderCall, complete
from inturn.agents.copilot.agent import CopilotStudioAgent
from inturn.agents.failover import Failover, failover
from inturn.agents.offline.agent import OfflineAgent
from inturn.agents.openai.agent import OpenAIAgent
from inturn.agents.protocol import Agent, Ask, Said, Situation

__all__ = [
    "Activity",
    "Agent",
    "Ask",
    "Completed",
    "CopilotStudioAgent",
    "Failover",
    "OfflineAgent",
    "OpenAIAgent",
    "Prompt",
    "ProviderCall",
    "Said",
    "Situation",
    "complete",
    "failover",
]
