"""Makes JSON that can be stored from what came from outside: no NaN, no half characters, no endless depth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import to_json

T = TypeVar("T")

MAX_DEPTH = 24
MAX_NAMES = 2000


class NotStorable(ValueError):
    """Too deep, too large, or not JSON at all."""


def text(value: str, limit: int) -> str:
    """Returns the text so that it can be written in UTF-8, cut to the limit."""
    whole = value.encode("utf-8", "replace").decode("utf-8") if not value.isascii() else value
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"


def value(given: Any, limit: int) -> Any:
    """Returns a copy that is JSON of at most `limit` bytes. Raises `NotStorable` if there is none."""
    copied = _copy(given, MAX_DEPTH, [MAX_NAMES])
    if len(to_json(copied)) > limit:
        raise NotStorable(f"more than {limit} bytes long")
    return copied


def must_be_finite(model: BaseModel) -> None:
    """Raises `NotStorable` for NaN and the infinities, which a field may hold and JSON would show as null."""
    try:
        json.dumps(model.model_dump(mode="json"), allow_nan=False)
    except ValueError as error:
        raise NotStorable("it holds a number that JSON cannot say, such as NaN") from error


def first(values: list[T], limit: int) -> list[T]:
    """Returns as many of the first values as fit into `limit` bytes of JSON together."""
    kept = []
    for value in values:
        limit -= len(to_json(value)) + 1
        if limit < 0:
            break
        kept.append(value)
    return kept


def _copy(value: Any, depth: int, left: list[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value, 1_000_000)
    if isinstance(value, int):
        if abs(value) >= 1 << 63:  # no store and no browser can keep it as a number
            if abs(value) >= 10**100:
                raise NotStorable("a number of more than 100 digits")
            return str(int(value))
        return int(value)
    if isinstance(value, float):
        return value if value - value == 0 else None  # NaN and the infinities are not JSON
    if depth == 0:
        raise NotStorable(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        left[0] -= len(value)
        if left[0] < 0:
            raise NotStorable(f"more than {MAX_NAMES} values")
        return {
            text(name, 200): _copy(inner, depth - 1, left) for name, inner in value.items() if isinstance(name, str)
        }
    if isinstance(value, list | tuple):
        left[0] -= len(value)
        if left[0] < 0:
            raise NotStorable(f"more than {MAX_NAMES} values")
        return [_copy(inner, depth - 1, left) for inner in value]
    raise NotStorable(f"a {type(value).__name__}, which is no JSON")
