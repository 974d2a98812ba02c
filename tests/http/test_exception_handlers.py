"""Every error of ours has a problem that makes sense; only what is truly a fault of the server is a 500."""

from __future__ import annotations

import inspect
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, ValidationError

from inturn import errors
from inturn.problems.kinds import KINDS
from inturn.problems.of_error import cut_off, internal_error, problem_of

Told = tuple[int, str]


class Stored(BaseModel):
    number: int


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Stored.model_validate({"number": "hunter2"})
    return caught.value


TOLD: list[tuple[BaseException, Told]] = [
    (errors.DefinitionError(["workflow 'x' is not loaded"]), (503, "definition-missing")),
    (errors.StoreUnavailable("redis://hunter2"), (503, "store-unavailable")),
    (errors.NotReplicated("redis://hunter2"), (503, "outcome-unknown")),
    (errors.LockTimeout("k", 1), (409, "conversation-busy")),
    (errors.LeaseLost("k", 1, "gone"), (503, "turn-lost")),
    (errors.Interrupted("k", 1, "a newer message"), (409, "superseded")),
    (errors.DeadlockDetected("k", ["a", "b"]), (503, "turn-lost")),
    (errors.ConversationLockError("c"), (409, "conversation-busy")),
    (errors.AgentError("openai", "failed"), (502, "agent-unavailable")),
    (errors.AgentTimeout("openai", "did not answer"), (504, "agent-timeout")),
    (errors.AgentUnavailable("openai", "is away"), (502, "agent-unavailable")),
    (errors.AgentRejected("openai", "refused"), (502, "agent-rejected")),
    (errors.UnknownConversation("c"), (404, "unknown-conversation")),
    (errors.SessionCompleted("c"), (409, "session-completed")),
    (errors.CardNotAllowed("card", "there is no such card"), (403, "card-not-allowed")),
    (errors.WorkflowTooDeep(["a", "b"], 100), (503, "workflow-too-deep")),
    (errors.BadMessage("text: must be text"), (422, "invalid-request")),
    (errors.TooLarge("the state", 10, 5), (422, "invalid-request")),
    (errors.LaneBusy("k", None, 0, 1), (409, "conversation-busy")),
    (errors.LaneBusy("k", None, 0, 1, "paused"), (503, "conversation-stopped")),
    (errors.LaneTimeout("k", 60), (409, "conversation-busy")),
    (errors.MailboxFull("k", 10), (429, "mailbox-full")),
    (errors.DuplicateMessage("k", "m", Mock()), (409, "duplicate-message")),
    (errors.OwnLane("k"), (409, "conversation-busy")),
    (errors.StateMismatch("k", "turn_count"), (503, "state-mismatch")),
    (errors.HandlerTimeout("k", 300), (503, "turn-lost")),
    (errors.HandlerFailed("k", "m", 3, [{"type": "KeyError", "message": "hunter2"}]), (503, "message-failed")),
    (errors.Superseded("k", "m"), (409, "superseded")),
    (errors.MessageCancelled("k", "m"), (409, "message-cancelled")),
    (errors.ResultExpired("k", "m"), (410, "response-expired")),
    (errors.CommitUnknown("k", 1), (503, "outcome-unknown")),
    (errors.Retry("hunter2"), (503, "turn-lost")),
    (errors.Stop("hunter2"), (503, "message-failed")),
    (TimeoutError("hunter2"), (503, "outcome-unknown")),
    (invalid(), (503, "state-mismatch")),
    (ValueError("text: must not be blank"), (422, "invalid-request")),
    (TypeError("busy=3: must be text"), (422, "invalid-request")),
]
# roots that nobody raises, and what can only be a fault of the server: its set-up, or its code
OURS: set[type[errors.InTurnError]] = {
    errors.InTurnError, errors.SettingsError, errors.MissingExtra, errors.LockError, errors.LockMismatch,
    errors.AlreadyHeld, errors.NotHeld, errors.ConversationError, errors.LaneError, errors.UnknownHandler,
    errors.HandlerSignal,
}  # fmt: skip


@pytest.mark.parametrize(("error", "told"), TOLD, ids=lambda value: type(value).__name__)
def test_an_error_is_told_as_what_it_is(error: BaseException, told: Told) -> None:
    problem = problem_of(error)
    assert problem is not None
    assert (problem.status, problem.code) == told
    assert problem.retry_after_s == KINDS[problem.code].retry_after_s
    assert problem.detail
    assert "hunter2" not in problem.detail


def test_there_is_no_error_without_a_line_in_this_table() -> None:
    every = {
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.InTurnError)
    }  # fmt: skip
    assert {type(error) for error, _ in TOLD if isinstance(error, errors.InTurnError)} | OURS == every
    assert not {type(error) for error, _ in TOLD} & OURS


@pytest.mark.parametrize("kind", sorted(OURS, key=str))
def test_a_fault_of_the_server_is_not_told(kind: type[errors.InTurnError]) -> None:
    assert problem_of(kind.__new__(kind)) is None


def test_only_a_fault_of_the_server_is_a_500() -> None:
    assert [code for code, kind in KINDS.items() if kind.status == 500] == ["internal-error"]
    assert internal_error().status == 500


def test_what_was_cut_off_may_have_been_saved() -> None:
    assert (cut_off().status, cut_off().code) == (503, "outcome-unknown")
    assert "all of it was saved, or nothing" in cut_off().detail
