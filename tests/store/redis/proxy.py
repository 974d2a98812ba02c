"""A network in front of a server, for what a real one cannot be made to do at a chosen byte.

It answers an error instead of passing a command on, cuts a connection after so many bytes of its replies or requests,
stands still without closing, and delivers late what its client has long given up on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from types import TracebackType
from typing import Any, Self

import hiredis

from tests.store.redis.accepted import accept_no_more

_ERROR = "return redis.error_reply(ARGV[1])"
_TEXT = "return ARGV[1]"


class Proxy:
    """Listens on a free port of its own: `async with Proxy(server.port) as proxy: proxy.url`."""

    def __init__(self, server_port: int) -> None:
        self.connections = 0
        """How many there were."""
        self.commands: list[str] = []
        """The names of all commands that came by."""
        self.undelivered = b""
        """Replies whose client was gone."""
        self.passed = {"request": 0, "reply": 0}
        """How many bytes went each way."""
        self.freezes_at = ""
        """The command from which on no reply passes."""
        self._server_port = server_port
        self._instead: dict[str, deque[tuple[str, str]]] = {}
        self._cuts: dict[str, deque[int]] = {"request": deque(), "reply": deque()}
        self._flows = {"request": asyncio.Event(), "reply": asyncio.Event()}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.thaw()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def answer(self, command: str, *errors: str) -> None:
        """The next commands of that name are not passed on, and are answered with these errors, in turn."""
        self._instead.setdefault(command, deque()).extend((_ERROR, error) for error in errors)

    def answer_text(self, command: str, text: str) -> None:
        """The next command of that name is not passed on, and is answered with this text."""
        self._instead.setdefault(command, deque()).append((_TEXT, text))

    def cut(self, *after: int, way: str = "reply") -> None:
        """Cut the connection that carries the byte after so many from now on; then after so many more, and so on."""
        self._cuts[way].extend(after)

    def lead_to(self, server_port: int) -> None:
        """From here on to another server: all connections end."""
        self._server_port = server_port
        for writer in self._writers:
            writer.transport.abort()

    @property
    def is_cut(self) -> bool:
        """Whether all cuts have been made."""
        return not any(self._cuts.values())

    def freeze(self, *ways: str) -> None:
        """Forward nothing, close nothing."""
        for way in ways or self._flows:
            self._flows[way].clear()

    def thaw(self) -> None:
        for flows in self._flows.values():
            flows.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await accept_no_more(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        """No coroutine: it would never begin if it were cancelled now, and leave the connection open."""
        self.connections += 1
        self._writers.add(client_out)
        task = asyncio.create_task(self._serve(client_in, client_out))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            server_in, server_out = await asyncio.open_connection("127.0.0.1", self._server_port)
            self._writers.add(server_out)
            with contextlib.suppress(OSError):
                await asyncio.gather(
                    self._pass_requests(client_in, client_out, server_out),
                    self._pass_replies(server_in, client_in, client_out),
                )
            server_out.transport.abort()
            self._writers.discard(server_out)
        client_out.transport.abort()
        self._writers.discard(client_out)

    async def _pass_requests(
        self, client: asyncio.StreamReader, client_out: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        commands = hiredis.Reader(notEnoughData=None)
        with contextlib.suppress(ConnectionError):  # the client hung up; what it sent before is on its way all the same
            while data := await client.read(65536):
                await self._flows["request"].wait()
                commands.feed(data)
                packed = b""
                while command := commands.gets():
                    packed += hiredis.pack_command(self._replaced(command))
                passes, is_cut = self._until_the_cut("request", packed)
                server.write(passes)
                if is_cut:
                    client_out.transport.abort()
                    break
        if server.can_write_eof():
            server.write_eof()

    def _replaced(self, command: list[bytes]) -> tuple[Any, ...]:
        name = command[0].decode()
        self.commands.append(name)
        if name == self.freezes_at:
            self.freeze("reply")
        waiting = self._instead.get(name)
        if not waiting:
            return tuple(command)
        script, answer = waiting.popleft()
        return "EVAL", script, 0, answer

    async def _pass_replies(
        self, server: asyncio.StreamReader, client_in: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        while data := await server.read(65536):
            await self._flows["reply"].wait()
            if client.is_closing() or client_in.at_eof():
                self.undelivered += data
                continue
            passes, is_cut = self._until_the_cut("reply", data)
            client.write(passes)
            if is_cut:
                await client.drain()
                break
        client.close()

    def _until_the_cut(self, way: str, data: bytes) -> tuple[bytes, bool]:
        cuts = self._cuts[way]
        is_cut = bool(cuts) and cuts[0] <= len(data)
        if is_cut:
            data = data[: cuts.popleft()]
        elif cuts:
            cuts[0] -= len(data)
        self.passed[way] += len(data)
        return data, is_cut
