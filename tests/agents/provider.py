"""A provider's HTTP server, on a port of its own: what it answers is a script that writes the bytes itself.

So a test decides where a chunk ends, when nothing more comes, and when the connection breaks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.waiting import until

SSE = "text/event-stream"


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Wire:
    """The provider's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer
        self.is_cut = False

    async def head(self, status: int = 200, **headers: str) -> None:
        """Headers of a chunked answer; `_` in a name stands for `-`."""
        lines = [f"HTTP/1.1 {status} Status", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self._write("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        await self._write(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        await self._write(b"0\r\n\r\n")

    async def whole(self, status: int, body: object, **headers: str) -> None:
        await self.head(status, content_type="application/json", **headers)
        await self.chunk(body if isinstance(body, bytes) else json.dumps(body).encode())
        await self.end()

    async def gone(self) -> None:
        """Until the client has closed the connection."""
        self.is_cut = True
        try:
            while await self.reader.read(1000):
                pass
        except ConnectionError:
            pass

    def cut(self) -> None:
        """The connection breaks."""
        self.is_cut = True
        self._writer.transport.abort()

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


Script = Callable[[Request, Wire], Awaitable[None]]


@dataclass
class Provider:
    """Set `script`; look at `requests` afterwards."""

    script: Script | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    left: int = 0
    """Connections that a client closed while the script waited for it."""
    open: int = 0
    """Connections that are still there: a client may leave before a busy machine has read its request."""
    failures: list[BaseException] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> Request:
        return self.requests[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        wire = Wire(reader, writer)
        try:
            while not wire.is_cut and (request := await _read(reader)) is not None:
                self.requests.append(request)
                assert self.script is not None
                await self.script(request, wire)
        except ConnectionError:
            self.left += 1
        except Exception as error:  # noqa: BLE001 - told when the server is closed
            self.failures.append(error)
        finally:
            self.open -= 1
            writer.close()

    async def waits(self, wire: Wire) -> None:
        """Says nothing more, until the client leaves."""
        await wire.gone()
        self.left += 1


@asynccontextmanager
async def serving() -> AsyncIterator[Provider]:
    provider = Provider()
    tasks: set[asyncio.Task[None]] = set()
    accepted: set[Any] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        accepted.add(writer.get_extra_info("peername"))
        try:
            await provider.serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    provider.port = address[1]
    try:
        yield provider
    finally:
        # a client that left at once may not have been accepted yet, and nobody would close that connection; connections
        # are accepted in the order in which they were made
        _, last = await asyncio.open_connection(*address)
        await until(lambda: last.get_extra_info("sockname") in accepted)
        last.close()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert not provider.failures, provider.failures


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except asyncio.IncompleteReadError:  # the client left while it wrote
        return None
    return Request(method, path, headers, json.loads(body) if body else None)


async def hangs_up(request: Request, wire: Wire) -> None:
    wire.cut()
