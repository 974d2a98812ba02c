"""The request and response bodies of the workflow routes, and examples of them for the OpenAPI description.

The models make the examples themselves, so an example cannot contradict its model. OpenAPI leaves out null values: so
no required field is null in any example. The text under a field is what the API reference says about it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from inturn.errors import ArgumentError
from inturn.lanes import template
from inturn.workflows.config import MAX_TEXT
from inturn.workflows.definition.load import default_definition
from inturn.workflows.definition.model import FieldType, WorkflowDefinition
from inturn.workflows.messages import NormalizedMessage
from inturn.workflows.parse import ParsedTurn
from inturn.workflows.response import Progress, SessionView, StateView, TurnMeta, WorkflowResponse
from inturn.workflows.sessions import current_card, opening
from inturn.workflows.state import BusyTurn, Line, Owner, WorkflowState


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _id(value: str) -> str:
    try:
        return template.message_id(value)
    except ArgumentError as error:
        raise ValueError(error.problem) from None


MessageId = Annotated[str, AfterValidator(_id)]
_MESSAGE_ID = "Your own id for this message. A repeat with the same id gets the first response; nothing happens twice."


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StartWorkflow(_Body):
    """Which workflow to start, and how."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"definition": "support_intake", "busy": "merge"}]})

    definition: str | None = Field(
        None, max_length=64, description="The id of a workflow definition; without it, the default."
    )
    busy: BusyTurn | None = Field(
        None,
        description="What happens to a turn while another is being answered: `reject` (409 at once), `queue` (in "
        "order) or `merge` (what waits is answered together).",
    )


class TakeTurn(_Body):
    """What the user wrote."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "I am Ada, ada@example.com", "message_id": "m-1"}]}
    )

    text: Annotated[str, AfterValidator(_said)] = Field(
        min_length=1, max_length=MAX_TEXT, description="What the user wrote; not all blank."
    )
    message_id: MessageId | None = Field(None, description=_MESSAGE_ID)


class SubmitCard(_Body):
    """What the user filled in."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"card_id": "problem_card", "action": "submit", "data": {"product": "Website"}, "message_id": "m-2"}
            ]
        }
    )

    card_id: str = Field(min_length=1, max_length=200, description="The id of a card of the workflow.")
    data: dict[str, Any] = Field(description="The inputs of the card, by their ids.")
    action: str | None = Field(None, max_length=200, description="One of the card's actions; none is needed.")
    message_id: MessageId | None = Field(None, description=_MESSAGE_ID)


class FieldView(BaseModel):
    """One value that a step collects."""

    name: str = Field(description="The name of the field, as in `collected_data`.")
    type: FieldType = Field(description="The type of the value.")
    label: str = Field(description="The name to show to users.")
    required: bool = Field(description="Whether the step needs it.")
    choices: list[str] = Field(description="The values to choose from; empty unless the type is `choice`.")


class StepView(BaseModel):
    """One step of a workflow."""

    id: str = Field(description="The id of the step.")
    title: str = Field(description="The title to show to users.")
    card_id: str | None = Field(description="The id of the step's card; `null` if it has none.")
    fields: list[FieldView] = Field(description="What the step collects.")


class DefinitionView(BaseModel):
    """A workflow that can be started."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "support_intake",
                    "title": "Support request",
                    "is_default": True,
                    "steps": [
                        {
                            "id": "problem",
                            "title": "The problem",
                            "card_id": "problem_card",
                            "fields": [
                                {
                                    "name": "product",
                                    "type": "choice",
                                    "label": "Product",
                                    "required": True,
                                    "choices": ["Mobile app", "Website", "Desktop app", "API"],
                                }
                            ],
                        }
                    ],
                }
            ]
        },
    )

    id: str = Field(description="The id to start it by.")
    title: str = Field(description="The title to show to users.")
    is_default: bool = Field(description="Whether this one is started when no definition is named.")
    steps: list[StepView] = Field(description="Its steps, in order.")

    @classmethod
    def of(cls, definition: WorkflowDefinition, is_default: bool) -> DefinitionView:
        steps = [
            StepView(
                id=step.id,
                title=step.title,
                card_id=step.card.id if step.card is not None else None,
                fields=[
                    FieldView(
                        name=field.name, type=field.type, label=field.title, required=field.required,
                        choices=list(field.choices),
                    )
                    for field in step.fields
                ],
            )
            for step in definition.steps
        ]  # fmt: skip
        return cls(id=definition.id, title=definition.title, is_default=is_default, steps=steps)


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
    """Returns the entry of a route's `responses=` for this example."""
    return {"content": {"application/json": {"example": value}}}
