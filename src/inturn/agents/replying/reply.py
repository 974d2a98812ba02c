"""An answer before it becomes activities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from inturn.workflows.definition.model import FieldDefinition

NextAction = Literal["ask", "confirm", "complete"]


@dataclass(slots=True)
class Reply:
    text: str
    data: dict[str, Any] = field(default_factory=dict)
    next_action: NextAction | None = None
    """`None` in free chat."""
    prompt: str = ""
    choices: list[str] = field(default_factory=list)
    input_type: str = ""
    cards: list[dict[str, Any]] = field(default_factory=list)
    suggested: list[str] = field(default_factory=list)
    """What the user may say by a click."""


def choices_of(asked: FieldDefinition) -> list[str]:
    return ["Yes", "No"] if asked.type == "boolean" else list(asked.choices)
