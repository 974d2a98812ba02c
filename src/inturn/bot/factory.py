"""Makes the companion that the settings describe, and what the offline agent knows as a companion."""

from __future__ import annotations

from typing import Any

from inturn.agents.factory import make_agent
from inturn.agents.offline.agent import OfflineAgent
from inturn.agents.protocol import Agent
from inturn.app import InTurn
from inturn.bot.bot import BotOptions, CompanionBot
from inturn.bot.cadence import Cadence
from inturn.bot.conversation import INSTRUCTIONS, Texts
from inturn.settings import Settings
from inturn.workflows.definition.model import StepDefinition, WorkflowDefinition

_OFFLINE = WorkflowDefinition(
    id="companion",
    title="Companion",
    welcome="Hello! I am the offline companion: no model, no key, no network.",
    about="I am the offline companion of inturn. I know a few answers by heart; a language model knows more.",
    answers={
        "bursts, several messages, quick messages": (
            "Write several messages in a row: I wait until you have been silent for a moment, and answer all of them "
            "at once.\n\nA long message is answered without waiting."
        ),
        "proactive, write first, cadence": (
            "I write first after an hour, nine hours, a day, a week and a month, and begin anew when you write."
        ),
        "model, language model, openai, agent": "Set INTURN_AGENT=openai and INTURN_OPENAI_MODEL for a real agent.",
        "telegram, token, phone": "Set INTURN_BOT_TOKEN to the token of your bot, and run: inturn bot",
        "lanes, order, exactly once": (
            "Each of your messages goes into your lane: one turn at a time, in order, committed exactly once."
        ),
    },
    steps=(StepDefinition(id="chat", title="Chat", prompt="What would you like to talk about?"),),
)


def make_companion_agent(settings: Settings) -> Agent:
    """The agent of the settings. The offline one knows what a companion needs, and needs no extra for it."""
    if settings.agent == ("offline",):
        return OfflineAgent(_OFFLINE, pace_s=settings.offline_pace or 0.0)
    return make_agent(settings)


def make_companion(app: InTurn, agent: Agent, bot: Any, settings: Settings) -> CompanionBot:
    texts = Texts() if settings.bot_failure_text is None else Texts(failure=settings.bot_failure_text)
    options = BotOptions(
        busy=settings.bot_busy,
        quiet=settings.bot_quiet,
        agent_timeout=settings.bot_agent_timeout,
        instructions=settings.bot_instructions or INSTRUCTIONS,
        texts=texts,
        cadence=Cadence() if settings.bot_proactive else None,
    )
    return CompanionBot(app, agent, bot, options)
