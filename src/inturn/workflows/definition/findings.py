"""Says what is wrong with a definition: every problem at once, each with its line and path."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from inturn.errors import ArgumentError
from inturn.workflows.definition.model import (
    CardDefinition,
    FieldDefinition,
    FieldType,
    StepDefinition,
    WorkflowDefinition,
)
from inturn.workflows.definition.tree import Document, Path

DefinitionProblem = tuple[int, Path, str]
"""Its line, its path, and what is wrong there."""
_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): WorkflowDefinition,
    ("steps",): StepDefinition,
    ("steps", "fields"): FieldDefinition,
    ("steps", "card"): CardDefinition,
}
_AN_ID = "must start with a letter, followed by letters, digits, '_', '.' or '-'; at most 64 characters"


def written(path: Path) -> str:
    """Writes a path as `steps[2].fields[0].type`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def of_validation(error: ValidationError, document: Document) -> Iterator[DefinitionProblem]:
    for details in error.errors(include_url=False):
        least = details.get("ctx", {}).get("min_length", 0)
        if details["type"] == "too_short" and isinstance(details["input"], list) and len(details["input"]) >= least:
            # pydantic counted only the entries that fit; the problems of the others have already been reported
            continue
        path, why = _place(details)
        yield document.line_of(path), path, why


def of_names(document: Document) -> Iterator[DefinitionProblem]:
    """Reports names that are used twice, each where it is used again."""
    first: dict[tuple[str, str], Path] = {}
    for kind, path, name in _names(document.data):
        if (kind, name) in first:
            where = document.line_of(first[kind, name])
            yield document.line_of(path), path, f"{kind} {name!r} is used twice, first on line {where}"
        else:
            first[kind, name] = path


def _names(data: Any) -> Iterator[tuple[str, Path, str]]:
    for number, step in _entries(data, "steps"):
        yield from _name("step id", step, "id", ("steps", number))
        for place, field in _entries(step, "fields"):
            yield from _name("field name", field, "name", ("steps", number, "fields", place))
        yield from _name("card id", step.get("card"), "id", ("steps", number, "card"))


def _entries(data: Any, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    entries = data.get(name) if isinstance(data, dict) else None
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            yield number, entry


def _name(kind: str, data: Any, key: str, path: Path) -> Iterator[tuple[str, Path, str]]:
    if isinstance(data, dict) and isinstance(data.get(key), str):
        yield kind, (*path, key), data[key]


def _place(details: ErrorDetails) -> tuple[Path, str]:
    path: Path = tuple(details["loc"])
    error = details.get("ctx", {}).get("error")
    if isinstance(error, ArgumentError):  # the check of a model names the part that is wrong
        return (*path, error.field), error.problem
    return path, _why(details, path)


def _why(details: ErrorDetails, path: Path) -> str:
    kind, given, more = details["type"], details["input"], details.get("ctx", {})
    match kind:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return _unknown(path)
        case "literal_error":
            return f"must be one of {', '.join(get_args(FieldType))}"
        case "string_type":
            number = isinstance(given, bool | int | float)
            return "must be text" + (f"; put it in quotes: '{_yaml(given)}'" if number else "")
        case "string_pattern_mismatch":
            return _AN_ID
        case "string_too_short":
            return "must not be empty"
        case "string_too_long":
            return f"must have at most {more.get('max_length')} characters"
        case "too_short":
            return f"must have at least {more.get('min_length')}"
        case "too_long":
            return f"must have at most {more.get('max_length')}"
        case "bool_type" | "bool_parsing":
            return "must be true or false"
        case "tuple_type" | "list_type":
            return "must be a list"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "must be a mapping of names to values"
        case "value_error":
            return str(more.get("error", details["msg"]))
    return details["msg"][:1].lower() + details["msg"][1:]


def _yaml(given: bool | int | float) -> str:
    return str(given).lower() if isinstance(given, bool) else str(given)


def _known(path: Path) -> list[str]:
    model = _MODELS.get(tuple(part for part in path if isinstance(part, str)))
    return list(model.model_fields) if model else []


def _unknown(path: Path) -> str:
    known = _known(path[:-1])
    close = get_close_matches(str(path[-1])[:64].lower(), known, n=1)
    if close:
        return f"is not known here; did you mean {close[0]}?"
    return f"is not known here; there are {', '.join(known)}" if known else "is not known here"
