"""How a failed turn goes on: another attempt after a pause, a dead letter, or a lane that stops."""

from __future__ import annotations

import json
import random
import time
import traceback
from pathlib import Path
from typing import Literal, NamedTuple

from inturn.errors import HandlerSignal, Retry, StateMismatch, Stop

OnFailure = Literal["block", "skip", "park"]
ON_FAILURE: tuple[OnFailure, ...] = ("block", "skip", "park")

MAX_ERROR = 2000
_MAX_PIECE = 500
"""Characters of one call, or of one error's text, in a traceback."""
_OURS = str(Path(__file__).parent)


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

    def judge(self, error: BaseException, attempt: int, *, is_hopeless: bool = False) -> Verdict:
        """`is_hopeless`: another attempt would end in the same way."""
        if isinstance(error, Stop) or (self.on_failure == "skip" and not isinstance(error, Retry)):
            return Verdict("dead")
        if attempt >= self.attempts or is_hopeless or isinstance(error, Exhausted):
            return Verdict("park" if self.on_failure == "park" else "dead")
        if isinstance(error, Retry) and error.after is not None:
            return Verdict("retry", round(error.after * 1000))
        bound = min(self.longest_s, self.first_s * 2.0 ** (attempt - 1))
        return Verdict("retry", round(random.uniform(0.0, bound) * 1000))


def describe(error: BaseException) -> str:
    """An error's type and text, whatever the error is."""
    name = type(error).__name__
    try:
        return f"{name}: {_readable(str(error)[:MAX_ERROR])}"
    except Exception as wordless:  # noqa: BLE001 - a broken `__str__` must not keep the message from failing
        return f"{name}: its text cannot be read ({type(wordless).__name__})"


def error_record(error: BaseException, attempt: int) -> str:
    """An error as it is stored with its message."""
    kind, _, message = describe(error).partition(": ")
    return json.dumps(
        {
            "type": kind,
            "message": message,
            "attempt": attempt,
            "at": round(time.time() * 1000),
            "traceback": traceback_of(error),
        }
    )


def traceback_of(error: BaseException) -> str:
    """As the handler's author reads it: it begins in the handler, not in what called it. At most `MAX_ERROR` long."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    # an error's text is one piece: a long one, such as a provider's answer, must leave room for the calls
    lines = "".join(map(_piece, traceback.format_exception(type(error), error, trace)))
    if len(lines) <= MAX_ERROR:
        return lines
    handler = "".join(map(_piece, traceback.format_tb(trace, limit=1)))
    begin = f"{handler}…\n"
    end = lines[len(begin) - MAX_ERROR :]  # the last calls and the error say most
    if handler in end:
        begin = "…\n"
    return begin + end[end.find("\n") + 1 :]


def _piece(text: str) -> str:
    return _readable(text if len(text) <= _MAX_PIECE else f"{text[:_MAX_PIECE]}…\n")


def has_story(error: BaseException) -> bool:
    """Whether a traceback says more than the error: not if the handler says how to go on, nor if the error is ours."""
    return not isinstance(error, HandlerSignal | StateMismatch | Exhausted) or isinstance(error.__cause__, Exception)


def _readable(text: str) -> str:
    """A file name may hold bytes that are no text."""
    return text.encode(errors="backslashreplace").decode()
