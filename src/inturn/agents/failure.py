"""Translates a provider's failures: which error it is, and what the provider said, shortened and without secrets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime

from inturn.errors import AgentError, AgentRejected, AgentUnavailable
from inturn.masking import MAX_TEXT, masked

_MAX_SAID = 500
_PASSING = (408, 409, 425, 429)
"""The 4xx that are about the moment, not about the request."""
MAX_RETRY_AFTER_S = 86400.0


def by_status(agent: str, status: int, said: str, headers: Mapping[str, str] | None = None) -> AgentError:
    """Returns the error that an HTTP status other than success means. `headers`: whatever the case of their names."""
    is_passing = status >= 500 or status in _PASSING
    error = AgentUnavailable if is_passing else AgentRejected
    wait_s = retry_after_s(headers or {})
    return error(agent, f"answered with status {status}", said, status=status, retry_after_s=wait_s)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Returns how many seconds the provider asks to wait, at most a day. `None` if it does not say, or says nonsense.

    `retry-after-ms`, which OpenAI and Azure send, is the more exact one.
    """
    given = _number(headers.get("retry-after-ms"))
    wait_s = _seconds(headers.get("retry-after")) if given is None else given / 1000
    return None if wait_s is None else min(wait_s, MAX_RETRY_AFTER_S)


def _seconds(given: str | None) -> float | None:
    """Reads seconds or an HTTP date, which may be over already."""
    wait_s = _number(given)
    if wait_s is not None or given is None:
        return wait_s
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(given: str | None) -> float | None:
    try:
        found = float(given or "")
    except ValueError:
        return None
    return found if 0.0 <= found < float("inf") else None  # NaN is neither


def harmless(error: Exception, secrets: Iterable[str] = ()) -> Exception | None:
    """Returns the error as a cause, unless its traceback would show a secret."""
    text = f"{error} {error.__cause__}"
    return None if masked(text) != text[:MAX_TEXT] or any(secret and secret in text for secret in secrets) else error


def short(text: str, secrets: Iterable[str] = ()) -> str:
    """Returns one line of at most 500 characters. Secrets that the provider repeated to us are replaced by stars."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    # masked before it is cut: half a key does not look like one
    line = " ".join(
        masked(text).encode("utf-8", "replace").decode().split()
    )  # half a surrogate pair could not be logged
    return line if len(line) <= _MAX_SAID else line[: _MAX_SAID - 1] + "…"
