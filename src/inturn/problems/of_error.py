"""Which problem an error is. `None` for what is not meant for clients (a bug, a wrong set-up): it is to be logged.

Each says whether anything was saved, so an error that cannot tell is `outcome-unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from inturn import errors
from inturn.problems.kinds import KINDS
from inturn.problems.problem import Problem

# `text: must …` and `busy='x': must …`: how our own checks name the field that is wrong
_FIELD = re.compile(r"([A-Za-z_][\w.]*)(?:=|: )")


def problem_of(error: BaseException) -> Problem | None:
    if isinstance(error, Problem):
        return error
    if type(error) in (ValueError, TypeError):
        return _of_argument(error)
    for kind, tell in _TELL.items():
        if isinstance(error, kind):
            return tell(error)
    return None


def internal_error() -> Problem:
    kind = KINDS["internal-error"]
    return kind.problem(kind.example)


def cut_off() -> Problem:
    """Of what was cancelled because the server stops: a commit that was on its way may have happened."""
    return KINDS["outcome-unknown"].problem(
        "The server stopped before it was done: all of it was saved, or nothing. Repeat it with the same message_id or "
        "Idempotency-Key; without either, look first."
    )


def invalid(errors_found: list[dict[str, str]]) -> Problem:
    """`errors_found`: field and message of each."""
    detail = "; ".join(f"{found['field']}: {found['message']}" for found in errors_found[:5])
    return KINDS["invalid-request"].problem(detail, more={"errors": errors_found})


def _of_argument(error: BaseException) -> Problem | None:
    """An error that names a field is about what the client sent; any other is a bug of ours."""
    told = str(error)
    field = _FIELD.match(told)
    if field is None:
        return None
    message = told.rpartition(": ")[2] if "=" in field[0] else told[field.end() :]
    return KINDS["invalid-request"].problem(told, more={"errors": [{"field": field[1], "message": message}]})


def _message(error: errors.BadMessage) -> Problem:
    told = _of_argument(error)
    return told or KINDS["invalid-request"].problem(str(error), more={"errors": []})


def _as(code: str, detail: str | None = None) -> Callable[[Any], Problem]:
    """`detail`: where the error's own words are for operators, and not for clients."""
    return lambda error: KINDS[code].problem(str(error) if detail is None else detail)


def _example(code: str) -> Callable[[Any], Problem]:
    return _as(code, KINDS[code].example)


def _busy(error: errors.LaneBusy) -> Problem:
    code = "conversation-stopped" if error.stopped else "conversation-busy"
    return KINDS[code].problem(KINDS[code].example)


def _waited(error: errors.LaneTimeout) -> Problem:
    return KINDS["conversation-busy"].problem(
        f"The messages before it were not answered within {error.waited_s:.3g} s. Nothing was done: repeat the request."
    )


def _agent(code: str) -> Callable[[Any], Problem]:
    def tell(error: errors.AgentError) -> Problem:
        more = {"agent": error.agent} | ({"said": error.said} if error.said else {})
        return KINDS[code].problem(str(error), more=more)

    return tell


# The first that fits counts, so the narrow ones stand before the wide ones.
_TELL: dict[type[BaseException], Callable[[Any], Problem]] = {
    errors.UnknownConversation: _as("unknown-conversation"),
    errors.SessionCompleted: _as("session-completed"),
    errors.CardNotAllowed: _as("card-not-allowed"),
    errors.AgentTimeout: _agent("agent-timeout"),
    errors.AgentUnavailable: _agent("agent-unavailable"),
    errors.AgentRejected: _agent("agent-rejected"),
    errors.AgentError: _agent("agent-unavailable"),
    errors.LaneBusy: _busy,
    errors.LaneTimeout: _waited,
    errors.ConversationLockError: _example("conversation-busy"),
    errors.LockTimeout: _example("conversation-busy"),
    errors.OwnLane: _example("conversation-busy"),
    errors.DuplicateMessage: _example("duplicate-message"),
    errors.MessageCancelled: _example("message-cancelled"),
    errors.Superseded: _as("superseded"),
    errors.MailboxFull: _example("mailbox-full"),
    errors.NotReplicated: _as(
        "outcome-unknown",
        "It was saved, but too few replicas have it yet, and a failover could lose it. Repeat it with the same "
        "message_id: nothing happens twice.",
    ),
    errors.StoreUnavailable: _example("store-unavailable"),
    errors.CommitUnknown: _example("outcome-unknown"),
    errors.Interrupted: _as("superseded", "A newer message took its place. Nothing of it was saved."),
    errors.LeaseLost: _example("turn-lost"),
    errors.DeadlockDetected: _example("turn-lost"),
    errors.HandlerTimeout: _example("turn-lost"),
    errors.Retry: _example("turn-lost"),
    errors.Stop: _example("message-failed"),
    errors.HandlerFailed: _example("message-failed"),
    errors.ResultExpired: _example("response-expired"),
    errors.StateMismatch: _example("state-mismatch"),
    errors.WorkflowTooDeep: _as("workflow-too-deep"),
    errors.DefinitionError: _as("definition-missing"),
    errors.BadMessage: _message,
    # requests are checked by the framework, with an error of its own: this is something stored that does not fit
    ValidationError: _example("state-mismatch"),
    TimeoutError: _as(
        "outcome-unknown",
        "It took longer than it may: all of it was saved, or nothing. Repeat it with the same message_id.",
    ),
}
