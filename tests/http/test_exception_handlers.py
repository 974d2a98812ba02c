"""Every error becomes a problem that makes sense; only what is truly a fault of the server is a 500.

What was cancelled may have been saved, and its client is told so.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, ValidationError

from inturn import errors
from inturn.http.asgi import Receive, Scope, Send
from inturn.http.exception_handlers import LastResort, cut_off, problem_of
from inturn.http.problems import CATALOGUE
from tests.http.calls import Call, scope_of
from tests.http.site import Site, problem
from tests.lanes.workbench import Gate

Told = tuple[int, str]


class Stored(BaseModel):
    number: int


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Stored.model_validate({"number": "hunter2"})
    return caught.value


TOLD: list[tuple[BaseException, Told]] = [
    (errors.DefinitionMissing("c", "x"), (503, "definition-missing")),
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
    (errors.GraphTooDeep(["a", "b"], 100), (503, "graph-too-deep")),
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
    (errors.UnknownCapability("x", ["y"]), (404, "unknown-capability")),
    (errors.InputRefused("hunter2"), (400, "input-refused")),
    (errors.VagueInput("It is not clear what to do.", ["Pay the rent"]), (400, "vague-input")),
    (errors.UnknownJob("j"), (404, "unknown-job")),
    (errors.UnknownTask("t"), (404, "unknown-task")),
    (errors.UnknownRequest("r"), (404, "unknown-request")),
    (errors.DatabaseUnavailable("postgresql://hunter2", "hunter2"), (503, "database-unavailable")),
    (errors.BrokerUnavailable("hunter2"), (503, "broker-unavailable")),
    (errors.BrokerFull("hunter2"), (503, "broker-unavailable")),
    (errors.QueueMismatch("hunter2"), (503, "broker-unavailable")),
    (errors.ArgumentError("text", "must not be blank"), (422, "invalid-request")),
    (errors.ArgumentTypeError("busy", "must be text", 3), (422, "invalid-request")),
]
# roots that nobody raises, and what can only be a fault of the server: its set-up, or its code
OURS: set[type[errors.InTurnError]] = {
    errors.InTurnError, errors.SettingsError, errors.MissingExtra, errors.DefinitionError, errors.LockError,
    errors.LockMismatch, errors.AlreadyHeld, errors.NotHeld, errors.ConversationError, errors.LaneError,
    errors.UnknownHandler, errors.HandlerSignal, errors.Apart, errors.CapabilityError, errors.DatabaseError,
    errors.DatabaseOutdated, errors.TasksError,
}  # fmt: skip


@pytest.mark.parametrize(("error", "told"), TOLD, ids=lambda value: type(value).__name__)
def test_an_error_is_told_as_what_it_is(error: BaseException, told: Told) -> None:
    found = problem_of(error)
    assert found is not None
    assert (found.status, found.code) == told
    assert found.retry_after_s == CATALOGUE[found.code].retry_after_s
    assert found.detail
    assert "hunter2" not in found.detail


def test_a_budget_that_is_used_up_is_told_with_what_is_left_and_when_it_resets() -> None:
    found = problem_of(errors.BudgetExhausted(1000, 5000, 200, 1_700_000_000.0, 30))
    assert found is not None
    assert (found.status, found.code, found.retry_after_s) == (429, "budget-exhausted", 30)
    told = {"x-budget-limit": "5000", "x-budget-remaining": "200", "x-budget-reset": "1700000000", "retry-after": "30"}
    assert told.items() <= dict(found.headers()).items()


@pytest.mark.parametrize("said", ["down", "down.", "Try later.\n", "a very long text…", "why?"])
def test_what_people_read_is_a_sentence_however_the_text_of_the_error_ends(said: str) -> None:
    found = problem_of(errors.AgentUnavailable("mine", "cannot be reached", said))
    assert found is not None
    assert found.detail == f"Agent 'mine' cannot be reached: {said.rstrip()}" + ("." if said == "down" else "")


async def test_what_the_framework_says_is_a_sentence_too(site: Site) -> None:
    answer = await site.client.put(
        "/api/v1/projects/shop/ai", content=b"\xff{", headers={"content-type": "application/json"}
    )
    assert problem(answer, 400, "bad-request")["detail"].endswith(".")


def test_there_is_no_error_without_a_line_in_this_table() -> None:
    every = {
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.InTurnError)
    }  # fmt: skip
    told = {type(error) for error, _ in TOLD if isinstance(error, errors.InTurnError)} | {errors.BudgetExhausted}
    assert told | OURS == every
    assert not {type(error) for error, _ in TOLD} & OURS


@pytest.mark.parametrize("kind", sorted(OURS, key=str))
def test_a_fault_of_the_server_is_not_told(kind: type[errors.InTurnError]) -> None:
    assert problem_of(kind.__new__(kind)) is None


@pytest.mark.parametrize(
    ("error", "wrong"),
    [
        (errors.ArgumentError("text", "must not be blank"), [{"field": "text", "message": "must not be blank"}]),
        (
            errors.ArgumentTypeError("busy", "must be text: a: b", 3),
            [{"field": "busy", "message": "must be text: a: b"}],
        ),
        (errors.BadMessage("key: must be text", field="key"), [{"field": "key", "message": "must be text"}]),
        (
            errors.BadMessage("key='a>b': must not contain '>'", "key", "must not contain '>'"),
            [{"field": "key", "message": "must not contain '>'"}],
        ),
        (errors.BadMessage("the body does not fit"), []),
    ],
    ids=str,
)
def test_an_argument_that_cannot_be_taken_names_its_field(error: Exception, wrong: list[dict[str, str]]) -> None:
    found = problem_of(error)
    assert found is not None
    assert (found.detail, found.more) == (str(error), {"errors": wrong})


@pytest.mark.parametrize("kind", [ValueError, TypeError])
def test_a_plain_error_is_our_own_bug_even_if_it_reads_as_if_it_named_a_field(kind: type[Exception]) -> None:
    assert problem_of(kind("text: must not be blank")) is None


def test_what_was_cut_off_may_have_been_saved() -> None:
    assert (cut_off().status, cut_off().code) == (503, "outcome-unknown")
    assert "either all was saved or nothing" in cut_off().detail


@pytest.mark.parametrize("is_committed", [True, False], ids=["in its commit", "before it"])
async def test_a_turn_that_is_cancelled_may_have_been_saved(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    conversation = await site.start()
    store, gate = site.turns.process.store, Gate()
    commit = store.commit

    async def slow(*given: Any) -> Any:
        answered = await commit(*given)
        await gate.pass_through()  # the reply is on its way
        return answered

    if is_committed:
        monkeypatch.setattr(store, "commit", slow)
    else:
        site.agent.gate = gate
    body = json.dumps({"text": "name=Ada", "message_id": "m"}).encode()
    call = site.call(f"/api/v1/workflows/{conversation}/turns", body)
    await gate.reached.wait()
    call.task.cancel()  # as uvicorn does when the grace is over
    await call.task
    told = json.loads(call.body)
    assert (call.status, told["code"], call.header("retry-after")) == (503, "outcome-unknown", "5")
    assert "either all was saved or nothing" in told["detail"]
    gate.opened.set()
    again = await site.say(conversation, "name=Ada", message_id="m")
    assert (again.status_code, again.json()["turn_meta"]["turn_number"]) == (200, 1)
    assert site.agent.texts == ["name=Ada"] * (1 if is_committed else 2)


@pytest.mark.parametrize("is_stopping", [True, False])
async def test_a_response_that_has_begun_breaks_off_quietly_only_when_the_server_stops(is_stopping: bool) -> None:
    stopping = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    call = Call(LastResort(endless, stopping), scope_of(None))
    await call.some_sent.wait()
    if is_stopping:
        stopping.set()
    call.task.cancel()
    await asyncio.wait({call.task})
    assert call.task.cancelled() is not is_stopping
    assert len(call.sent) == 1


async def test_what_is_stored_and_does_not_fit_is_for_an_operator(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async with site.turns.turn("project:p", message_id=None, state=dict) as turn:
        turn.state = {"until": "hunter2"}
    told = problem(await site.client.get("/api/v1/projects/p/presence"), 503, "state-mismatch")
    assert "hunter2" not in json.dumps(told)
    assert any(record.name == "inturn.http" and record.exc_info for record in caplog.records)


@pytest.mark.parametrize("path", ["turns", "turns/stream"])
async def test_what_took_too_long_may_have_been_saved(site: Site, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    conversation = await site.start()
    monkeypatch.setattr(site.api.state.orchestrator.sessions, "must_be_of", Mock(side_effect=TimeoutError))
    answer = await site.client.post(f"/api/v1/workflows/{conversation}/{path}", json={"text": "hi"})
    problem(answer, 503, "outcome-unknown")
