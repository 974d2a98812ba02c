"""How many event streams a tenant may have open at once in one process, so that no tenant uses up what others need.

A stream counts from its request to its last byte, however it ends. It is streams that are bounded, not turns: a turn
goes on when its client has left, and others are not streamed at all. Plain ASGI, so it counts before any route runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inturn.http.asgi import ASGIApp, Receive, Scope, Send
from inturn.http.problems import Problem

MAX_STREAMS = 200


class TenantStreams:
    def __init__(self, most: int = MAX_STREAMS) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def count(self, tenant_id: str) -> int:
        return self._open[tenant_id]

    @contextmanager
    def one(self, tenant_id: str) -> Iterator[None]:
        """`with streams.one(tenant):` around all that a stream does. Raises the problem `too-many-streams`."""
        if self._open[tenant_id] >= self._most:
            raise Problem("too-many-streams")
        self._open[tenant_id] += 1
        try:
            yield
        finally:
            self._open[tenant_id] -= 1
            if not self._open[tenant_id]:
                del self._open[tenant_id]


def is_event_stream(scope: Scope) -> bool:
    """Streams of turns are POSTs to `…/stream`; streams of chats are GETs of `…/events`."""
    ending = {"GET": "/events", "POST": "/stream"}.get(scope["method"]) if scope["type"] == "http" else None
    return ending is not None and scope["path"].endswith(ending)


class LimitedStreams:
    """Middleware. `tenant_of` says whose request it is: it stands inside of what authenticates."""

    def __init__(self, app: ASGIApp, streams: TenantStreams, tenant_of: Callable[[Scope], str]) -> None:
        self._app = app
        self._streams = streams
        self._tenant_of = tenant_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_event_stream(scope):
            await self._app(scope, receive, send)
            return
        try:
            with self._streams.one(self._tenant_of(scope)):
                await self._app(scope, receive, send)
        except Problem as problem:
            if problem.code != "too-many-streams":
                raise
            await problem.send(send, scope["path"])
