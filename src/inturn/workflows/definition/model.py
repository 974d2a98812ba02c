"""What a workflow is made of: ordered steps, their fields and cards. A definition never changes after it was read.

Every value passes `FieldDefinition.check` before it fills a field: it says whether the value fits, and cleans it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from inturn.errors import ArgumentError
from inturn.workflows.definition.patterns import BadPattern, compiled, of_whole

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
FieldType = Literal["text", "number", "integer", "date", "email", "boolean", "choice"]

_PROSE = re.compile(
    r"descri|detail|problem|issue|message|comment|note|reason|question|feedback|summary|story|happen|request|explain|why"
)
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+")
_MAX_TEXT = 4000
_MAX_MATCHED = 200
"""Characters of a text that a pattern is matched against: the author wrote the pattern, but not the text."""


# In what agents and cards send, these names are about the turn or the card; every other name is a field.
RESERVED = frozenset({
    "data", "nextAction", "next_action", "prompt", "choices", "inputType", "input_type", "citations", "confidence",
    "errors", "reply", "recommendation", "cardId", "action",
})  # fmt: skip
NextAction = Literal["ask", "research", "confirm", "complete", "error"]
"""What the agent wants to happen next."""
PHASES = ("confirm", "completed")
"""The phases after the last step; every other phase is named after its step."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldDefinition(_Part):
    """One thing to find out."""

    name: Id
    type: FieldType = "text"
    label: str = ""
    prompt: str = ""
    required: bool = True
    choices: tuple[Line, ...] = ()
    pattern: str | None = None

    @model_validator(mode="after")
    def _goes_together(self) -> FieldDefinition:
        if self.name in RESERVED:
            raise ArgumentError("name", f"{self.name!r} is reserved for what agents send; choose another name")
        if (self.type == "choice") != bool(self.choices):
            raise ArgumentError("choices", "required for type choice, and not allowed for any other type")
        if len({choice.casefold() for choice in self.choices}) != len(self.choices):
            raise ArgumentError("choices", "two of them are the same")
        if self.pattern is not None and self.type != "text":
            raise ArgumentError("pattern", "only a field of type text may have one")
        if self.pattern is not None:
            try:
                compiled(self.pattern)
                of_whole(self.pattern)
            except BadPattern as error:
                raise ArgumentError("pattern", f"is not a regular expression that can be used here: {error}") from error
        return self

    @property
    def title(self) -> str:
        return self.label or self.name.replace("_", " ")

    def check(self, value: Any) -> Any:
        """Returns the value as this field keeps it. Raises a `ValueError` that says what it must be."""
        return _CHECKS[self.type](self, value)


def _check_text(field: FieldDefinition, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be text")
    text = str(value).strip()
    if not text or len(text) > _MAX_TEXT:
        raise ValueError(f"must have 1 to {_MAX_TEXT} characters")
    if field.pattern is not None and (len(text) > _MAX_MATCHED or not of_whole(field.pattern).isinstance_python(text)):
        raise ValueError(f"must match {field.pattern}, with at most {_MAX_MATCHED} characters")
    return text


def _check_number(field: FieldDefinition, value: Any) -> float | int:
    try:
        number = value if isinstance(value, int) and not isinstance(value, bool) else float(_no_bool(value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError("must be a number") from None
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError("must be a number")
    if abs(number) > 1e15:
        raise ValueError("must be a number of at most 15 digits")
    return int(number) if float(number).is_integer() else number


def _check_integer(field: FieldDefinition, value: Any) -> int:
    number = _check_number(field, value)
    if not isinstance(number, int):
        raise ValueError("must be a whole number")
    return number


def _check_date(field: FieldDefinition, value: Any) -> str:
    try:
        return date.fromisoformat(value.strip()).isoformat()
    except (AttributeError, TypeError, ValueError):
        raise ValueError("must be a date such as 2026-11-30") from None


def _check_email(field: FieldDefinition, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 254 or not _EMAIL.fullmatch(value.strip()):
        raise ValueError("must be an e-mail address")
    return value.strip()


def _check_boolean(field: FieldDefinition, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().casefold() in _WORDS:
        return _WORDS[value.strip().casefold()]
    raise ValueError("must be yes or no")


def _check_choice(field: FieldDefinition, value: Any) -> str:
    for choice in field.choices:
        if isinstance(value, str) and value.strip().casefold() == choice.casefold():
            return choice
    raise ValueError(f"must be one of {', '.join(field.choices)}")


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise TypeError("a boolean is not a number")
    return value


_WORDS = {"true": True, "yes": True, "false": False, "no": False}
_CHECKS = {
    "text": _check_text, "number": _check_number, "integer": _check_integer, "date": _check_date,
    "email": _check_email, "boolean": _check_boolean, "choice": _check_choice,
}  # fmt: skip


def is_prose(field: FieldDefinition) -> bool:
    """Whether the field takes prose (a sentence or more), guessed from its words: a definition does not say it."""
    words = f"{field.name} {field.label} {field.prompt}".casefold()
    return field.type == "text" and field.pattern is None and bool(_PROSE.search(words))


class CardDefinition(_Part):
    """A card that users may submit. Without a `body` it shows the fields of its step."""

    id: Id
    title: str = ""
    body: tuple[dict[str, Any], ...] = ()
    actions: tuple[Id, ...] = Field(("submit",), min_length=1)


class StepDefinition(_Part):
    id: Id
    title: Line
    prompt: Line
    fields: tuple[FieldDefinition, ...] = ()
    card: CardDefinition | None = None

    @model_validator(mode="after")
    def _is_no_phase(self) -> StepDefinition:
        if self.id in PHASES:
            raise ArgumentError("id", f"{self.id!r} is the name of a phase; choose another id")
        return self

    def missing(self, collected: Mapping[str, Any]) -> list[FieldDefinition]:
        """Returns the required fields of this step that are not collected yet."""
        return [field for field in self.fields if field.required and field.name not in collected]


class WorkflowDefinition(_Part):
    """Ordered steps. `about` and `answers` are what an agent may say about the workflow when it is asked."""

    id: Id
    title: Line
    welcome: str = ""
    about: str = ""
    answers: dict[str, Line] = {}
    """Topics that users ask about, each with the text that answers it."""
    confirm: str = ""
    done: str = ""
    steps: tuple[StepDefinition, ...] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _names_are_unique(self) -> WorkflowDefinition:
        for what, names in (
            ("step id", [step.id for step in self.steps]),
            ("field name", [field.name for field in self.fields()]),
            ("card id", [step.card.id for step in self.steps if step.card is not None]),
        ):
            twice = sorted(name for name, count in Counter(names).items() if count > 1)
            if twice:
                raise ArgumentError("steps", f"{what} {twice[0]!r} is used twice")
        return self

    def fields(self) -> Iterator[FieldDefinition]:
        for step in self.steps:
            yield from step.fields

    @cached_property
    def by_name(self) -> dict[str, FieldDefinition]:
        return {field.name: field for field in self.fields()}

    @cached_property
    def cards(self) -> dict[str, CardDefinition]:
        return {step.card.id: step.card for step in self.steps if step.card is not None}

    def position(self, collected: Mapping[str, Any]) -> int:
        """Returns the first step that still misses something; past the last step when nothing is missing."""
        for number, step in enumerate(self.steps):
            if step.missing(collected):
                return number
        return len(self.steps)
