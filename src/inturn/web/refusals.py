"""Whatever goes wrong in a request, its client gets a problem document; what nobody foresaw is logged, and not told."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from inturn.errors import InTurnError, StateMismatch
from inturn.problems.kinds import KINDS
from inturn.problems.of_error import cut_off, internal_error, invalid, problem_of
from inturn.problems.problem import Problem
from inturn.http.asgi import ASGIApp, Event, Receive, Scope, Send, values_of

log = logging.getLogger("inturn.web")

_BY_STATUS = {400: "bad-request", 404: "not-found", 405: "method-not-allowed"}
_MOST_ERRORS = 50


def add_refusals(api: FastAPI) -> None:
    api.add_exception_handler(InTurnError, _of_error)
    api.add_exception_handler(ValueError, _of_error)
    api.add_exception_handler(TypeError, _of_error)
    api.add_exception_handler(TimeoutError, _of_error)
    api.add_exception_handler(Problem, _of_error)
    api.add_exception_handler(RequestValidationError, _of_validation)
    api.add_exception_handler(HTTPException, _of_http)


class LastResort:
    """Outermost. An error that nobody handled becomes a problem that tells nothing of it; its traceback is logged."""

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
                if not values_of(headers, b"cache-control"):  # it is somebody's, and of this moment
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
            # else: that it breaks off is as it should be, and the server closes the connection; a traceback says less
        except Exception as error:
            if is_begun:  # the server breaks the connection off, so that half a response is not taken for a whole one
                raise
            await _logged(error, scope).send(noticed, scope["path"])


async def _of_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ValidationError | StateMismatch | TimeoutError):  # their clients are told little
        log.warning("%s %s was refused", request.method, request.url.path, exc_info=error)
    return _response(problem_of(error) or _logged(error, request.scope), request)


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _response(invalid([_field(found) for found in error.errors()[:_MOST_ERRORS]]), request)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = list((error.headers or {}).items())
    code = _BY_STATUS.get(error.status_code)
    if code == "not-found":
        detail = f"{request.method} {request.url.path}: there is no such path."
    elif code == "method-not-allowed":
        detail = f"{request.method} is not one of: {dict(headers).get('Allow') or dict(headers).get('allow', 'none')}."
    else:
        detail = str(error.detail)
    if code is None:
        return _response(Problem(error.status_code, "http-error", "The request was refused", detail), request)
    return _response(KINDS[code].problem(detail, headers=headers), request)


def _field(found: dict[str, Any]) -> dict[str, str]:
    """Without what was sent: it may be long, secret, or no text at all."""
    place = [str(part) for part in found["loc"]]
    if found["type"] == "json_invalid":
        return {"field": "body", "message": f"is no JSON: {found.get('ctx', {}).get('error', 'it cannot be read')}"}
    if len(place) > 1 and place[0] in ("body", "path", "query", "header"):
        place = place[1:]
    return {"field": ".".join(place), "message": str(found["msg"]).removeprefix("Value error, ")}


def _logged(error: Exception, scope: Scope) -> Problem:
    log.error("%s %s failed in an unforeseen way", scope["method"], scope["path"], exc_info=error)
    return internal_error()


def _response(problem: Problem, request: Request) -> Response:
    return Response(problem.written(request.url.path), status_code=problem.status, headers=problem.headers())
