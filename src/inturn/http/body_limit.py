"""Bounds the size of a request's body, and the time that it takes to arrive.

A body whose `Content-Length` is over the limit is refused at once. Any other is refused when it goes over the limit, or
when its time is up. What is left of a refused body is not read.
"""

from __future__ import annotations

import asyncio

from inturn.http.asgi import ASGIApp, Event, Receive, Scope, Send, values_of
from inturn.http.problems import Problem

MAX_BODY = 1024 * 1024
BODY_S = 60.0


class _Refused(Exception):
    """Stops the application from reading on. However it reacts, the client gets the problem."""


class BodyLimit:
    def __init__(self, app: ASGIApp, limit: int = MAX_BODY, within_s: float = BODY_S) -> None:
        self._app = app
        self._limit = limit
        self._within_s = within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if is_longer(scope, self._limit):
            await too_large(self._limit).send(send, scope["path"])
            return
        body = _Body(receive, self._limit, self._within_s)
        is_begun = False

        async def guarded(event: Event) -> None:
            nonlocal is_begun
            if body.refused and not is_begun:
                return
            is_begun = True
            await send(event)

        try:
            await self._app(scope, body.receive, guarded)
        except Exception:
            if not body.refused or is_begun:
                raise
        if body.refused and not is_begun:
            await body.refused.send(send, scope["path"])


def is_longer(scope: Scope, limit: int) -> bool:
    """Whether the request announces a body over the limit."""
    lengths = values_of(scope["headers"], b"content-length")
    return any(length.isdigit() and int(length[:20]) > limit for length in lengths)


def too_large(limit: int) -> Problem:
    detail = f"A body may be up to {limit} bytes long. Nothing was done: send a shorter one."
    return _closing("too-large", detail)


def _too_late(within_s: float) -> Problem:
    return _closing(
        "body-timeout", f"The body was not complete within {within_s:g} s. Nothing was done: send it again."
    )


def _closing(code: str, detail: str) -> Problem:
    # the rest of the body is not read, so nothing can follow it on this connection
    return Problem(code, detail, headers=[("connection", "close")])


class _Body:
    """The body as the application reads it. Once it is complete, all that can follow is that the client goes away."""

    def __init__(self, receive: Receive, limit: int, within_s: float) -> None:
        self._receive = receive
        self._limit = limit
        self._left = limit
        self._within_s = within_s
        self._ends_at: float | None = None
        self._is_whole = False
        self.refused: Problem | None = None

    async def receive(self) -> Event:
        if self.refused:
            raise _Refused
        if self._is_whole:
            return await self._receive()
        if self._ends_at is None:
            self._ends_at = asyncio.get_running_loop().time() + self._within_s
        try:
            async with asyncio.timeout_at(self._ends_at):
                event = await self._receive()
        except TimeoutError:
            self.refused = _too_late(self._within_s)
            raise _Refused from None
        self._left -= len(event.get("body", b""))
        self._is_whole = not event.get("more_body", False)
        if self._left < 0:
            self.refused = too_large(self._limit)
            raise _Refused
        return event
