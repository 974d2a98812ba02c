"""Who is called back: an HTTP server on a port of its own. It remembers what it was sent, and answers as it is told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from inturn.http.signatures import Secrets, verify

SECRET = "whsec_" + "c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzISE="


@dataclass
class Call:
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    status: int = 0
    """How it was answered."""

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content

    def header(self, name: str) -> str:
        (found,) = [value for key, value in self.headers if key == name.encode()]
        return found.decode()


Answer = Callable[[Call], int]


def accepts(call: Call) -> int:
    return 201


@dataclass
class Receiver:
    """`answer`: the status for each call; 0 hangs up. Every call must be signed."""

    answer: Answer = accepts
    calls: list[Call] = field(default_factory=list)
    secrets: Secrets = field(default_factory=lambda: Secrets([SECRET]))
    port: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    """Of the answers."""
    body: bytes = b'{"tasks_service_request_id": "t1", "task": null}'
    """Of the answers."""
    failures: list[BaseException] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.base}/api/v1/webhooks"

    @property
    def accepted(self) -> list[Call]:
        return [call for call in self.calls if 200 <= call.status < 300]

    def of(self, job_id: str) -> list[Call]:
        """The calls about this job that were accepted."""
        return [call for call in self.accepted if call.content["ai_service_request_id"] == job_id]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (call := await _read(reader)) is not None:
                self.calls.append(call)
                verify(self.secrets, call.headers, call.body, time.time())
                call.status = self.answer(call)
                if call.status == 0:
                    writer.transport.abort()
                    return
                lines = [f"HTTP/1.1 {call.status} Status", f"content-length: {len(self.body)}"]
                lines += [f"{name}: {value}" for name, value in self.headers.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + self.body)
                await writer.drain()
        except ConnectionError:
            pass
        except Exception as error:  # noqa: BLE001 - told when it closes
            self.failures.append(error)
        finally:
            writer.close()


@asynccontextmanager
async def receiving(port: int = 0) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await receiver.serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert not receiver.failures, receiver.failures


async def _read(reader: asyncio.StreamReader) -> Call | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.strip().split(b"\r\n")
    pairs = [line.partition(b":") for line in lines]
    headers = [(name.lower(), value.strip()) for name, _, value in pairs]
    length = next((int(value) for name, value in headers if name == b"content-length"), 0)
    return Call(first.split(b" ")[1].decode(), headers, await reader.readexactly(length))
