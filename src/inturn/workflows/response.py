"""What the orchestrator returns: the messages to show, what they mean, and where the workflow stands now."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from inturn.workflows.definition.model import WorkflowDefinition
from inturn.workflows.messages import NormalizedMessage
from inturn.workflows.parse import ParsedTurn
from inturn.workflows.state import BusyTurn, Line, Status, WorkflowState


class Progress(BaseModel):
    current_step: int
    """The number of the current step, from 1; the last step when everything is collected."""
    total_steps: int
    percent_complete: int = Field(ge=0, le=100)
    """100 only when the workflow is completed."""

    @classmethod
    def of(cls, state: WorkflowState, definition: WorkflowDefinition) -> Progress:
        total = len(definition.steps)
        needed = [field.name for field in definition.fields() if field.required]
        filled = sum(name in state.collected_data for name in needed)
        percent = 100 if state.status == "completed" else min(99, 100 * filled // max(1, len(needed)))
        return cls(current_step=min(state.current_step + 1, total), total_steps=total, percent_complete=percent)


class TurnMeta(BaseModel):
    turn_number: int
    state_changed: bool
    collected_this_turn: dict[str, Any]


class StateView(BaseModel):
    """The part of a state that clients see."""

    status: Status
    current_phase: str
    current_step: str | None
    """The id of the step; `null` when everything is collected."""
    collected_data: dict[str, Any]
    turn_count: int
    suggested_input_type: str | None
    choices: list[str]
    last_recommendation: str

    @classmethod
    def of(cls, state: WorkflowState, definition: WorkflowDefinition) -> StateView:
        steps = definition.steps
        return cls(
            status=state.status,
            current_phase=state.phase,
            current_step=steps[state.current_step].id if state.current_step < len(steps) else None,
            collected_data=state.collected_data,
            turn_count=state.turn_count,
            suggested_input_type=state.suggested_input_type,
            choices=state.choices,
            last_recommendation=state.last_recommendation,
        )


class WorkflowResponse(BaseModel):
    conversation_id: str
    agent: str
    """Who answered."""
    messages: list[NormalizedMessage]
    parsed_turn: ParsedTurn
    workflow_state: StateView
    progress: Progress
    turn_meta: TurnMeta
    latency_ms: float

    def kept(self) -> dict[str, Any]:
        """Returns what its duplicate mark keeps: the messages only once."""
        return self.model_dump(mode="json", exclude={"parsed_turn": {"messages"}})

    @classmethod
    def read(cls, kept: dict[str, Any]) -> WorkflowResponse:
        response = cls.model_validate(kept)
        response.parsed_turn.messages = response.messages
        return response


class SessionView(BaseModel):
    """Where a conversation stands in its workflow, and what was collected."""

    conversation_id: str
    agent: str
    """Who answers here."""
    definition: str
    title: str
    busy: BusyTurn
    workflow_state: StateView
    progress: Progress
    history: list[Line]
    card: dict[str, Any] | None
    """The card of the current step, filled with what is known; `null` if the step has no card."""
    expires_in_s: float | None
    """`null` while turns wait, and for a conversation of another service that has had no turn here yet."""
