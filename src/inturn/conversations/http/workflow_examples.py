"""Examples for the OpenAPI description, made by the models themselves, so that they cannot be wrong about them.

The description leaves out what is null: a field that must be there is not null in any of them.
"""

from __future__ import annotations

from typing import Any

from inturn.workflows.messages import NormalizedMessage
from inturn.workflows.parse import ParsedTurn
from inturn.workflows.response import Progress, SessionView, StateView, TurnMeta, WorkflowResponse
from inturn.workflows.sessions import current_card, opening
from inturn.conversations.state import Line, Owner, WorkflowState
from inturn.workflows.definition.load import default_definition

_DEFINITION = default_definition()
_ID = "4fd0a1c27f5e4bd58b6f2f4b7f9d1c3e"
_GOT: dict[str, Any] = {"name": "Ada", "email": "ada@example.com"}


def _state(**known: Any) -> WorkflowState:
    owner = Owner(user_id="ada", tenant_id="acme")
    state = WorkflowState(conversation_id=_ID, definition=_DEFINITION.id, owner=owner, busy="merge", **known)
    state.stand_at(_DEFINITION)
    return state


def _response(state: WorkflowState, parsed: ParsedTurn, collected: dict[str, Any]) -> dict[str, Any]:
    return WorkflowResponse(
        conversation_id=_ID,
        agent="offline",
        messages=parsed.messages,
        parsed_turn=parsed,
        workflow_state=StateView.of(state, _DEFINITION),
        progress=Progress.of(state, _DEFINITION),
        turn_meta=TurnMeta(turn_number=state.turn_count, state_changed=True, collected_this_turn=collected),
        latency_ms=3.2,
    ).model_dump(mode="json")


_product = _DEFINITION.by_name["product"]
_new = _state(suggested_input_type="text")
_old = _state(
    collected_data=_GOT, turn_count=1, suggested_input_type=_product.type, choices=list(_product.choices),
    last_recommendation=_product.prompt,
)  # fmt: skip

STARTED = _response(_new, ParsedTurn(kind="passthrough", messages=opening(_DEFINITION, _DEFINITION.steps[0])), {})

RESPONSE = _response(
    _old,
    ParsedTurn(
        kind="structured", data=_GOT, next_action="ask", prompt=_product.prompt, confidence=0.95,
        messages=[NormalizedMessage(id="1.a1", text=_product.prompt)], input_type=_product.type,
        choices=list(_product.choices),
    ),
    _GOT,
)  # fmt: skip

SESSION: dict[str, Any] = SessionView(
    conversation_id=_ID,
    agent="offline",
    definition=_DEFINITION.id,
    title=_DEFINITION.title,
    busy=_old.busy,
    workflow_state=StateView.of(_old, _DEFINITION),
    progress=Progress.of(_old, _DEFINITION),
    history=[Line(role="user", text="I am Ada, ada@example.com"), Line(role="assistant", text=_product.prompt)],
    card=current_card(_old, _DEFINITION),
    expires_in_s=86_399.2,
).model_dump(mode="json")

STREAM = (
    'event: typing\ndata: {}\n\nevent: token\ndata: {"text": "Which product"}\n\n'
    'event: token\ndata: {"text": " is it about?"}\n\nevent: response\ndata: {"conversation_id": "4fd0…", …}\n\n'
)


def example(value: Any) -> dict[str, Any]:
    """For `responses=` of a route."""
    return {"content": {"application/json": {"example": value}}}
