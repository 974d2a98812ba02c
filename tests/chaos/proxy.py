"""A bad network in front of a server: connections are cut inside a reply, stand still for a while, or deliver late.

Bytes are forwarded as they are, in order. What was held back is still delivered after the other side has gone, as a
network may do: a server can so receive a call whose caller has long given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from types import TracebackType
from typing import Self

from tests.store.redis.accepted import accept_no_more
from tests.waiting import until

CHUNK = 65536
PROCESS = re.compile(rb"(\d+):[0-9a-f]{8}")
"""How processes name themselves in their requests: ours and the naive lock's."""


class Connection:
    """One client, one connection to the server, and what is wrong with it."""

    def __init__(self) -> None:
        self.cuts_reply = False
        self.cut_after = 0.0
        """How much of the next reply still passes, as a fraction."""
        self.held_back = b""
        """What of the requests waits to be delivered."""
        self.pid: int | None = None
        """Whose connection it is, as soon as a request has told."""
        self.answered = 0
        """How often the server has sent something."""
        self.request_flows = asyncio.Event()
        self.reply_flows = asyncio.Event()
        self.request_flows.set()
        self.reply_flows.set()
        self.writers: tuple[asyncio.StreamWriter, ...] = ()

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()

    def abort_client(self) -> None:
        """Only the client sees it; what it has sent is under way."""
        self.writers[0].transport.abort()

    async def lose_client(self) -> None:
        """Until a call is held back; then its caller loses the connection, and the call is under way."""
        await until(lambda: self.held_back)
        self.abort_client()

    async def deliver(self) -> None:
        """What was held back arrives, and the server has answered it, though nobody hears that."""
        before = self.answered
        self.request_flows.set()
        await until(lambda: self.answered > before)


class Proxy:
    """Listens on a free port of its own; `async with Proxy(port) as proxy: proxy.port`."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections: set[Connection] = set()
        self.is_open = True
        """Whether new connections get through."""
        self.cut_off: set[int] = set()
        """Processes from and to which nothing passes."""
        self.delay_s = 0.0
        """How much later than it could everything arrives."""
        self.cut_reply_to: bytes | None = None
        """The reply to a request that contains these bytes does not pass, and its connection is gone."""

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def has_cut_reply(self) -> bool:
        """Whether what `cut_reply_to` asked for has happened."""
        return self.cut_reply_to is None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await accept_no_more(self._server)
        for connection in list(self.connections):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, chance: random.Random) -> None:
        """The next reply of a connection passes in part only, and the connection is gone."""
        if self.connections:
            connection = chance.choice(sorted(self.connections, key=id))
            connection.cut_after = chance.random()
            connection.cuts_reply = True

    def cut_replies(self) -> None:
        """The next reply of every connection does not pass at all."""
        for connection in self.connections:
            connection.cut_after = 0.0
            connection.cuts_reply = True

    async def stall(self, chance: random.Random, seconds: float) -> None:
        """One direction of a connection stands still; the other goes on. Then all that was held back arrives."""
        if not self.connections:
            return
        connection = chance.choice(sorted(self.connections, key=id))
        flows = chance.choice([connection.request_flows, connection.reply_flows])
        flows.clear()
        if flows is connection.request_flows and chance.random() < 0.5:
            await asyncio.sleep(seconds / 4)
            connection.abort_client()
        await asyncio.sleep(seconds)
        flows.set()

    async def isolate(self, pid: int, seconds: float) -> None:
        """Nothing passes from or to a process, whatever connections it makes; then all that was held back arrives."""
        self.cut_off.add(pid)
        await asyncio.sleep(seconds)
        self.cut_off.discard(pid)

    def heal(self) -> None:
        self.delay_s = 0.0
        for connection in self.connections:
            connection.cuts_reply = False
            connection.request_flows.set()
            connection.reply_flows.set()

    def _accept(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        """No coroutine: it would never begin if it were cancelled now, and leave the connection open."""
        connection = Connection()
        connection.writers = (client_out,)
        task = asyncio.create_task(self._serve(connection, client_in, client_out))
        self._tasks.add(task)

        def end(task: asyncio.Task[None]) -> None:
            connection.abort()
            self._tasks.discard(task)

        task.add_done_callback(end)

    async def _serve(
        self, connection: Connection, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter
    ) -> None:
        try:
            if not self.is_open:
                return
            server_in, server_out = await asyncio.open_connection("127.0.0.1", self._server_port)
            connection.writers = (client_out, server_out)
            self.connections.add(connection)
            await asyncio.gather(
                self._pass_requests(connection, client_in, server_out),
                self._pass_replies(connection, server_in, client_out),
            )
        except (OSError, asyncio.CancelledError):
            pass  # the server is away, and the client sees what it would see without us; or the proxy ends
        finally:
            self.connections.discard(connection)

    async def _pass_requests(
        self, connection: Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                connection.held_back = data
                if connection.pid is None and (found := PROCESS.search(data)):
                    connection.pid = int(found[1])
                await self._flow(connection, connection.request_flows)
                connection.held_back = b""
                if sink.is_closing():
                    return
                if self.cut_reply_to is not None and self.cut_reply_to in data:
                    self.cut_reply_to = None
                    connection.cuts_reply = True
                sink.write(data)
        with contextlib.suppress(OSError):
            sink.write_eof()  # the server may still answer what was delivered late

    async def _flow(self, connection: Connection, flows: asyncio.Event) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        while connection.pid in self.cut_off:  # noqa: ASYNC110 - several may be cut off, for different times
            await asyncio.sleep(0.01)
        await flows.wait()

    async def _pass_replies(
        self, connection: Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                connection.answered += 1
                await self._flow(connection, connection.reply_flows)
                if sink.is_closing():
                    continue  # the client has gone, and what it had sent is still being delivered
                if connection.cuts_reply:
                    sink.write(data[: int(len(data) * connection.cut_after)])
                    await asyncio.sleep(0)
                    break
                sink.write(data)
        connection.abort()
