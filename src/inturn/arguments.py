"""Bad input is refused here, with the field and the value in the message."""

from __future__ import annotations

import math
from datetime import timedelta

MAX_NAME_BYTES = 512
MAX_TTL_S = 7 * 86400.0
MAX_PRIORITY = 1000
MAX_PERMITS = 2**20

Seconds = float | int | timedelta


def name(value: object, field: str = "name") -> str:
    if not isinstance(value, str):
        raise TypeError(f"{field}={value!r}: must be text, not {type(value).__name__}")
    if not value:
        raise ValueError(f"{field}='': must not be empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{field}={value!r}: is not valid text: {error}") from None
    if size > MAX_NAME_BYTES:
        raise ValueError(f"{field}={value[:40]!r}…: is {size} bytes long, at most {MAX_NAME_BYTES} are allowed")
    if "\0" in value:
        raise ValueError(f"{field}={value!r}: must not contain NUL")
    return value


def seconds(value: object, field: str, *, allow_zero: bool = False, most: float = MAX_TTL_S) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{field}={value!r}: must be a number of seconds, not {type(value).__name__}")
    if math.isnan(value) or math.isinf(value):
        raise ValueError(f"{field}={value!r}: must be a finite number of seconds")
    if value < 0 or (value == 0 and not allow_zero):
        raise ValueError(f"{field}={value!r}: must be greater than 0 seconds")
    if value > most:
        raise ValueError(f"{field}={value!r}: at most {most:g} seconds are allowed")
    return float(value)


def ttl(value: object, field: str = "ttl") -> float:
    life = seconds(value, field)
    if life < 0.001:
        raise ValueError(f"{field}={value!r}: must be at least a millisecond")
    return life


def wait(value: object, field: str = "wait") -> float | None:
    return None if value is None else seconds(value, field, allow_zero=True, most=365 * 86400.0)


def waits_for(blocking: bool | None, blocking_timeout: Seconds | None, default: float | None) -> float | None:
    """What redis-py's two arguments of `acquire` mean together, in seconds (`None`: as long as it takes)."""
    if blocking is False:
        return 0.0
    if blocking_timeout is not None:
        return wait(blocking_timeout, "blocking_timeout")
    return None if blocking else default


def whole(value: object, field: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{field}={value!r}: must be a whole number, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{field}={value!r}: must be between {least} and {most}")
    return value
