"""A real server for the event stream, and who listens to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import uvicorn

from inturn.visitors.responder import VisitorResponder
from tests.visitors.test_routes import served

WITHIN_S = 20.0


class Heard(NamedTuple):
    event: str
    id: str
    data: Any


@contextlib.asynccontextmanager
async def serving(responder: VisitorResponder) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(served(responder), log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/api/v1"
        finally:
            server.should_exit = True
            await task


class Listener:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Heard:
        """The next event; comments are passed over."""
        async with asyncio.timeout(WITHIN_S):
            fields: dict[str, str] = {}
            async for line in self._lines:
                if not line and fields:
                    return Heard(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
        raise EOFError("the stream has ended")

    async def take(self, count: int) -> list[Heard]:
        return [await self.next() for _ in range(count)]


@contextlib.asynccontextmanager
async def listening(base: str, path: str = "/conversations/c1/events", **headers: str) -> AsyncIterator[Listener]:
    async with (
        httpx.AsyncClient(timeout=WITHIN_S) as client,
        client.stream("GET", base + path, headers=headers) as response,
    ):
        assert response.status_code == 200, await response.aread()
        yield Listener(response)
