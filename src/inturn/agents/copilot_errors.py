"""What Copilot Studio says when it fails: in the body of an error, or in a message to the user."""

from __future__ import annotations

import json
import re

from inturn.agents.failure import short
from inturn.errors import AgentError, AgentRejected, AgentUnavailable

_TOLD = re.compile(r"\berror code:\s*(?P<code>\w+)[\s.]+conversation id:", re.IGNORECASE)
"""The message of the system topic `On Error`: an answer by its form, and none to the user."""
_FILTERED = re.compile(r"ContentFiltered|OpenAI(?!RateLimit)\w+")
_NO_CONVERSATION = re.compile(
    r"conversation\b.*\b(?:not found|expired|does(?: not|n't) exist|no longer)|ConversationNotFound",
    re.IGNORECASE | re.DOTALL,
)


def message_in(body: str) -> str:
    """The service's own sentence, if its error has one."""
    try:
        found = json.loads(body)
    except ValueError:
        return body
    for inner in (found.get("error"), found) if isinstance(found, dict) else ():
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return str(inner["message"])
    return body


def is_gone(status: int, said: str) -> bool:
    """Whether the service no longer knows the conversation."""
    return status in (404, 410) or (status == 400 and bool(_NO_CONVERSATION.search(said)))


def error_told(agent: str, text: str) -> AgentError | None:
    """The error that a message of the bot tells: of a limit, a fault of the service, or a filter."""
    found = _TOLD.search(text)
    if found is None:
        return None
    if _FILTERED.fullmatch(found["code"]):
        return AgentRejected(agent, "refused to answer", short(text))
    return AgentUnavailable(agent, "failed inside the service", short(text))
