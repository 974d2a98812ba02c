"""What an agent is, and what it is asked. One protocol for every provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from inturn.agents.activity import Activity
from inturn.workflows.definition.model import WorkflowDefinition

Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the conversation so far."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a workflow stands. `current_step` is a position in `definition.steps`; past the last, all is collected."""

    definition: WorkflowDefinition
    current_step: int
    phase: str
    collected: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to an agent: a query, or the submission of a card."""

    conversation_id: str
    query: str
    """What to send to a provider: the user's words, after the context block if there is a workflow."""
    text: str
    """The user's words alone; '' for a card."""
    card: Mapping[str, Any] | None = None
    """The data of a submitted card, with its `cardId`."""
    history: tuple[Said, ...] = ()
    """What was said before, oldest first, without the query."""
    situation: Situation | None = None
    """`None` in free chat."""
    instructions: str = ""
    """How the owner of the conversation wants the agent to answer."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What this agent must remember between calls: JSON, stored when the turn is committed."""


class Agent(Protocol):
    """Yields activities. The only errors that it raises are `AgentTimeout`, `AgentUnavailable`, `AgentRejected`.

    One agent serves all conversations of a process, on one event loop. It keeps nothing about any of them.
    """

    name: str

    def ask(self, ask: Ask) -> AsyncIterator[Activity]: ...

    async def aclose(self) -> None: ...
