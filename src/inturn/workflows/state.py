"""The state of a workflow: where a conversation stands in its definition, and what was collected. Never the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inturn.agents import storable
from inturn.agents.call import MAX_MEMORY
from inturn.agents.protocol import Role
from inturn.workflows.definition.model import PHASES, WorkflowDefinition

Status = Literal["active", "completed", "error"]
BusyTurn = Literal["reject", "queue", "merge"]

MAX_HISTORY = 20
MAX_HISTORY_TEXT = 1000
MAX_ANSWERED = 200
MAX_COLLECTED = 48 * 1024
UNKNOWN = ""
"""In a state of another service: the definition, the user or the tenant that it does not name."""

CONFIRM, COMPLETED = PHASES


class Owner(BaseModel):
    """The user whose conversation it is. Nobody else learns that it exists."""

    model_config = ConfigDict(frozen=True)

    user_id: str
    tenant_id: str


class Line(BaseModel):
    """One message of the history."""

    role: Role = Field(description="Who wrote it.")
    text: str = Field(description="What was written.")


class WorkflowState(BaseModel):
    conversation_id: str
    definition: str
    """The id of the definition; its steps are in its file."""
    owner: Owner
    status: Status = "active"
    current_step: int = Field(0, ge=0)
    """A position in the definition's steps; past the last step when everything is collected."""
    phase: str = ""
    """The id of the current step; after the last step `confirm`, then `completed`."""
    collected_data: dict[str, Any] = Field(default_factory=dict)
    """By field name; what was answered last comes last."""
    turn_count: int = Field(0, ge=0)
    last_recommendation: str = ""
    suggested_input_type: str | None = None
    choices: list[str] = Field(default_factory=list)
    busy: BusyTurn = "reject"
    history: list[Line] = Field(default_factory=list)
    memory: dict[str, Any] = Field(default_factory=dict)
    """What the agent remembers."""
    answered: dict[str, str] = Field(default_factory=dict)
    """The ids of the newest messages, each with the id of the turn that answered it. Merged messages share a turn."""

    def stand_at(self, definition: WorkflowDefinition) -> None:
        """Sets step and phase by what was collected."""
        self.current_step = definition.position(self.collected_data)
        if self.status == "completed":
            self.phase = COMPLETED
        elif self.current_step < len(definition.steps):
            self.phase = definition.steps[self.current_step].id
        else:
            self.phase = CONFIRM

    def collect(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Merges new data into the old, key by key; the latest answer wins. Returns what is new or changed."""
        fresh = {
            name: value for name, value in data.items()
            if name not in self.collected_data or repr(self.collected_data[name]) != repr(value)
        }  # fmt: skip
        merged = {name: value for name, value in self.collected_data.items() if name not in data} | dict(data)
        self.collected_data = storable.value(merged, MAX_COLLECTED)
        return fresh

    def filled_in(self, owner: Owner | None, definition: str, busy: BusyTurn) -> WorkflowState:
        """Returns a copy of what another service wrote, with defaults for what that did not name."""
        asks = owner or self.owner
        whose = Owner(user_id=self.owner.user_id or asks.user_id, tenant_id=self.owner.tenant_id or asks.tenant_id)
        policy = self.busy if "busy" in self.model_fields_set else busy
        return self.model_copy(update={"owner": whose, "definition": self.definition or definition, "busy": policy})

    def adopted(self) -> WorkflowState:
        """Returns a copy of what another service wrote, cut to our bounds.

        Raises `NotStorable` if cutting would lose collected data or memory.
        """
        try:
            collected_data = storable.value(self.collected_data, MAX_COLLECTED)
            memory = storable.value(self.memory, MAX_MEMORY)
        except storable.NotStorable as error:
            raise storable.NotStorable(f"its collected data or its memory is {error}") from error
        lines = self.history[-MAX_HISTORY:]
        return self.model_copy(
            update={
                "collected_data": collected_data,
                "memory": memory,
                "history": [Line(role=line.role, text=storable.text(line.text, MAX_HISTORY_TEXT)) for line in lines],
                "answered": dict(list(self.answered.items())[-MAX_ANSWERED:]),
                "last_recommendation": storable.text(self.last_recommendation, MAX_HISTORY_TEXT),
                "choices": [storable.text(choice, 200) for choice in self.choices[:50]],
            }
        )

    def remember(self, role: Role, text: str) -> None:
        if text.strip():
            line = Line(role=role, text=storable.text(text, MAX_HISTORY_TEXT))
            self.history = [*self.history, line][-MAX_HISTORY:]

    def mark_answered(self, message_ids: list[str], turn_id: str) -> None:
        kept = {**self.answered, **dict.fromkeys(message_ids, turn_id)}
        self.answered = dict(list(kept.items())[-MAX_ANSWERED:])
