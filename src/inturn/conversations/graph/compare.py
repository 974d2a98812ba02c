"""How conditions and switches look at a field. Texts are compared without regard to case and surrounding space.

A field that is missing, or that cannot be compared, is simply not so: what a visitor writes never raises here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from inturn.conversations.graph.fill import as_text
from inturn.conversations.graph.matching import is_found


def equals(value: Any, wanted: Any) -> bool:
    if value is None or wanted is None:
        return value is wanted
    return as_text(value).strip().casefold() == as_text(wanted).strip().casefold()


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, list):
        return any(equals(each, wanted) for each in value)
    return value is not None and as_text(wanted).casefold() in as_text(value).casefold()


def _exists(value: Any, wanted: Any) -> bool:
    return value is not None and value != ""


def _matches(value: Any, wanted: Any) -> bool:
    return value is not None and is_found(wanted, as_text(value))


def _number(value: Any) -> float:
    """Not a number where it is none: nothing is greater or less than that."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "equals": equals,
    "not_equals": lambda value, wanted: not equals(value, wanted),
    "contains": _contains,
    "exists": _exists,
    "greater": lambda value, wanted: _number(value) > _number(wanted),
    "less": lambda value, wanted: _number(value) < _number(wanted),
    "matches": _matches,
}
