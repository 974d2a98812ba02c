"""Fields in texts and arguments, by plain replacement in one pass: what a value holds is never looked at again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

_REFERENCE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,63})\}")


def fill_text(text: str, fields: Mapping[str, Any]) -> str:
    """`{name}` becomes the field's value. What is no field stays as it is."""
    return _REFERENCE.sub(lambda found: as_text(fields[found[1]]) if found[1] in fields else found[0], text)


def fill_value(value: Any, fields: Mapping[str, Any]) -> Any:
    """The same inside of arguments; a text that is nothing but `{name}` becomes the value itself, whatever its type."""
    if isinstance(value, Mapping):
        return {name: fill_value(inner, fields) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [fill_value(inner, fields) for inner in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole is not None and whole[1] in fields:
        return fields[whole[1]]
    return fill_text(value, fields)


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value).decode()
