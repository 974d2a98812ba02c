"""Asking an agent under a turn: pieces go to whoever watches while they come, the messages are the answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.protocol import Agent, Ask
from inturn.lanes.effects import Turn

log = logging.getLogger("inturn.conversations")

MAX_PIECE = 8000
MAX_ANSWER = 32_000
"""Characters. A longer answer is cut: its result and its delivery have to fit into the store."""


class Speaker:
    """What one turn says of one conversation to whoever watches."""

    def __init__(self, turn: Turn[Any], conversation_id: str) -> None:
        self._turn = turn
        self._conversation_id = conversation_id

    def typing(self) -> None:
        self._say({"typing": True})

    def restart(self) -> None:
        """What was streamed so far is no part of the answer."""
        self._say({"restart": True})

    def piece(self, text: str) -> None:
        for start in range(0, len(text), MAX_PIECE):
            self._say({"token": text[start : start + MAX_PIECE]})

    def _say(self, what: dict[str, Any]) -> None:
        self._turn.stream({"conversation_id": self._conversation_id, **what})


async def ask_agent(agent: Agent, ask: Ask, speaker: Speaker) -> str:
    """The agent's words; '' if it had none."""
    said: list[str] = []
    async with _closing(agent.ask(ask)) as activities:
        async for activity in activities:
            if _is_restart(activity):
                said.clear()
                speaker.restart()
            elif activity.type == "typing" and activity.text:
                speaker.piece(activity.text)
            elif activity.type == "message" and activity.text.strip() and activity.sender.get("role") != "user":
                said.append(activity.text.strip())
    answer = "\n\n".join(said)
    if len(answer) > MAX_ANSWER:
        log.warning("the answer of agent %s has %d characters, and was cut", agent.name, len(answer))
    return answer[:MAX_ANSWER]


def _is_restart(activity: Activity) -> bool:
    return activity.type == "event" and isinstance(activity.value, Mapping) and activity.value.get("restart") is True


@asynccontextmanager
async def _closing(activities: AsyncIterator[Activity]) -> AsyncIterator[AsyncIterator[Activity]]:
    """A turn that is cut short closes the agent's connection at once, not when memory is tidied up."""
    try:
        yield activities
    finally:
        close = getattr(activities, "aclose", None)
        if close is not None:
            await close()
