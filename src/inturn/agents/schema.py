"""The JSON schema of an answer inside a workflow, made from its definition: strict, so every property is required.

`reply` comes first: it is written first, and the user can read it while the rest is still being made.
"""

from __future__ import annotations

from typing import Any, get_args

from inturn.workflows.definition.model import FieldDefinition, NextAction, WorkflowDefinition

NEXT_ACTIONS = get_args(NextAction)

_JSON_TYPES = {"number": "number", "integer": "integer", "boolean": "boolean"}
_HINTS = {"date": "a date such as 2026-11-30", "email": "an e-mail address"}


def response_format(definition: WorkflowDefinition) -> dict[str, Any]:
    """What an OpenAI-compatible endpoint is told about the shape of its answer."""
    return {
        "type": "json_schema",
        "json_schema": {"name": "turn", "strict": True, "schema": answer_schema(definition)},
    }


def answer_schema(definition: WorkflowDefinition) -> dict[str, Any]:
    fields = {field.name: _field(field) for field in definition.fields()}
    return _object({
        "reply": {"type": "string", "description": "What the user reads."},
        "data": {**_object(fields), "description": "What the user has said; null for what is not known."},
        "next_action": {"type": "string", "enum": list(NEXT_ACTIONS)},
        "citations": {"type": "array", "items": _object({"title": {"type": "string"}, "url": {"type": "string"}})},
    })  # fmt: skip


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def describe(field: FieldDefinition) -> str:
    """One line about a field: what it is, and what it must look like."""
    parts = [field.title]
    if field.prompt:
        parts.append(field.prompt)
    if field.type in _HINTS:
        parts.append(_HINTS[field.type])
    if field.pattern is not None:
        parts.append(f"must match {field.pattern}")
    return "; ".join(parts)


def _field(field: FieldDefinition) -> dict[str, Any]:
    kind = {"type": [_JSON_TYPES.get(field.type, "string"), "null"], "description": describe(field)}
    return {**kind, "enum": [*field.choices, None]} if field.choices else kind
