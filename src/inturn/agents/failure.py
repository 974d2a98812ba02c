"""Translates a provider's failures: which error it is, and what the provider said, shortened and without secrets."""

from __future__ import annotations

from collections.abc import Iterable

from inturn.errors import AgentError, AgentRejected, AgentUnavailable
from inturn.masking import MAX_TEXT, masked

_MAX_SAID = 500
_PASSING = (408, 425, 429)
"""The 4xx that are about the moment, not about the request."""


def by_status(agent: str, status: int, said: str) -> AgentError:
    """Returns the error that an HTTP status other than success means."""
    is_passing = status >= 500 or status in _PASSING
    error = AgentUnavailable if is_passing else AgentRejected
    return error(agent, f"answered with status {status}", said)


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
