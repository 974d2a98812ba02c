"""No body is longer than the limit: refused by what it says of itself, else when it is, without reading the rest."""

from __future__ import annotations

from inturn.problems.kinds import KINDS
from inturn.problems.problem import Problem
from inturn.web.asgi import ASGIApp, Event, Receive, Scope, Send, values_of

MAX_BODY = 1024 * 1024


class _TooLong(Exception):
    """Ends the reading of a body; whatever the application makes of it, the client is told 413."""


class BodyLimit:
    def __init__(self, app: ASGIApp, limit: int = MAX_BODY) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = values_of(scope["headers"], b"content-length")
        if any(each.isdigit() and int(each[:20]) > self._limit for each in told):
            await self._problem().send(send, scope["path"])
            return
        size, is_over, is_begun = 0, False, False

        async def counted() -> Event:
            nonlocal size, is_over
            if is_over:
                raise _TooLong
            event = await receive()
            size += len(event.get("body", b""))
            if size > self._limit:
                is_over = True
                raise _TooLong
            return event

        async def kept_back(event: Event) -> None:
            nonlocal is_begun
            if is_over and not is_begun:
                return
            is_begun = True
            await send(event)

        try:
            await self._app(scope, counted, kept_back)
        except Exception:
            if not is_over or is_begun:
                raise
        if is_over and not is_begun:
            await self._problem().send(send, scope["path"])

    def _problem(self) -> Problem:
        # the rest of the body is not read, so nothing can follow it on this connection
        detail = f"It may have up to {self._limit} bytes. Nothing was done: send less."
        return KINDS["too-large"].problem(detail, headers=[("connection", "close")])
