"""Where the conversation stands when a message is read, and what is found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from inturn.workflows.definition.model import FieldDefinition, WorkflowDefinition


@dataclass(frozen=True, slots=True)
class Refused:
    """Words that were meant for a field and do not fit it."""

    field: FieldDefinition
    said: str
    why: str


@dataclass(slots=True)
class Reading:
    found: dict[str, Any] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the conversation stands when a message is read."""

    definition: WorkflowDefinition
    collected: Mapping[str, Any]
    asked: FieldDefinition | None
    last: FieldDefinition | None
    """The field that was filled last: `sorry, I meant …` is about it."""
    today: date
