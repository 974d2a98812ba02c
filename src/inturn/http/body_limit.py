"""No body is longer than the limit, or takes longer to come: refused by what it says of itself, else when it does.

The rest of it is not read.
"""

from __future__ import annotations

import asyncio

from inturn.problems.kinds import KINDS
from inturn.problems.problem import Problem
from inturn.http.asgi import ASGIApp, Event, Receive, Scope, Send, values_of

MAX_BODY = 1024 * 1024
BODY_S = 60.0


class _Refused(Exception):
    """Ends the reading of a body; whatever the application makes of it, the client is told the problem."""


class BodyLimit:
    def __init__(self, app: ASGIApp, limit: int = MAX_BODY, within_s: float = BODY_S) -> None:
        self._app = app
        self._limit = limit
        self._within_s = within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = values_of(scope["headers"], b"content-length")
        if any(each.isdigit() and int(each[:20]) > self._limit for each in told):
            await self._too_large().send(send, scope["path"])
            return
        body = _Body(receive, self._limit, self._within_s)
        is_begun = False

        async def kept_back(event: Event) -> None:
            nonlocal is_begun
            if body.wrong and not is_begun:
                return
            is_begun = True
            await send(event)

        try:
            await self._app(scope, body.receive, kept_back)
        except Exception:
            if not body.wrong or is_begun:
                raise
        if body.wrong and not is_begun:
            await (self._too_large() if body.wrong == "too large" else self._too_late()).send(send, scope["path"])

    def _too_large(self) -> Problem:
        # the rest of the body is not read, so nothing can follow it on this connection
        detail = f"It may have up to {self._limit} bytes. Nothing was done: send less."
        return KINDS["too-large"].problem(detail, headers=[("connection", "close")])

    def _too_late(self) -> Problem:
        detail = f"The body was not there within {self._within_s:g} s. Nothing was done: send it again."
        return KINDS["body-timeout"].problem(detail, headers=[("connection", "close")])


class _Body:
    """What is read of one. When it is whole there is no hurry: what comes then is that the client went away."""

    def __init__(self, receive: Receive, limit: int, within_s: float) -> None:
        self._receive = receive
        self._left = limit
        self._within_s = within_s
        self._ends_at: float | None = None
        self._is_whole = False
        self.wrong = ""

    async def receive(self) -> Event:
        if self.wrong:
            raise _Refused
        if self._is_whole:
            return await self._receive()
        if self._ends_at is None:
            self._ends_at = asyncio.get_running_loop().time() + self._within_s
        try:
            async with asyncio.timeout_at(self._ends_at):
                event = await self._receive()
        except TimeoutError:
            self.wrong = "too late"
            raise _Refused from None
        self._left -= len(event.get("body", b""))
        self._is_whole = not event.get("more_body", False)
        if self._left < 0:
            self.wrong = "too large"
            raise _Refused
        return event
