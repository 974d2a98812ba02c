"""Merges metadata by field: the changes of one turn are applied to the metadata as it is by then.

So concurrent edits survive, unless they are to the same field, or replaced an object in which this turn changed a
field. A list counts as one field and is not merged inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import to_json


@dataclass(frozen=True, slots=True)
class FieldChange:
    """The field at `path` is set, removed, or made: an empty object, unless someone else has made one there too."""

    path: tuple[str, ...]
    value: Any = None
    how: Literal["set", "remove", "make"] = "set"


Patch = tuple[FieldChange, ...]


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Patch:
    return tuple(_changes((), before, after))


def _changes(path: tuple[str, ...], before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    for name in before:
        if name not in after:
            yield FieldChange((*path, name), how="remove")
    for name, value in after.items():
        here = (*path, name)
        if isinstance(value, dict) and isinstance(before.get(name, {}), dict):
            if name not in before:
                yield FieldChange(here, how="make")
            yield from _changes(here, before.get(name, {}), value)
        elif name not in before or not is_same(before[name], value):
            yield FieldChange(here, deepcopy(value))


def apply(patch: Patch, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of the metadata with the changes; no other field is touched."""
    patched: dict[str, Any] = deepcopy(dict(metadata))
    for change in patch:
        _apply(change, patched)
    return patched


def largest(patch: Patch) -> str:
    """Returns the name of the field with the longest new value."""
    return ".".join(max(patch, key=lambda change: len(to_json(change.value))).path)


def _apply(change: FieldChange, metadata: dict[str, Any]) -> None:
    *parents, last = change.path
    place = metadata
    for name in parents:
        inner = place.get(name)
        if not isinstance(inner, dict):
            if change.how == "remove":
                return  # someone else has removed the parent
            inner = place[name] = {}
        place = inner
    if change.how == "remove":
        place.pop(last, None)
    elif change.how == "make":
        if not isinstance(place.get(last), dict):
            place[last] = {}
    else:
        place[last] = deepcopy(change.value)


def is_same(one: Any, other: Any) -> bool:
    """Compares as JSON does: `True` is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and bool(one == other)
