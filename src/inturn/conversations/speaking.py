"""Asking an agent under a turn: pieces go to whoever watches while they come, the messages are the answer."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import Any

from inturn.agents.protocol import Agent, Ask
from inturn.agents import storable as clean
from inturn.conversations.asking import MOST_TEXT, activities_of, kept_memory
from inturn.errors import BadMessage
from inturn.lanes.turn import Turn

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
        text = clean.text(text, MOST_TEXT)
        for start in range(0, len(text), MAX_PIECE):
            self._say({"token": text[start : start + MAX_PIECE]})

    def _say(self, what: dict[str, Any]) -> None:
        try:
            self._turn.stream({"conversation_id": self._conversation_id, **what})
        except BadMessage as error:  # it is only a hint, and costs nobody the answer
            log.debug("conversation=%s: a chunk was left out: %s", self._conversation_id, error)


async def ask_agent(agent: Agent, ask: Ask, speaker: Speaker) -> str:
    """The agent's words; '' if it had none. Changes `ask.memory` to what can be kept of it."""
    said: list[str] = []
    async with aclosing(activities_of(agent, ask)) as activities:
        async for activity in activities:
            if activity.is_restart:
                said.clear()
                speaker.restart()
            elif activity.type == "typing" and activity.text:
                speaker.piece(activity.text)
            elif activity.type == "message" and activity.text.strip() and activity.sender.get("role") != "user":
                said.append(activity.text.strip())
    kept = kept_memory(agent, ask)
    ask.memory.clear()
    ask.memory.update(kept)
    answer = clean.text("\n\n".join(said), 2 * MOST_TEXT)
    if len(answer) > MAX_ANSWER:
        log.warning("the answer of agent %s has %d characters, and was cut", agent.name, len(answer))
    return answer[:MAX_ANSWER]
