"""Asking an agent under a turn: pieces go to whoever watches while they come, the messages are the answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from inturn.agents.activity import Activity
from inturn.agents.protocol import Agent, Ask
from inturn.conversations import clean
from inturn.conversations.state import MAX_MEMORY
from inturn.errors import AgentRejected, BadMessage
from inturn.lanes.effects import Turn

log = logging.getLogger("inturn.conversations")

MOST_MESSAGES = 500
MOST_TEXT = 4_000_000
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
    count = length = 0
    async with _closing(agent.ask(ask)) as activities:
        async for given in activities:
            activity = Activity.read(given)
            if activity is None:
                continue
            count += activity.type == "message"
            length += len(activity.text)
            if count > MOST_MESSAGES or length > MOST_TEXT:
                raise AgentRejected(agent.name, "answers without end")
            if _is_restart(activity):
                said.clear()
                speaker.restart()
            elif activity.type == "typing" and activity.text:
                speaker.piece(activity.text)
            elif activity.type == "message" and activity.text.strip() and activity.sender.get("role") != "user":
                said.append(activity.text.strip())
    _keep_plain(agent, ask)
    answer = clean.text("\n\n".join(said), 2 * MOST_TEXT)
    if len(answer) > MAX_ANSWER:
        log.warning("the answer of agent %s has %d characters, and was cut", agent.name, len(answer))
    return answer[:MAX_ANSWER]


def _keep_plain(agent: Agent, ask: Ask) -> None:
    try:
        kept = clean.plain(ask.memory, MAX_MEMORY)
    except clean.NotPlain as error:
        raise AgentRejected(agent.name, f"wants to remember what cannot be kept: it is {error}") from error
    ask.memory.clear()
    ask.memory.update(kept)


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
