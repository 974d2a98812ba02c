"""uvicorn's HTTP protocol with bounds: on the size of a request's head and trailers, and on the time that a head takes.
What cannot be read is refused with a problem document, too.

httptools has none of its own. uvicorn on h11 would have one, but answers a tenth fewer turns a second (417 instead of
465 on two cores) and a third fewer of the shortest requests; to count what comes in costs 2 % of the latter.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from inturn.problems.kinds import KINDS
from inturn.problems.problem import Problem

MAX_HEAD = 64 * 1024
HEAD_S = 60.0


class _TooLong(Exception):
    """Ends the parsing."""


class Bounded(HttpToolsProtocol):
    max_head = MAX_HEAD
    head_s = HEAD_S
    _waits: asyncio.TimerHandle | None = None
    """For a head to be whole."""
    _since_progress = 0
    """Bytes since a head was whole, or a piece of a body came: of a head, of trailers, of what stands around chunks."""
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
            self._refuse("headers-too-large")

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
        self._refuse("headers-too-large" if self._is_too_long else "bad-request")

    def _refuse(self, code: str) -> None:
        if self._is_next_to_answer():
            detail = KINDS[code].example if code == "headers-too-large" else "It is no HTTP/1.1. Nothing was done."
            self.transport.write(written(KINDS[code].problem(detail)))
        self.transport.close()

    def _is_next_to_answer(self) -> bool:
        """Whether a refusal would be taken for that of the request that is being read, and of no other."""
        is_first = self.cycle is None  # which uvicorn's annotation leaves out
        if is_first or self.cycle.response_complete:
            return True
        # its body is not whole, no other is before it, and nothing of its answer was sent
        return self.cycle.more_body and not self.pipeline and not self.cycle.response_started

    def _begin_head(self) -> None:
        self._end_head()
        self._waits = self.loop.call_later(self.head_s, self.transport.close)

    def _end_head(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


def written(problem: Problem) -> bytes:
    """As a whole response, of the last request on its connection."""
    body = problem.written()
    told: dict[str, Any] = {**problem.headers(), "content-length": len(body), "connection": "close"}
    head = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}", *(f"{n}: {v}" for n, v in told.items())]
    return "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body
