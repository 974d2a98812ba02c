"""How a failed turn goes on: another attempt after a pause, a dead letter, or a lane that stops."""

from __future__ import annotations

import json
import random
import time
import traceback
from typing import Literal, NamedTuple

from inturn.errors import Retry, Stop

OnFailure = Literal["block", "skip", "park"]
ON_FAILURE: tuple[OnFailure, ...] = ("block", "skip", "park")

MAX_ERROR = 2000
MAX_RETRY_DELAY_S = 7 * 86400.0


class Exhausted(Exception):
    """Every attempt was used up, the last one by a worker that died, or that lost its lease."""

    def __init__(self, attempts: int) -> None:
        super().__init__(
            f"was given to a worker {attempts} times, and the last worker died or lost its lease before its turn ended"
        )


class Verdict(NamedTuple):
    how: Literal["retry", "dead", "park"]
    delay_ms: int = 0


class RetryRule(NamedTuple):
    """`attempts` in all, with pauses of full jitter whose bound doubles from `first_s` up to `longest_s`."""

    on_failure: OnFailure
    attempts: int
    first_s: float
    longest_s: float

    def judge(self, error: BaseException, attempt: int) -> Verdict:
        if isinstance(error, Stop) or (self.on_failure == "skip" and not isinstance(error, Retry)):
            return Verdict("dead")
        if attempt >= self.attempts:
            return Verdict("park" if self.on_failure == "park" else "dead")
        if isinstance(error, Retry) and error.after is not None:
            return Verdict("retry", round(min(error.after, MAX_RETRY_DELAY_S) * 1000))
        bound = min(self.longest_s, self.first_s * 2.0 ** (attempt - 1))
        return Verdict("retry", round(random.uniform(0.0, bound) * 1000))


def describe(error: BaseException) -> str:
    """An error's type and text, whatever the error is."""
    name = type(error).__name__
    try:
        # a file name may hold bytes that are no text
        return f"{name}: " + str(error)[:MAX_ERROR].encode(errors="backslashreplace").decode()
    except Exception as wordless:  # noqa: BLE001 - a broken `__str__` must not keep the message from failing
        return f"{name}: its text cannot be read ({type(wordless).__name__})"


def error_record(error: BaseException, attempt: int) -> str:
    """An error as it is stored with its message."""
    kind, _, message = describe(error).partition(": ")
    lines = "".join(traceback.format_exception(error))
    return json.dumps(
        {
            "type": kind,
            "message": message,
            "attempt": attempt,
            "at": round(time.time() * 1000),
            "traceback": lines[-MAX_ERROR:],
        }
    )
