"""uvicorn's HTTP protocol with bounds: on the size of a request's head and trailers, and on the time that a head takes.
What cannot be read is refused with a problem document, too.

httptools has no such bounds. uvicorn on h11 would bound the size, but serves a tenth fewer turns a second (417 instead
of 465 on two cores) and a third fewer of the shortest requests. Counting the bytes costs 2 % of the latter.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from inturn.http.problems import Problem

MAX_HEAD = 64 * 1024
HEAD_S = 60.0


class _TooLong(Exception):
    """Stops the parser."""


class Bounded(HttpToolsProtocol):
    max_head = MAX_HEAD
    head_s = HEAD_S
    _waits: asyncio.TimerHandle | None = None
    """Closes the connection if the head does not become complete."""
    _since_progress = 0
    """Bytes since a head was complete or a piece of a body came: of a head, of trailers, or of what frames chunks."""
    _is_too_long = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._since_progress += len(data)
        super().data_received(data)
        if self._since_progress > self.max_head and not self.transport.is_closing():
            self._refuse(Problem("headers-too-large"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        self._since_progress = 0
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > self.max_head:
            self._is_too_long = True
            raise _TooLong
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._since_progress = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._since_progress = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._is_too_long:
            self._refuse(Problem("headers-too-large"))
        else:
            self._refuse(Problem("bad-request", "It is not HTTP/1.1. Nothing was done."))

    def _refuse(self, problem: Problem) -> None:
        if self._is_next_to_answer():
            self.transport.write(written(problem))
        self.transport.close()

    def _is_next_to_answer(self) -> bool:
        """Whether the client would take a refusal for the answer to the request that is being read, and to no other."""
        is_first = self.cycle is None  # uvicorn's annotation leaves `None` out
        if is_first or self.cycle.response_complete:
            return True
        # its body is not complete, no other request is ahead of it, and nothing of its answer was sent
        return self.cycle.more_body and not self.pipeline and not self.cycle.response_started

    def _begin_head(self) -> None:
        self._end_head()
        self._waits = self.loop.call_later(self.head_s, self.transport.close)

    def _end_head(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


def written(problem: Problem) -> bytes:
    """As a complete response, the last one on its connection."""
    body = problem.written()
    told: dict[str, Any] = {**problem.headers(), "content-length": len(body), "connection": "close"}
    head = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}", *(f"{n}: {v}" for n, v in told.items())]
    return "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body
