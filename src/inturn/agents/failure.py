"""A provider's failures in our words: which error it is, and what the provider said, short and without any secret."""

from __future__ import annotations

from collections.abc import Iterable

from inturn.errors import AgentError, AgentRejected, AgentUnavailable

MOST_SAID = 500
_COMES_BACK = (408, 425, 429)
"""Of the 4xx these are about the moment, not about the request."""


def by_status(agent: str, status: int, said: str) -> AgentError:
    """What an HTTP status other than success means."""
    is_passing = status >= 500 or status in _COMES_BACK
    error = AgentUnavailable if is_passing else AgentRejected
    return error(agent, f"answered with status {status}", said)


def short(text: str, secrets: Iterable[str] = ()) -> str:
    """One line of at most 500 characters, with stars for the secrets that a provider may have repeated to us."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    line = " ".join(text.encode("utf-8", "replace").decode().split())  # half a surrogate pair could not be logged
    return line if len(line) <= MOST_SAID else line[: MOST_SAID - 1] + "…"
