"""Event streams that have no end of their own end when the server stops; their clients connect again elsewhere."""

from __future__ import annotations

import asyncio

from inturn.http.asgi import ASGIApp, Event, Receive, Scope, Send, values_of


class EndingStreams:
    """Of GET requests. The stream of a turn is a POST: it ends with its turn."""

    def __init__(self, app: ASGIApp, stopping: asyncio.Event) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].endswith("/events"):
            await self._app(scope, receive, send)
            return
        is_stream, is_whole = False, False

        async def noticed(event: Event) -> None:
            nonlocal is_stream, is_whole
            if event["type"] == "http.response.start":
                kinds = values_of(event.get("headers", ()), b"content-type")
                is_stream = any(kind.startswith(b"text/event-stream") for kind in kinds)
            await send(event)
            is_whole = event["type"] == "http.response.body" and not event.get("more_body", False)

        run = asyncio.ensure_future(_run(self._app, scope, receive, noticed))
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({run, stop}, return_when=asyncio.FIRST_COMPLETED)
            if run.done() or not is_stream:
                await run
                return
        finally:
            stop.cancel()
            if not run.done():
                run.cancel()
                await asyncio.wait({run})
        if not is_whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _run(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)
