"""What an agent yields while it is asked, read leniently and within bounds; and what it may remember of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.protocol import Agent, Ask
from inturn.agents import storable as clean
from inturn.conversations.state import MAX_MEMORY
from inturn.errors import AgentRejected

MOST_MESSAGES = 500
MOST_TEXT = 4_000_000
LEAST_TEXT = 40
"""An activity counts as so many characters at least: one that says nothing costs time as well."""


async def activities_of(agent: Agent, ask: Ask) -> AsyncGenerator[Activity, None]:
    """Whoever leaves it halfway closes it, and with it the agent's connection. `AgentRejected` if it has no end."""
    given = agent.ask(ask)
    messages = length = 0
    try:
        async for found in given:
            activity = Activity.read(found)
            if activity is None:
                continue
            messages += activity.type == "message"
            length += max(LEAST_TEXT, len(activity.text))
            if messages > MOST_MESSAGES or length > MOST_TEXT:
                raise AgentRejected(agent.name, "answers without end")
            yield activity
    finally:
        close = getattr(given, "aclose", None)
        if close is not None:
            await close()


def kept_memory(agent: Agent, ask: Ask) -> dict[str, Any]:
    """What the agent has put into `ask.memory`, as it can be stored."""
    try:
        kept: dict[str, Any] = clean.plain(ask.memory, MAX_MEMORY)
    except clean.NotPlain as error:
        raise AgentRejected(agent.name, f"wants to remember what cannot be kept: it is {error}") from error
    return kept
