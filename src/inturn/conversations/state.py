"""The state of a workflow: where a conversation stands in its definition, and what was collected. Never the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inturn.agents.protocol import Role
from inturn.agents import storable as clean
from inturn.workflows.definition.model import PHASES, WorkflowDefinition

Status = Literal["active", "completed", "error"]
BusyTurn = Literal["reject", "queue", "merge"]

MAX_HISTORY = 20
MAX_HISTORY_TEXT = 1000
MAX_ANSWERED = 200
MAX_COLLECTED = 48 * 1024
MAX_MEMORY = 16 * 1024

CONFIRM, COMPLETED = PHASES


class Owner(BaseModel):
    """Whose conversation it is: nobody else is told that it exists."""

    model_config = ConfigDict(frozen=True)

    user_id: str
    tenant_id: str


class Line(BaseModel):
    role: Role
    text: str


class WorkflowState(BaseModel):
    conversation_id: str
    definition: str
    """The id of the definition; its steps are in its file."""
    owner: Owner
    status: Status = "active"
    current_step: int = Field(0, ge=0)
    """A position in the definition's steps; past the last: all is collected."""
    phase: str = ""
    """The id of the current step; then `confirm`, and `completed`."""
    collected_data: dict[str, Any] = Field(default_factory=dict)
    """By name, the one that was answered last at the end."""
    turn_count: int = Field(0, ge=0)
    last_recommendation: str = ""
    suggested_input_type: str | None = None
    choices: list[str] = Field(default_factory=list)
    busy: BusyTurn = "reject"
    history: list[Line] = Field(default_factory=list)
    memory: dict[str, Any] = Field(default_factory=dict)
    """Of the agent."""
    answered: dict[str, str] = Field(default_factory=dict)
    """The ids of the newest messages, each with the id of the turn that answered it: merged ones share a turn."""

    def stand_at(self, definition: WorkflowDefinition) -> None:
        """Where the collected data puts it."""
        self.current_step = definition.position(self.collected_data)
        if self.status == "completed":
            self.phase = COMPLETED
        elif self.current_step < len(definition.steps):
            self.phase = definition.steps[self.current_step].id
        else:
            self.phase = CONFIRM

    def collect(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Lay new data over the old, key by key; the latest answer wins. Answers what is new in it."""
        fresh = {
            name: value for name, value in data.items()
            if name not in self.collected_data or repr(self.collected_data[name]) != repr(value)
        }  # fmt: skip
        merged = {name: value for name, value in self.collected_data.items() if name not in data} | dict(data)
        self.collected_data = clean.plain(merged, MAX_COLLECTED)
        return fresh

    def adopted(self) -> WorkflowState:
        """A copy of what others wrote, within our bounds. Raises `NotPlain` where only losing data would help."""
        try:
            collected_data = clean.plain(self.collected_data, MAX_COLLECTED)
            memory = clean.plain(self.memory, MAX_MEMORY)
        except clean.NotPlain as error:
            raise clean.NotPlain(f"its collected data or its memory is {error}") from error
        lines = self.history[-MAX_HISTORY:]
        return self.model_copy(
            update={
                "collected_data": collected_data,
                "memory": memory,
                "history": [Line(role=line.role, text=clean.text(line.text, MAX_HISTORY_TEXT)) for line in lines],
                "answered": dict(list(self.answered.items())[-MAX_ANSWERED:]),
                "last_recommendation": clean.text(self.last_recommendation, MAX_HISTORY_TEXT),
                "choices": [clean.text(choice, 200) for choice in self.choices[:50]],
            }
        )

    def remember(self, role: Role, text: str) -> None:
        if text.strip():
            line = Line(role=role, text=clean.text(text, MAX_HISTORY_TEXT))
            self.history = [*self.history, line][-MAX_HISTORY:]

    def mark_answered(self, message_ids: list[str], turn_id: str) -> None:
        kept = {**self.answered, **dict.fromkeys(message_ids, turn_id)}
        self.answered = dict(list(kept.items())[-MAX_ANSWERED:])
