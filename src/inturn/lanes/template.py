"""Makes keys and message ids from a body: `"visitor:{visitor_uid}"`, `"{user.id}"`, or a function of the body."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from inturn import arguments
from inturn.errors import ArgumentError, ArgumentTypeError, BadMessage
from inturn.lanes.codec import Shape

MISSING: Any = object()

MAX_LANE_BYTES = 1024
"""Of the lane of a send. The longest key that a user can choose leaves room for seven of the longest handlers."""


def key(value: object, field: str = "key") -> str:
    """A key that a user chose. `>` is reserved for the lanes of sends: `<key>><handler>`."""
    checked = arguments.name(value, field)
    if ">" in checked:
        problem = "must not contain '>', which joins a key and the handler of its sends"
        raise BadMessage(f"{field}={checked!r}: {problem}", field, problem)
    return checked


def lane(value: object, field: str = "key") -> str:
    """The key of any lane, including those of sends, which are longer than the key that they come from."""
    return arguments.name(value, field, MAX_LANE_BYTES)


def lane_of_send(key: str, handler: str) -> str:
    made = f"{key}>{handler}"
    if (size := len(made.encode())) > MAX_LANE_BYTES:
        problem = f"its lane, '<this key>><handler>', would be {size} bytes long; at most {MAX_LANE_BYTES} are allowed"
        raise ArgumentError("key", f"{problem}: name a shorter one with key=", key[:40] + "…")
    return made


def message_id(value: object, field: str = "message_id") -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = int.__repr__(value)
    return arguments.name(value, field)


def content_id(key: str, content: str) -> str:
    """Returns a message id: the SHA-256 of the key and the content."""
    return hashlib.sha256(f"{key}\0{content}".encode()).hexdigest()


def look_up(body: Any, path: list[str]) -> Any:
    """Returns a field of a field of a body; `MISSING` if there is none."""
    value = body
    for name in path:
        value = value.get(name, MISSING) if isinstance(value, Mapping) else getattr(value, name, MISSING)
    return value


class Template:
    """Checked when the handler is registered; filled in for every body."""

    def __init__(self, source: str | Callable[[Any], object], field: str, body: Shape | None) -> None:
        self._field = field
        self._source = source
        self._parts: list[tuple[str, list[str] | None]] = []
        if callable(source):
            return
        if not source or not isinstance(source, str):
            raise ArgumentTypeError(field, "must be a template such as 'user:{user_id}', or a function", source)
        try:
            parsed = list(Formatter().parse(source))
        except ValueError as error:
            raise ArgumentError(field, str(error), source) from None
        known = body.fields() if body is not None else None
        for literal, name, spec, conversion in parsed:
            if spec or conversion or name == "":
                raise ArgumentError(field, "write plain names in braces, such as {user_id}", source)
            path = name.split(".") if name else None
            if path and known is not None and path[0] not in known:
                there_are = ", ".join(sorted(known))
                raise ArgumentError(field, f"the body has no {path[0]!r}; it has {there_are}", source)
            self._parts.append((literal, path))

    def fill(self, body: Any) -> str:
        if callable(self._source):
            value = self._source(body)
            if not isinstance(value, str):
                raise BadMessage(f"{self._field}: its function returned {value!r}; it must return text", self._field)
            return str.__str__(value)
        return "".join(literal + (self._find(body, path) if path else "") for literal, path in self._parts)

    def _find(self, body: Any, path: list[str]) -> str:
        value = look_up(body, path)
        if value is MISSING:
            raise self._bad(f"the body has no {'.'.join(path)!r}")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._bad(f"{'.'.join(path)!r} is {value!r}; it must be text or a number")
        # an enum member counts as its JSON value, so the lane is the same before and after serialization
        return str.__str__(value) if isinstance(value, str) else int.__repr__(value)

    def _bad(self, problem: str) -> BadMessage:
        return BadMessage(f"{self._field}={self._source!r}: {problem}", self._field, problem)
