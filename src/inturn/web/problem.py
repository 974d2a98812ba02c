"""Refusals of `IdempotencyMiddleware`: each says what the client should do next."""

from __future__ import annotations

from inturn.problems.kinds import AWAY_S, BUSY_S, KINDS
from inturn.problems.problem import Problem

__all__ = [
    "Problem", "caller_unknown", "key_malformed", "key_missing", "not_replayable", "other_payload", "outcome_unknown",
    "request_too_large", "still_running", "stopped", "store_away", "took_too_long", "turn_lost",
]  # fmt: skip


def _refusal(status: int, code: str, title: str, detail: str, retry_after_s: int | None = None) -> Problem:
    return Problem(status, code, title, detail, retry_after_s)


def key_missing() -> Problem:
    return _refusal(
        400, "key-missing", "Idempotency-Key is missing",
        "This operation needs the header Idempotency-Key: send a new unique value, such as a UUID in quotes, with each "
        "new operation, and the same value when you repeat it.",
    )  # fmt: skip


def key_malformed(why: str) -> Problem:
    return _refusal(
        400, "key-malformed", "Idempotency-Key is malformed",
        f"{why}. Send one header with one quoted string of 1 to 255 printable ASCII characters, such as a UUID.",
    )  # fmt: skip


def caller_unknown() -> Problem:
    return _refusal(
        400, "caller-unknown", "Idempotency-Key without a known caller",
        "Keys belong to callers, and nothing in this request says who calls. Send it with your credentials, or without "
        "an Idempotency-Key if the operation does not need one.",
    )  # fmt: skip


def request_too_large(limit: int) -> Problem:
    return KINDS["too-large"].problem(f"With an Idempotency-Key it may have up to {limit} bytes. Nothing was done.")


def still_running() -> Problem:
    return _refusal(
        409, "still-running", "The first request with this Idempotency-Key is still running",
        "Nothing was started again. Repeat the same request later, with the same key, to get its response.", BUSY_S,
    )  # fmt: skip


def other_payload() -> Problem:
    return _refusal(
        422, "other-payload", "This Idempotency-Key belongs to another request",
        "It was used with another method, path, query, content type or body. Nothing was done: take a new key for a "
        "new operation, or repeat the first request exactly.",
    )  # fmt: skip


def not_replayable(why: str) -> Problem:
    return _refusal(
        422, "not-replayable", "The response to this Idempotency-Key was not kept",
        f"The operation ran, and its response was sent once, but {why}. It was not run again: look up its outcome in "
        "another way, and take a new key only if it is to happen once more.",
    )  # fmt: skip


def store_away() -> Problem:
    return _refusal(
        503, "store-unavailable", "Requests with an Idempotency-Key cannot be taken at the moment",
        "The store that remembers them does not answer. Nothing was done: repeat the request later, with the same key.",
        AWAY_S,
    )  # fmt: skip


def stopped() -> Problem:
    return _refusal(
        503, "stopped", "This Idempotency-Key is stopped",
        "An operator has stopped it. Nothing was done: repeat the request later, with the same key.", AWAY_S,
    )  # fmt: skip


def turn_lost() -> Problem:
    return _refusal(
        503, "turn-lost", "The request lost its turn while it ran",
        "It was stopped, or its response came too late to be kept, and a repeat may already have taken its place. "
        "Repeat the request with the same key: it gets the response of whoever finished, or runs again.", AWAY_S,
    )  # fmt: skip


def took_too_long(limit_s: float) -> Problem:
    return _refusal(
        503, "took-too-long", "The request ran into its time limit",
        f"It was stopped after {limit_s:g} s, and no response was kept. A repeat with the same key runs it again.",
        AWAY_S,
    )  # fmt: skip


def outcome_unknown() -> Problem:
    return _refusal(
        503, "outcome-unknown", "Whether the response was kept is not known",
        "The request ran, and the store went away while its response was being kept. Repeat it with the same key: it "
        "gets that response if it was kept, and runs again if not.", AWAY_S,
    )  # fmt: skip
