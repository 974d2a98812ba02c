"""Merges metadata by field: objects are merged inside, everything else is replaced, and `None` removes a field."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic_core import to_json


def merged(metadata: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of the metadata with these fields; no other field is touched. (This is JSON Merge Patch.)"""
    result = deepcopy(dict(metadata))
    for name, value in fields.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = deepcopy(value)
    return result


def largest_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Returns the name of the changed field with the longest new value, with dots for fields of objects."""
    changed = {name: value for name, value in after.items() if name not in before or not is_same(before[name], value)}
    if not changed:
        return ""
    name = max(changed, key=lambda each: len(to_json(changed[each])))
    old, new = before.get(name), changed[name]
    inner = largest_change(old if isinstance(old, dict) else {}, new) if isinstance(new, dict) else ""
    return f"{name}.{inner}" if inner else name


def is_same(one: Any, other: Any) -> bool:
    """Compares as JSON does: `True` is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and bool(one == other)
