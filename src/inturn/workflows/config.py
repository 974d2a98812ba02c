"""The settings of an orchestrator, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from inturn import arguments
from inturn.lanes.handler import MAX_STATE_TTL_S, one_of
from inturn.workflows.loop import MAX_CONTEXT
from inturn.workflows.state import BusyTurn

DAY_S = 86_400.0
MAX_TEXT = 16_000
"""Characters. The chat page lets nobody write more, too."""


@dataclass(frozen=True, slots=True)
class OrchestratorConfig:
    busy: BusyTurn = "reject"
    """What happens to a turn of a busy conversation, unless it was started with another policy."""
    state_ttl: float = DAY_S
    """Seconds that a conversation is kept after its last turn."""
    lease: float = 30.0
    """Seconds after which the turn of a killed process ends; a living process renews it."""
    time_limit: float = 300.0
    """Seconds that a turn may take."""
    agent_timeout: float = 120.0
    """Seconds that the agent may take for its whole answer."""
    wait: float = 60.0
    """Seconds that a turn waits for those before it, if the policy lets it wait; and a repeat for the first."""
    dedup_window: float = DAY_S
    """Seconds in which a repeated `message_id` gets the first response."""
    context_chars: int = MAX_CONTEXT
    """Characters of the query that the agent gets, unless the user's words alone are longer."""
    max_text: int = MAX_TEXT
    """Characters that a user may write in one message."""

    def __post_init__(self) -> None:
        one_of(self.busy, get_args(BusyTurn), "busy")
        arguments.seconds(self.state_ttl, "state_ttl", maximum=MAX_STATE_TTL_S)
        for name in ("lease", "time_limit", "agent_timeout", "wait", "dedup_window"):
            arguments.seconds(getattr(self, name), name)
        arguments.whole(self.context_chars, "context_chars", 200, 1_000_000)
        arguments.whole(self.max_text, "max_text", 1, 100_000)
