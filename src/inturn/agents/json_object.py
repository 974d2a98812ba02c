"""Reads a JSON object as models write it: in a fence, among words, with line breaks inside strings. Never raises.

What is read can be stored: no NaN, no half of a surrogate pair.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

_LONE = re.compile("[\ud800-\udfff]")
# `*+` does not backtrack, so a long run of blanks costs its length once
_LEAD = re.compile(r"\s*+(?:```(?:json)?\s*+)?", re.IGNORECASE)
_FENCED = re.compile(r"```(?:json)?\s*+(?=\{)", re.IGNORECASE)
_OBJECT = re.compile(r'\{\s*+["}]')
"""Where an object begins. Other braces are those of people: `{name}`."""


def _no_number(name: str) -> None:
    """NaN and Infinity are not JSON. A value that a model writes so counts as unknown."""


def _finite(digits: str) -> float | None:
    """`1e999` is JSON, and Infinity all the same."""
    number = float(digits)
    return number if math.isfinite(number) else None


# A model may break a line inside a string. That must not cost the answer.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_number, parse_float=_finite)


def leading_object(text: str) -> dict[str, Any] | None:
    """Returns the object that the text begins with, or `None`."""
    return _object_at(text, lead_of(text))


def object_in(text: str) -> dict[str, Any] | None:
    """Returns the object that the text holds: the one in its first fence, else the first one. `None` if it is broken.

    Nothing else is tried then: the parts of a broken object may be objects too.
    """
    fenced = _FENCED.search(text)
    if fenced is not None:
        return _object_at(text, fenced.end())
    bare = _OBJECT.search(text)
    return None if bare is None else _object_at(text, bare.start())


def lead_of(text: str) -> int:
    """Returns how many characters precede the object: blanks, and the fence that models put around JSON."""
    found = _LEAD.match(text)
    return found.end() if found else 0


def mended(text: str) -> str:
    """Returns the text with its surrogate pairs joined. A half without a partner becomes a replacement character."""
    if not _LONE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _object_at(text: str, start: int) -> dict[str, Any] | None:
    try:
        found, _ = _DECODER.raw_decode(text, start)
        return _mended_in(found) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        return None


def _mended_in(value: Any) -> Any:
    """Mends every text in it: half a surrogate pair cannot be stored."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, list):
        return [_mended_in(inner) for inner in value]
    if isinstance(value, dict):
        return {mended(name): _mended_in(inner) for name, inner in value.items()}
    return value
