"""Examples for the OpenAPI description, made by the models themselves, so that they cannot be wrong about them."""

from __future__ import annotations

from typing import Any

from inturn.conversations.messages import NormalizedMessage
from inturn.conversations.parse import ParsedTurn
from inturn.conversations.response import Progress, SessionView, StateView, TurnMeta, WorkflowResponse
from inturn.conversations.state import Line

_ID = "4fd0a1c27f5e4bd58b6f2f4b7f9d1c3e"
_GOT: dict[str, Any] = {"name": "Ada", "email": "ada@example.com"}
_ASKED = "Which product is it about?"
_STATE = StateView(
    status="active",
    current_phase="problem",
    current_step="problem",
    collected_data=_GOT,
    turn_count=1,
    suggested_input_type="choice",
    choices=["Mobile app", "Website", "Desktop app", "API"],
    last_recommendation=_ASKED,
)
_PROGRESS = Progress(current_step=2, total_steps=4, percent_complete=20)
_MESSAGES = [NormalizedMessage(id="a1", text=_ASKED)]

RESPONSE: dict[str, Any] = WorkflowResponse(
    conversation_id=_ID,
    agent="offline",
    messages=_MESSAGES,
    parsed_turn=ParsedTurn(
        kind="structured", data=_GOT, next_action="ask", prompt=_ASKED, messages=_MESSAGES, confidence=0.95
    ),
    workflow_state=_STATE,
    progress=_PROGRESS,
    turn_meta=TurnMeta(turn_number=1, state_changed=True, collected_this_turn=_GOT),
    latency_ms=3.2,
).model_dump(mode="json")

SESSION: dict[str, Any] = SessionView(
    conversation_id=_ID,
    agent="offline",
    definition="support_intake",
    title="Support request",
    busy="merge",
    workflow_state=_STATE,
    progress=_PROGRESS,
    history=[Line(role="user", text="I am Ada, ada@example.com"), Line(role="assistant", text=_ASKED)],
    card=None,
    expires_in_s=86_399.2,
).model_dump(mode="json")

STREAM = (
    'event: typing\ndata: {}\n\nevent: token\ndata: {"text": "Which product"}\n\n'
    'event: token\ndata: {"text": " is it about?"}\n\nevent: response\ndata: {"conversation_id": "4fd0…", …}\n\n'
)


def example(value: Any) -> dict[str, Any]:
    """For `responses=` of a route."""
    return {"content": {"application/json": {"example": value}}}
