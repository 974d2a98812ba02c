"""One run of the application. Its response is held back until it is decided whether it is kept.

Nothing reaches the client before `let_go`. Until then the application does not learn that the client went away: it may
finish what it has begun, and the repeat gets its response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import TracebackType
from typing import NamedTuple

from inturn.http.asgi import ASGIApp, Event, Headers, Receive, Scope, Send, values_of
from inturn.http.idempotency.kept_response import Response


class Held(NamedTuple):
    status: int
    """0: the application ended without a response."""
    response: Response | None = None
    """`None`: it cannot be held back."""
    why: str = ""
    asks_for_repeat: bool = False
    """It refuses the request, and says when to retry."""


class Exchange:
    def __init__(
        self,
        app: ASGIApp,
        scope: Scope,
        body: bytes,
        *,
        receive: Receive,
        send: Send,
        limit: int,
        streams: Collection[bytes],
    ) -> None:
        self.scope = _without_response_extensions(scope)
        self.note: Headers = []
        """Headers that the response gets on its way out."""
        self._app = app
        self._body: bytes | None = body
        self._receive_from_client = receive
        self._send_to_client = send
        self._limit = limit
        self._streams = streams
        self._start: Event | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._is_whole = False
        self._held: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
        self._is_let_go = asyncio.Event()
        self._failure: OSError | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Exchange:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def response(self) -> Held:
        """Run the application until its response is whole, or turns out to be one that cannot be held back."""
        task = self._task = asyncio.create_task(self._run())
        # if the waiting task is cancelled meanwhile, nobody else collects its error
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait((task, self._held), return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            # our turn ends here, and the application must not outlive it
            await self._stop()
            raise
        return self._held.result() if self._held.done() else Held(0)

    async def let_go(self) -> None:
        """Send what was held back, let the rest through as it comes, and wait for the application to end."""
        assert self._task is not None, "it runs before its response is let go"
        try:
            await self._send_held()
        except OSError as error:  # the client is gone, and the application learns it from its next send
            self._failure = error
        self._is_let_go.set()
        await self._task

    async def _run(self) -> None:
        await self._app(self.scope, self._receive, self._send)

    async def _stop(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _receive(self) -> Event:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_let_go.wait()
        return await self._receive_from_client()

    async def _send(self, event: Event) -> None:
        is_ours = not self._held.done()
        if is_ours and not self._take(event):
            return
        await self._is_let_go.wait()
        if self._failure is not None:
            raise self._failure
        if not is_ours:
            await self._send_to_client(event)

    def _take(self, event: Event) -> bool:
        """Keep this part of the response. Returns whether that settles what it is."""
        kind = event["type"]
        if kind == "http.response.start" and self._start is None:
            self._start = event
            if self._is_stream():
                self._settle(None, "it was a stream")
        elif kind == "http.response.body" and self._start is not None:
            chunk = bytes(event.get("body", b""))
            self._chunks.append(chunk)
            self._size += len(chunk)
            self._is_whole = not event.get("more_body", False)
            if self._size > self._limit:
                self._settle(None, f"it was longer than {self._limit} bytes")
            elif self._is_whole:
                headers = [(bytes(name), bytes(value)) for name, value in self._start.get("headers", ())]
                self._settle(Response(self._start["status"], headers, b"".join(self._chunks)))
        else:
            raise RuntimeError(f"{kind} was not expected here: a response is a start and bodies, and nothing else")
        return self._held.done()

    def _settle(self, response: Response | None, why: str = "") -> None:
        assert self._start is not None
        status = self._start["status"]
        # on a success (202) the header says when to look again, and what was accepted must not run twice
        asks_for_repeat = status >= 400 and bool(values_of(self._start.get("headers", ()), b"retry-after"))
        self._held.set_result(Held(status, response, why, asks_for_repeat))

    def _is_stream(self) -> bool:
        assert self._start is not None
        return any(
            value.split(b";")[0].strip().lower() in self._streams
            for value in values_of(self._start.get("headers", ()), b"content-type")
        )

    async def _send_held(self) -> None:
        if self._start is None:
            return
        headers = [*self._start.get("headers", ()), *self.note]
        await self._send_to_client({"type": "http.response.start", "status": self._start["status"], "headers": headers})
        for number, chunk in enumerate(self._chunks, 1):
            is_last = self._is_whole and number == len(self._chunks)
            await self._send_to_client({"type": "http.response.body", "body": chunk, "more_body": not is_last})


def _without_response_extensions(scope: Scope) -> Scope:
    """Files, trailers and early hints would bypass what is held back, so they are not offered."""
    inner = dict(scope)
    if "extensions" in inner:
        offered = inner["extensions"] or {}
        inner["extensions"] = {name: value for name, value in offered.items() if not name.startswith("http.response.")}
    return inner
