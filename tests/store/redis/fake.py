"""A server of canned answers, for what no Redis says."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import hiredis

from tests.store.redis.accepted import accept_no_more

GREETING = {
    b"HELLO": b"%0\r\n",
    b"TIME": b"*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n",
    b"SSUBSCRIBE": b">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n",
}


class FakeServer:
    """Says `greeting` to who comes, `answers` to commands, and hangs up after the one that is named."""

    def __init__(
        self, answers: dict[bytes, bytes], *, greeting: bytes = b"", hangs_up_after: bytes | None = None
    ) -> None:
        self.first_commands: list[bytes] = []
        """The first command of each connection."""
        self._answers = answers
        self._greeting = greeting
        self._hangs_up_after = hangs_up_after
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await accept_no_more(self._server)
        for task, writer in self._serving.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """No coroutine: it would never begin if it were cancelled now, and leave the connection open."""
        self._serving[asyncio.create_task(self._serve(reader, writer))] = writer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = hiredis.Reader(notEnoughData=None)
        writer.write(self._greeting)
        is_first = True
        try:
            while data := await reader.read(65536):
                commands.feed(data)
                while command := commands.gets():
                    if is_first:
                        self.first_commands.append(command[0])
                        is_first = False
                    writer.write(self._answers.get(command[0], b"-ERR not this one\r\n"))
                    if command[0] == self._hangs_up_after:
                        return
        except ConnectionError:
            return
        finally:
            writer.close()
