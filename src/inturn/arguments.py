"""Checks arguments. Bad input raises an `ArgumentError` that names the field and shows the value."""

from __future__ import annotations

import math
from datetime import timedelta

from inturn.errors import ArgumentError, ArgumentTypeError

MAX_NAME_BYTES = 512
MAX_TTL_S = 7 * 86400.0
MAX_PERMITS = 2**20

Seconds = float | int | timedelta


def name(value: object, field: str = "name", maximum: int = MAX_NAME_BYTES) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(field, f"must be text, not {type(value).__name__}", value)
    if not value:
        raise ArgumentError(field, "must not be empty", value)
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ArgumentError(field, f"is not valid text: {error}", value) from None
    if size > maximum:
        raise ArgumentError(field, f"is {size} bytes long; at most {maximum} are allowed", value[:40] + "…")
    if "\0" in value:
        raise ArgumentError(field, "must not contain NUL", value)
    return str.__str__(value)  # an enum member counts as its JSON value, as in a template


def seconds(value: object, field: str, *, allow_zero: bool = False, maximum: float = MAX_TTL_S) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(field, f"must be a number of seconds, not {type(value).__name__}", value)
    if math.isnan(value) or math.isinf(value):
        raise ArgumentError(field, "must be a finite number of seconds", value)
    if value < 0 or (value == 0 and not allow_zero):
        least = "0 seconds or more" if allow_zero else "greater than 0 seconds"
        raise ArgumentError(field, f"must be {least}", value)
    if value > maximum:
        raise ArgumentError(field, f"at most {maximum:g} seconds are allowed", value)
    return float(value)


def ttl(value: object, field: str = "ttl") -> float:
    life = seconds(value, field)
    if life < 0.001:
        raise ArgumentError(field, "must be at least a millisecond", value)
    return life


def wait(value: object, field: str = "wait") -> float | None:
    return None if value is None else seconds(value, field, allow_zero=True, maximum=365 * 86400.0)


def waits_for(blocking: bool | None, blocking_timeout: Seconds | None, default: float | None) -> float | None:
    """What redis-py's two arguments of `acquire` mean together, in seconds; `None` for as long as it takes."""
    if blocking is False:
        return 0.0
    if blocking_timeout is not None:
        return wait(blocking_timeout, "blocking_timeout")
    # one that is made not to wait is told to wait here, and no longer time is known
    return None if blocking and default == 0.0 else default


def whole(value: object, field: str, minimum: int, maximum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(field, f"must be a whole number, not {type(value).__name__}", value)
    if not minimum <= value <= maximum:
        raise ArgumentError(field, f"must be between {minimum} and {maximum}", value)
    return value
