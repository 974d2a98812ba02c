"""What the orchestrator returns: the messages to show, what they mean, and where the workflow stands now."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from inturn.workflows.definition.model import WorkflowDefinition
from inturn.workflows.messages import NormalizedMessage
from inturn.workflows.parse import ParsedTurn
from inturn.workflows.state import BusyTurn, Line, Status, WorkflowState


class Progress(BaseModel):
    """How far the workflow is."""

    current_step: int = Field(
        description="The number of the current step, from 1; the last step when everything is collected."
    )
    current_step_id: str = Field("", description="The id of that step.")
    total_steps: int = Field(description="How many steps the workflow has.")
    percent_complete: int = Field(
        ge=0,
        le=100,
        description="How many of the required fields are collected, in percent; 100 only when the workflow is "
        "completed.",
    )

    @classmethod
    def of(cls, state: WorkflowState, definition: WorkflowDefinition) -> Progress:
        total = len(definition.steps)
        needed = [field.name for field in definition.fields() if field.required]
        filled = sum(name in state.collected_data for name in needed)
        percent = 100 if state.status == "completed" else min(99, 100 * filled // max(1, len(needed)))
        number = min(state.current_step + 1, total)
        return cls(
            current_step=number,
            current_step_id=definition.steps[number - 1].id,
            total_steps=total,
            percent_complete=percent,
        )


class TurnMeta(BaseModel):
    """What this turn did."""

    turn_number: int = Field(description="The number of this turn, from 1; 0 for the start of the workflow.")
    state_changed: bool = Field(description="Whether the status, the step or the collected data changed.")
    collected_this_turn: dict[str, Any] = Field(description="The fields that are new or changed, by name.")


class StateView(BaseModel):
    """Where the workflow stands, and what was collected."""

    status: Status = Field(description="`error`: the agent said that it cannot go on; another turn may still help.")
    current_phase: str = Field(
        description="The id of the current step; after the last step `confirm`, then `completed`."
    )
    current_step: str | None = Field(description="The id of the step; `null` when everything is collected.")
    collected_data: dict[str, Any] = Field(description="What was collected so far, by field name.")
    turn_count: int = Field(description="How many turns were taken.")
    suggested_input_type: str | None = Field(
        description="The type of input that fits the next answer, such as `text` or `choice`; `null` if the agent "
        "named none."
    )
    choices: list[str] = Field(description="Answers to choose from.")
    last_recommendation: str = Field(description="What the agent asked or said last.")

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
    """The answer to one turn."""

    conversation_id: str = Field(description="The id of the conversation.")
    agent: str = Field(description="The name of the agent that answered.")
    messages: list[NormalizedMessage] = Field(description="The messages to show: texts first, then cards.")
    parsed_turn: ParsedTurn = Field(description="What the agent's messages mean.")
    workflow_state: StateView = Field(description="The state after this turn.")
    progress: Progress = Field(description="The progress after this turn.")
    turn_meta: TurnMeta = Field(description="What this turn did.")
    latency_ms: float = Field(description="How long the turn took on the server, in milliseconds.")

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

    conversation_id: str = Field(description="The id of the conversation.")
    agent: str = Field(description="The name of the agent that answers in this conversation.")
    definition: str = Field(description="The id of the workflow definition.")
    title: str = Field(description="The title of the workflow.")
    busy: BusyTurn = Field(description="What happens to a turn while another is being answered.")
    workflow_state: StateView = Field(description="The current state.")
    progress: Progress = Field(description="The current progress.")
    history: list[Line] = Field(description="The newest messages, oldest first; long ones are cut.")
    card: dict[str, Any] | None = Field(
        description="The card of the current step, filled with what is known; `null` if the step has no card."
    )
    expires_in_s: float | None = Field(
        description="Seconds until the conversation is deleted, unless another turn comes. `null` while turns wait, "
        "and for a conversation of another service that has had no turn here yet."
    )
