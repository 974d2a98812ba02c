"""What the routes of workflows take and give, checked before anything else happens."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from inturn.workflows.config import MAX_WORDS
from inturn.conversations.state import BusyTurn
from inturn.lanes import template
from inturn.workflows.definition.model import FieldType, WorkflowDefinition


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _id(value: str) -> str:
    try:
        return template.message_id(value)
    except ValueError as error:
        raise ValueError(str(error).rpartition(": ")[2]) from None


MessageId = Annotated[str, AfterValidator(_id)]
_AGAIN = "Your own id of this message. A repeat with the same id gets the first response, and nothing happens twice."


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StartWorkflow(_Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"definition": "support_intake", "busy": "merge"}]})

    definition: str | None = Field(None, description="The id of a workflow definition; without it, the default.")
    busy: BusyTurn | None = Field(
        None,
        description="What happens to a turn while another is being answered: `reject` (409 at once), `queue` (in "
        "order) or `merge` (what waits is answered together).",
    )


class TakeTurn(_Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "I am Ada, ada@example.com", "message_id": "m-1"}]}
    )

    text: Annotated[str, AfterValidator(_said)] = Field(min_length=1, max_length=MAX_WORDS)
    message_id: MessageId | None = Field(None, description=_AGAIN)


class SubmitCard(_Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"card_id": "problem_card", "action": "submit", "data": {"product": "Website"}, "message_id": "m-2"}
            ]
        }
    )

    card_id: str = Field(min_length=1, max_length=200)
    data: dict[str, Any] = Field(description="The inputs of the card, by their ids.")
    action: str | None = Field(None, max_length=200, description="One of the card's actions.")
    message_id: MessageId | None = Field(None, description=_AGAIN)


class FieldView(BaseModel):
    name: str
    type: FieldType
    label: str
    required: bool
    choices: list[str]


class StepView(BaseModel):
    id: str
    title: str
    card_id: str | None
    fields: list[FieldView]


class DefinitionView(BaseModel):
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
        }
    )

    id: str
    title: str
    is_default: bool
    steps: list[StepView]

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
