"""Bodies, states and results as JSON text, within limits. What cannot be written is refused before anything is sent."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from inturn.errors import BadMessage, TooLarge

MAX_BODY = 256 * 1024
MAX_STATE = 1024 * 1024
MAX_RESULT = 256 * 1024
MAX_CHUNK = 64 * 1024


def write(value: Any, what: str, limit: int) -> bytes:
    try:
        text = to_json(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadMessage(f"{what} cannot be written as JSON: {error}") from error
    if len(text) > limit:
        raise TooLarge(what, len(text), limit)
    return text


def read(text: bytes) -> Any:
    return from_json(text)
