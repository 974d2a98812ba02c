"""A server's side of ASGI, in the test's hand, and an application that counts how often it ran."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from inturn.http.asgi import ASGIApp, Event, Headers, Receive, Scope, Send, values_of


def scope_of(
    key: str | bytes | None,
    *,
    method: str = "POST",
    path: str = "/orders",
    query: bytes = b"",
    caller: str | None = "Bearer alice",
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> Scope:
    sent: Headers = [(b"content-type", b"application/json"), *headers]
    if caller is not None:
        sent.append((b"authorization", caller.encode()))
    if key is not None:
        sent.append((b"idempotency-key", key.encode() if isinstance(key, str) else key))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": sent,
        "client": ("192.0.2.7", 4711),
        "extensions": {"tls": {}, "http.response.pathsend": {}, "http.response.trailers": {}},
    }


class Call:
    """One request. `sent` is what the client has been sent so far."""

    def __init__(
        self, app: ASGIApp, scope: Scope, body: bytes | Iterable[bytes] = b"{}", *, holds_back: bool = False
    ) -> None:
        """`holds_back`: the last part of the body never comes."""
        chunks = [body] if isinstance(body, bytes) else list(body)
        self._incoming: asyncio.Queue[Event] = asyncio.Queue()
        for number, chunk in enumerate(chunks[:-1] if holds_back else chunks, 1):
            self._incoming.put_nowait({"type": "http.request", "body": chunk, "more_body": number < len(chunks)})
        self.path = scope["path"]
        self.sent: list[Event] = []
        self.some_sent = asyncio.Event()
        # a request of its own, as a server would make it: not part of a turn that the test itself may be in
        self.task = asyncio.get_running_loop().create_task(self._run(app, scope), context=contextvars.Context())

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        await app(scope, self._incoming.get, self._send)

    async def _send(self, event: Event) -> None:
        self.sent.append(event)
        self.some_sent.set()

    def disconnect(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> Headers:
        return list(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        assert not self.sent[-1].get("more_body", False)
        return b"".join(event.get("body", b"") for event in self.sent[1:])

    def header(self, name: str) -> str | None:
        found = values_of(self.headers, name.encode())
        return found[0].decode() if found else None

    def problem(self) -> str:
        """Its code."""
        assert self.header("content-type") == "application/problem+json"
        told = json.loads(self.body)
        assert set(told) == {"type", "title", "status", "detail", "code", "instance"}
        assert (told["status"], told["instance"]) == (self.status, self.path)
        assert told["type"] == f"urn:inturn:problem:{told['code']}"
        return str(told["code"])


async def ask(app: ASGIApp, key: str | bytes | None, body: bytes | Iterable[bytes] = b"{}", **asked: Any) -> Call:
    call = Call(app, scope_of(key, **asked), body)
    await call.task
    return call


Behaviour = Callable[[Scope, Receive, Send], Awaitable[None]]


class Shop:
    """Answers with the number of the run, unless the test says what it does instead."""

    def __init__(self) -> None:
        self.runs = 0
        self.bodies: list[bytes] = []
        self.does: Behaviour | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.runs += 1
        if self.does is not None:
            await self.does(scope, receive, send)
            return
        event = await receive()
        assert not event["more_body"]
        self.bodies.append(event["body"])
        await respond(send, b"run %d" % self.runs)


async def respond(send: Send, body: bytes, status: int = 201, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"x-shop", b"open"), *headers]})
    await send({"type": "http.response.body", "body": body})
