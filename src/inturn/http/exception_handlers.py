"""Whatever goes wrong in a request becomes a problem document. Unexpected errors are logged, not disclosed.

Each problem says whether anything was saved, or that this is not known (`outcome-unknown`, `internal-error`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from inturn import errors
from inturn.http.asgi import ASGIApp, Event, Receive, Scope, Send, values_of
from inturn.http.problems import Problem

log = logging.getLogger("inturn.http")

MAX_ERRORS = 50
"""How many field errors one invalid request is told about."""

_BY_STATUS = {400: "bad-request", 404: "not-found", 405: "method-not-allowed"}


def add_exception_handlers(api: FastAPI) -> None:
    for kind in (errors.InTurnError, ValidationError, TimeoutError, Problem):
        api.add_exception_handler(kind, _of_error)
    api.add_exception_handler(RequestValidationError, _of_validation)
    api.add_exception_handler(HTTPException, _of_http)


def invalid_body(error: ValidationError) -> RequestValidationError:
    """For a route that reads its body itself: as FastAPI says it, a 422 that names each field."""
    return RequestValidationError(
        [{**found, "loc": ("body", *found["loc"])} for found in error.errors(include_url=False)]
    )


class LastResort:
    """Outside of all that may fail. An error that nobody handled is logged, and its client learns nothing about it."""

    def __init__(self, app: ASGIApp, stopping: asyncio.Event) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_begun = False

        async def noticed(event: Event) -> None:
            nonlocal is_begun
            is_begun = True
            if event["type"] == "http.response.start":
                headers = [*event.get("headers", ()), (b"x-content-type-options", b"nosniff")]
                if not values_of(headers, b"cache-control"):  # it belongs to one caller and one moment
                    headers.append((b"cache-control", b"no-store"))
                event = {**event, "headers": headers}
            await send(event)

        try:
            await self._app(scope, receive, noticed)
        except asyncio.CancelledError:
            # the server stops, and this took longer than its grace
            if not is_begun:
                await cut_off().send(noticed, scope["path"])
            elif not self._stopping.is_set():
                raise
            # else the response is meant to break off, and the server closes the connection: no traceback for that
        except Exception as error:
            if is_begun:  # the server breaks the connection off, so that half a response is not taken for a whole one
                raise
            await _logged(error, scope).send(noticed, scope["path"])


def problem_of(error: BaseException) -> Problem | None:
    """The problem that an error becomes. `None`: it is not meant for clients (a bug, a wrong set-up), and is logged."""
    if isinstance(error, Problem):
        return error
    return next((tell(error) for kind, tell in _TELL.items() if isinstance(error, kind)), None)


def cut_off() -> Problem:
    """For what was cancelled because the server stops: a commit that was on its way may have happened."""
    return Problem(
        "outcome-unknown",
        "The server stopped before it was done: either all was saved or nothing. Repeat it with the same message_id or "
        "Idempotency-Key; if you have neither, check first.",
    )


def _invalid(detail: str, wrong: list[dict[str, str]]) -> Problem:
    """`wrong`: each field with what is wrong with it."""
    return Problem("invalid-request", detail, more={"errors": wrong})


def _argument(error: errors.ArgumentError) -> Problem:
    return _invalid(str(error), [{"field": error.field, "message": error.problem}])


def _message(error: errors.BadMessage) -> Problem:
    wrong = [{"field": error.field, "message": error.problem}] if error.field else []
    return _invalid(str(error), wrong)


def _as(code: str) -> Callable[[Any], Problem]:
    """Uses the error's own text as the detail."""
    return lambda error: Problem(code, _sentence(str(error)))


def _sentence(text: str) -> str:
    """People read a detail as it is. In Python, an error's text is a fragment, which may stand after a colon."""
    text = text.rstrip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", "…")) else ".")


def _only(code: str, detail: str = "") -> Callable[[Any], Problem]:
    """Hides the error's own text: it is for operators, not for clients."""
    return lambda error: Problem(code, detail)


def _busy(error: errors.LaneBusy) -> Problem:
    return Problem("conversation-stopped") if error.stopped else Problem("conversation-busy")


def _waited(error: errors.LaneTimeout) -> Problem:
    return Problem(
        "conversation-busy",
        f"Earlier messages were not answered within {error.waited_s:.3g} s. Nothing was done: repeat the request.",
    )


def _agent(code: str) -> Callable[[Any], Problem]:
    def tell(error: errors.AgentError) -> Problem:
        more = {"agent": error.agent} | ({"said": error.said} if error.said else {})
        return Problem(code, _sentence(str(error)), more=more)

    return tell


def _budget(error: errors.BudgetExhausted) -> Problem:
    told = {"limit": error.limit, "remaining": error.remaining, "reset": round(error.resets_at)}
    return Problem(
        "budget-exhausted",
        _sentence(str(error)),
        headers=[(f"x-budget-{name}", str(value)) for name, value in told.items()],
        retry_after_s=error.retry_after_s,
        more={"needed": error.needed, "remaining": error.remaining},
    )


