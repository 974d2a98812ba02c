"""What came from outside, as JSON that can be stored: no NaN, no halves of characters, no endless depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic_core import to_json

T = TypeVar("T")

MAX_DEPTH = 24
MAX_NAMES = 2000


class NotPlain(ValueError):
    """Too deep, too large, or not JSON at all."""


def text(value: str, limit: int) -> str:
    """Writable in UTF-8, and not longer than the limit."""
    whole = value.encode("utf-8", "replace").decode("utf-8") if not value.isascii() else value
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"


def plain(value: Any, limit: int) -> Any:
    """A copy that is JSON of at most `limit` bytes. Raises `NotPlain`."""
    copied = _copy(value, MAX_DEPTH, [MAX_NAMES])
    if len(to_json(copied)) > limit:
        raise NotPlain(f"more than {limit} bytes long")
    return copied


def first(values: list[T], limit: int) -> list[T]:
    """The first of them, as many as are JSON of at most `limit` bytes together."""
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
        if abs(value) >= 1 << 63:  # no store and no browser keeps it as a number
            if abs(value) >= 10**100:
                raise NotPlain("a number of more than 100 digits")
            return str(int(value))
        return int(value)
    if isinstance(value, float):
        return value if value - value == 0 else None  # NaN and the infinities are no JSON
    if depth == 0:
        raise NotPlain(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        left[0] -= len(value)
        if left[0] < 0:
            raise NotPlain(f"more than {MAX_NAMES} values")
        return {
            text(name, 200): _copy(inner, depth - 1, left) for name, inner in value.items() if isinstance(name, str)
        }
    if isinstance(value, list | tuple):
        left[0] -= len(value)
        if left[0] < 0:
            raise NotPlain(f"more than {MAX_NAMES} values")
        return [_copy(inner, depth - 1, left) for inner in value]
    raise NotPlain(f"a {type(value).__name__}, which is no JSON")
