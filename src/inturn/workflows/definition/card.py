"""Makes adaptive cards from steps: an input for each field, filled with what is already known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inturn.workflows.definition.model import CardDefinition, FieldDefinition, StepDefinition, is_prose

VERSION = "1.5"
_SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"


def card_of(step: StepDefinition, collected: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the card of a step; `ValueError` if the step has none. A submission carries the card's `id`."""
    if step.card is None:
        raise ValueError(f"step {step.id!r} has no card")
    heading = {
        "type": "TextBlock",
        "text": step.card.title or step.title,
        "size": "Medium",
        "weight": "Bolder",
        "wrap": True,
    }
    body = [_own(part, collected) for part in step.card.body] or [_input(field, collected) for field in step.fields]
    return {
        "$schema": _SCHEMA,
        "type": "AdaptiveCard",
        "version": VERSION,
        "id": step.card.id,
        "body": [heading, *body],
        "actions": [_action(step.card, action) for action in step.card.actions],
    }


def _action(card: CardDefinition, action: str) -> dict[str, Any]:
    return {
        "type": "Action.Submit",
        "id": action,
        "title": action.replace("_", " ").capitalize(),
        "data": {"cardId": card.id, "action": action},
    }


def _own(part: Mapping[str, Any], collected: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a part of the card's own body; an input shows the value that is already known."""
    name = part.get("id")
    known = isinstance(name, str) and name in collected and str(part.get("type", "")).startswith("Input.")
    return {**part, "value": _written(collected[str(name)])} if known else dict(part)


def _input(field: FieldDefinition, collected: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"id": field.name, "label": field.title, "isRequired": field.required}
    made |= _kind(field)
    made["errorMessage"] = f"{field.title} {_must_be(field)}."
    if field.name in collected:
        made["value"] = _written(collected[field.name])
    return made


def _written(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _must_be(field: FieldDefinition) -> str:
    if field.pattern is not None:
        return f"must match {field.pattern}"
    return _MUST_BE[field.type]


_MUST_BE = {
    "text": "must have 1 to 4000 characters", "number": "must be a number", "integer": "must be a whole number",
    "date": "must be a date", "email": "must be an e-mail address", "boolean": "must be yes or no",
    "choice": "must be one of the list",
}  # fmt: skip


def _kind(field: FieldDefinition) -> dict[str, Any]:
    match field.type:
        case "choice":
            choices = [{"title": choice, "value": choice} for choice in field.choices]
            return {"type": "Input.ChoiceSet", "style": "compact", "placeholder": "Choose one", "choices": choices}
        case "boolean":
            if field.required:
                # a toggle always has a value, and for adaptive cards "required" would mean that it must be on
                toggle = {"title": field.prompt or field.title, "valueOn": "true", "valueOff": "false"}
                return {"type": "Input.Toggle", "value": "false", "isRequired": False, **toggle}
            # a toggle cannot tell "no" from no answer
            choices = [{"title": "Yes", "value": "true"}, {"title": "No", "value": "false"}]
            return {"type": "Input.ChoiceSet", "style": "expanded", "choices": choices}
        case "date":
            return {"type": "Input.Date"}
        case "number" | "integer":
            return {"type": "Input.Number"}
        case "email":
            return {"type": "Input.Text", "style": "email", "maxLength": 254, "regex": r"^[^@\s]+@[^@\s]+\.[^@\s]+$"}
        case "text":
            shape: dict[str, Any] = {"type": "Input.Text", "maxLength": 4000}
            if field.pattern is not None:
                return shape | {"regex": f"^(?:{field.pattern})$"}
            return shape | {"isMultiline": is_prose(field)}