# The first match counts, so narrow errors stand before wide ones.
_TELL: dict[type[BaseException], Callable[[Any], Problem]] = {
    errors.UnknownConversation: _as("unknown-conversation"),
    errors.SessionCompleted: _as("session-completed"),
    errors.CardNotAllowed: _as("card-not-allowed"),
    errors.UnknownCapability: _as("unknown-capability"),
    errors.InputRefused: _only("input-refused"),
    errors.VagueInput: lambda error: Problem(
        "vague-input", _sentence(error.reason), more={"suggestions": error.suggestions}
    ),
    errors.UnknownJob: _as("unknown-job"),
    errors.UnknownTask: _as("unknown-task"),
    errors.UnknownRequest: _as("unknown-request"),
    errors.BudgetExhausted: _budget,
    errors.DatabaseUnavailable: _only("database-unavailable"),
    errors.BrokerUnavailable: _only("broker-unavailable"),
    errors.AgentTimeout: _agent("agent-timeout"),
    errors.AgentUnavailable: _agent("agent-unavailable"),
    errors.AgentRejected: _agent("agent-rejected"),
    errors.AgentError: _agent("agent-unavailable"),
    errors.LaneBusy: _busy,
    errors.LaneTimeout: _waited,
    errors.ConversationLockError: _only("conversation-busy"),
    errors.LockTimeout: _only("conversation-busy"),
    errors.OwnLane: _only("conversation-busy"),
    errors.DuplicateMessage: _only("duplicate-message"),
    errors.MessageCancelled: _only("message-cancelled"),
    errors.Superseded: _as("superseded"),
    errors.MailboxFull: _only("mailbox-full"),
    errors.NotReplicated: _only(
        "outcome-unknown",
        "It was saved, but too few replicas have it yet, and a failover could lose it. Repeat it with the same "
        "message_id: nothing happens twice.",
    ),
    errors.StoreUnavailable: _only("store-unavailable"),
    errors.CommitUnknown: _only("outcome-unknown"),
    errors.Interrupted: _only("superseded", "A newer message replaced it. Nothing was saved."),
    errors.LeaseLost: _only("turn-lost"),
    errors.DeadlockDetected: _only("turn-lost"),
    errors.HandlerTimeout: _only("turn-lost"),
    errors.Retry: _only("turn-lost"),
    errors.Stop: _only("message-failed"),
    errors.HandlerFailed: _only("message-failed"),
    errors.ResultExpired: _only("response-expired"),
    errors.StateMismatch: _only("state-mismatch"),
    errors.GraphTooDeep: _as("graph-too-deep"),
    errors.DefinitionMissing: _as("definition-missing"),
    errors.ArgumentError: _argument,
    errors.BadMessage: _message,
    # FastAPI checks requests, with an error of its own: this is something stored that does not fit its schema
    ValidationError: _only("state-mismatch"),
    TimeoutError: _only(
        "outcome-unknown",
        "It exceeded its time limit: either all was saved or nothing. Repeat it with the same message_id.",
    ),
}


async def _of_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ValidationError | errors.StateMismatch | TimeoutError):  # their clients are told little
        log.warning("%s %s was refused", request.method, request.url.path, exc_info=error)
    return _response(problem_of(error) or _logged(error, request.scope), request)


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = [_field(found) for found in error.errors()[:MAX_ERRORS]]
    if isinstance(error.body, bytes):  # FastAPI reads as JSON only what is called so
        wrong = [each for each in wrong if each["field"] != "body"]
        wrong.append(
            {"field": "body", "message": "is not JSON: send it with the header Content-Type: application/json"}
        )
    detail = "; ".join(f"{each['field']}: {each['message']}" for each in wrong[:5])
    return _response(_invalid(detail, wrong), request)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    code = _BY_STATUS.get(error.status_code)
    detail = _sentence(str(error.detail))
    if code is None:
        return _response(Problem("http-error", detail, status=error.status_code), request)
    if code == "not-found":
        detail = f"{request.method} {request.url.path}: there is no such path."
    elif code == "method-not-allowed":
        detail = f"{request.method} is not allowed, only: {headers.get('Allow') or headers.get('allow', 'none')}."
    return _response(Problem(code, detail, headers=list(headers.items())), request)


def _field(found: dict[str, Any]) -> dict[str, str]:
    """Leaves out the rejected value: it may be long, secret, or not text at all."""
    place = [str(part) for part in found["loc"]]
    if found["type"] == "json_invalid":
        return {"field": "body", "message": f"is not JSON: {found.get('ctx', {}).get('error', 'it cannot be read')}"}
    if len(place) > 1 and place[0] in ("body", "path", "query", "header"):
        place = place[1:]
    return {"field": ".".join(place), "message": str(found["msg"]).removeprefix("Value error, ")}


def _logged(error: Exception, scope: Scope) -> Problem:
    log.error("%s %s failed unexpectedly", scope["method"], scope["path"], exc_info=error)
    return Problem("internal-error")


def _response(problem: Problem, request: Request) -> Response:
    return Response(problem.written(request.url.path), status_code=problem.status, headers=problem.headers())
