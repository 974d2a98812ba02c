"""What a workflow is made of: ordered steps, their fields and cards. It is read from a file, and never changes after.

`Field.check` says whether a value fits a field, and what it is as a clean one; whoever fills a field asks it.
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

from inturn.workflows.definition.patterns import BadPattern, compiled, of_whole

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
FieldType = Literal["text", "number", "integer", "date", "email", "boolean", "choice"]

_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+")
_MAX_TEXT = 4000
_MAX_MATCHED = 200
"""Characters of a text that a pattern is held against: patterns are the author's, but the text is not."""


# Words about a turn or a card in what agents and cards send; everything else there is data of fields.
RESERVED = frozenset({
    "data", "nextAction", "next_action", "prompt", "choices", "inputType", "input_type", "citations", "confidence",
    "errors", "reply", "recommendation", "cardId", "action",
})  # fmt: skip
NextAction = Literal["ask", "research", "confirm", "complete", "error"]
"""What an agent says is to be done next."""
PHASES = ("confirm", "completed")
"""What follows the steps; a phase is otherwise named after its step."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldDefinition(_Part):
    """One thing that is to be found out."""

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
            raise ValueError(f"name: {self.name!r} means something else in what agents send; choose another")
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("choices: a field of type choice lists them, and no other does")
        if len({choice.casefold() for choice in self.choices}) != len(self.choices):
            raise ValueError("choices: two of them are the same")
        if self.pattern is not None and self.type != "text":
            raise ValueError("pattern: only a field of type text has one")
        if self.pattern is not None:
            try:
                compiled(self.pattern)
                of_whole(self.pattern)
            except BadPattern as error:
                raise ValueError(f"pattern: is no regular expression that can be used here: {error}") from error
        return self

    @property
    def title(self) -> str:
        return self.label or self.name.replace("_", " ")

    def check(self, value: Any) -> Any:
        """The value as this field keeps it. Raises `ValueError` that says what it must be."""
        return _CHECKS[self.type](self, value)


def _check_text(field: FieldDefinition, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a text")
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
        raise TypeError("a boolean is no number")
    return value


_WORDS = {"true": True, "yes": True, "false": False, "no": False}
_CHECKS = {
    "text": _check_text, "number": _check_number, "integer": _check_integer, "date": _check_date,
    "email": _check_email, "boolean": _check_boolean, "choice": _check_choice,
}  # fmt: skip


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
            raise ValueError(f"id: {self.id!r} is the name of a phase; choose another")
        return self

    def missing(self, collected: Mapping[str, Any]) -> list[FieldDefinition]:
        """What is required here, and not there yet."""
        return [field for field in self.fields if field.required and field.name not in collected]


class WorkflowDefinition(_Part):
    """Ordered steps. `about` and `answers` are what an agent may say of the workflow when it is asked."""

    id: Id
    title: Line
    welcome: str = ""
    about: str = ""
    answers: dict[str, Line] = {}
    """Topics that users ask about, with the text that answers them."""
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
                raise ValueError(f"steps: {what} {twice[0]!r} is used twice")
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
        """The first step that still misses something; past the last when nothing is missing."""
        for number, step in enumerate(self.steps):
            if step.missing(collected):
                return number
        return len(self.steps)
