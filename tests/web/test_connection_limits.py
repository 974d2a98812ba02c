"""Requests as bytes: a head that is too long, or never whole, is not kept waiting for."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from inturn.http.asgi import Receive, Scope, Send
from inturn.web.connection_limits import MAX_HEAD, MAX_WAITING, PIECE, Bounded, Limits
from tests.waiting import until

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Hasty(Bounded):
    limits = Limits(head_s=0.1)


class Answering:
    """Reads the body, and answers with its length."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size, has_more = 0, True
        while has_more:
            event = await receive()
            if event["type"] == "http.disconnect":
                self.seen.append("disconnect")
                return
            size, has_more = size + len(event["body"]), event["more_body"]
        self.seen.append(scope["path"])
        body = str(size).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(app: Any, protocol: type[Bounded] = Bounded, ws: Any = "none") -> AsyncIterator[Connect]:
    config = uvicorn.Config(
        app, http=protocol, ws=ws, lifespan="off", log_config=None, log_level="critical",
        timeout_keep_alive=600,  # a test that stands still between two requests keeps its connection
    )  # fmt: skip
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server._serve([listening]))
        writers = []

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writers.append(writer)
            return reader, writer

        try:
            yield connect
        finally:
            for writer in writers:
                writer.close()
            server.should_exit = True
            await running


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    return int(head.split()[1]), await reader.readexactly(int(length.split()[1]))


def head(*lines: bytes, method: bytes = b"GET", path: bytes = b"/") -> bytes:
    return b"\r\n".join([method + b" " + path + b" HTTP/1.1", b"host: localhost", *lines, b"", b""])


@pytest.mark.parametrize(
    "sent",
    [
        head(b"x-long: " + b"a" * MAX_HEAD),
        head(*(b"x-%d: " % number + b"a" * 1000 for number in range(70))),
        head(path=b"/?" + b"a" * MAX_HEAD),
        head(b"x-long: " + b"a" * (MAX_HEAD + 100))[:-4],
    ],
    ids=["one header", "many headers", "the address", "not whole"],
)
async def test_a_head_that_is_too_long_is_refused(sent: bytes) -> None:
    app = Answering()
    async with serving(app) as connect:
        reader, writer = await connect()
        writer.write(sent)
        status, body = await answer(reader)
        assert (status, json.loads(body)["code"]) == (431, "headers-too-large")
        assert await reader.read() == b""
    assert app.seen == []


async def test_a_head_without_end_is_not_read() -> None:
    async with serving(Answering()) as connect:
        _, writer = await connect()
        writer.write(head()[:-2])
        with pytest.raises(OSError, match=r"reset|pipe|lost"):
            async with asyncio.timeout(30):
                for number in range(10_000):
                    writer.write(b"x-%d: " % number + b"a" * 100_000 + b"\r\n")
                    await writer.drain()


async def test_trailers_without_end_are_not_read() -> None:
    app = Answering()
    async with serving(app) as connect:
        _, writer = await connect()
        writer.write(head(b"transfer-encoding: chunked", method=b"POST") + b"1\r\na\r\n0\r\n")
        with pytest.raises(OSError, match=r"reset|pipe|lost"):
            async with asyncio.timeout(30):
                for number in range(10_000):
                    writer.write(b"x-%d: " % number + b"a" * 100_000 + b"\r\n")
                    await writer.drain()
    assert app.seen == ["disconnect"]


async def test_long_bodies_small_chunks_and_one_request_after_the_other_are_taken() -> None:
    app = Answering()
    async with serving(app) as connect:
        reader, writer = await connect()
        writer.write(head(b"content-length: 300000", method=b"POST", path=b"/long") + b"a" * 300_000)
        assert await answer(reader) == (200, b"300000")
        chunked = head(b"transfer-encoding: chunked", method=b"POST", path=b"/chunked")
        writer.write(chunked + b"1;x=y\r\na\r\n" * 20_000 + b"0\r\nx-trailer: 1\r\n\r\n")
        assert await answer(reader) == (200, b"20000")
        for _ in range(3):  # together more than one may have
            writer.write(head(b"x-long: " + b"a" * (MAX_HEAD // 2)))
            assert await answer(reader) == (200, b"0")
        writer.write(head(b"x-long: " + b"a" * (MAX_HEAD - 100)))
        assert (await answer(reader))[0] == 200
    assert app.seen == ["/long", "/chunked", "/", "/", "/", "/"]


@pytest.mark.parametrize("sent", [b"", b"GET", head()[:-2]], ids=["nothing", "a word", "all but the end"])
async def test_a_head_that_is_never_whole_is_not_waited_for(sent: bytes) -> None:
    async with serving(Answering(), Hasty) as connect, asyncio.timeout(30):
        reader, writer = await connect()
        writer.write(sent)
        assert await reader.read() == b""


async def test_an_answer_may_take_longer_than_a_head() -> None:
    made: list[Bounded] = []

    class Known(Bounded):
        limits = Limits(head_s=3600, body_s=3600, write_s=3600)  # the test looks, and moves the time

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made.append(self)

    def look_after_the_time() -> None:
        (protocol,) = made
        protocol._waits_since -= Known.limits.head_s
        protocol._looking.cancel()
        protocol._look()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        look_after_the_time()
        await Answering()(scope, receive, send)

    async with serving(slow, Known) as connect:
        reader, writer = await connect()
        for _ in range(2):
            writer.write(head())
            assert await answer(reader) == (200, b"0")
        look_after_the_time()
        assert made[0].transport.is_closing(), "the time for the next head is over"


CHUNKED = head(b"transfer-encoding: chunked", method=b"POST")


@pytest.mark.parametrize(
    "sent",
    [b"hello?\r\n\r\n", head(b"content-length: -1"), CHUNKED + b"zz\r\n", CHUNKED + b"1\r\na\r\n" + b"zz\r\n"],
    ids=["no head", "a length", "a chunk", "a later chunk"],
)
async def test_what_is_no_http_is_refused_with_a_problem(sent: bytes) -> None:
    app = Answering()
    async with serving(app) as connect:
        reader, writer = await connect()
        writer.write(head())
        assert (await answer(reader))[0] == 200
        writer.write(sent)
        status, body = await answer(reader)
        assert (status, json.loads(body)["code"]) == (400, "bad-request")
        assert await reader.read() == b""
    assert "/" in app.seen


async def test_what_is_no_http_is_not_taken_for_the_answer_to_the_request_before_it() -> None:
    """That one runs, and may be saved: `nothing was done` would be a lie."""
    begun, done = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await done.wait()

    async with serving(slow) as connect:
        reader, writer = await connect()
        writer.write(head())
        await begun.wait()
        writer.write(b"hello?\r\n\r\n")
        async with asyncio.timeout(30):
            assert await reader.read() == b""
        done.set()


async def test_a_request_is_told_that_its_client_is_gone_if_another_waits_behind_it() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def listening(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.set()

    async with serving(listening) as connect, asyncio.timeout(30):
        _, writer = await connect()
        writer.write(head() * 2)
        await begun.wait()
        writer.transport.abort()
        await ended.wait()


async def test_a_stream_that_its_client_does_not_read_ends() -> None:
    class Impatient(Bounded):
        limits = Limits(write_s=0.2)

    ended = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await asyncio.sleep(0)
        finally:
            ended.set()

    async def leaving(scope: Scope, receive: Receive, send: Send) -> None:
        """As a stream of events does: it ends when its client is gone."""
        streaming = asyncio.create_task(endless(scope, receive, send))
        while (await receive())["type"] != "http.disconnect":
            pass
        streaming.cancel()

    async with serving(leaving, Impatient) as connect, asyncio.timeout(30):
        reader, writer = await connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(head())
        await ended.wait()


async def test_a_client_that_takes_an_answer_slowly_gets_all_of_it_and_one_that_stops_does_not() -> None:
    made: list[Bounded] = []

    class Known(Bounded):
        limits = Limits(head_s=3600, body_s=3600, write_s=3600)  # the test looks, and moves the time

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made.append(self)

    def look_after_the_time() -> None:
        (protocol,) = made
        assert protocol._stuck_since is not None
        protocol._stuck_since -= Known.limits.write_s
        protocol._looking.cancel()
        protocol._look()

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 60_000_000})

    async with serving(large, Known) as connect, asyncio.timeout(60):
        reader, writer = await connect()
        writer.write(head())
        await reader.readuntil(b"\r\n\r\n")
        transport = made[0].transport
        for _ in range(3):
            size = transport.get_write_buffer_size()
            while transport.get_write_buffer_size() > size - PIECE:
                await reader.read(1 << 20)
            look_after_the_time()
            assert not transport.is_closing()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        while not transport.is_closing():
            size = transport.get_write_buffer_size()
            assert size > 0
            await asyncio.sleep(0.05)  # until what is between the two is full
            if transport.get_write_buffer_size() == size:
                look_after_the_time()


async def test_a_client_that_takes_less_than_a_piece_in_the_time_for_it_is_cut_off() -> None:
    """However often it takes a little: a large answer would keep the connection for hours."""

    class Buffer:
        size = 10 * PIECE
        is_aborted = False

        def get_write_buffer_size(self) -> int:
            return self.size

        def get_extra_info(self, name: str) -> None: ...

        def is_closing(self) -> bool:
            return False

        def abort(self) -> None:
            self.is_aborted = True

    protocol = Bounded(uvicorn.Config(Answering(), log_config=None), ServerState(), {})
    buffer = Buffer()
    protocol.connection_made(buffer)  # type: ignore[arg-type]
    protocol.pause_writing()

    def is_cut_off(taken: int, after_s: float) -> bool:
        assert protocol._stuck_since is not None
        buffer.size -= taken
        protocol._stuck_since -= after_s
        protocol._looking.cancel()
        protocol._look()
        return buffer.is_aborted

    third = protocol.limits.write_s / 3 + 0.01
    assert not any(is_cut_off(PIECE // 2, third) for _ in range(6)), "it takes a piece within the time"
    assert [is_cut_off(PIECE // 4, third) for _ in range(3)] == [False, False, True]
    protocol._looking.cancel()


async def test_requests_sent_ahead_are_answered_up_to_a_bound_and_then_the_connection_ends() -> None:
    app, has_all = Answering(), asyncio.Event()

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        await has_all.wait()
        await app(scope, receive, send)

    made: list[Bounded] = []

    class Known(Bounded):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made.append(self)

    async with serving(waiting, Known) as connect, asyncio.timeout(30):
        reader, writer = await connect()
        in_time = b"".join(head(path=b"/%d" % number) for number in range(1 + MAX_WAITING))
        late = head(b"content-length: 5", method=b"POST", path=b"/late") + b"12345"
        writer.write(in_time + late * 1000 + b"no HTTP\r\n\r\n")
        await until(lambda: made and made[0]._is_full)
        assert len(made[0].pipeline) == MAX_WAITING
        writer.write(late)
        has_all.set()
        told = await reader.read()
    assert app.seen == [f"/{number}" for number in range(1 + MAX_WAITING)]
    assert told.count(b"HTTP/1.1 200") == MAX_WAITING + 1
    assert told.count(b"connection: close") == 1
    assert told.rpartition(b"HTTP/1.1 200")[2].endswith(b"connection: close\r\n\r\n0")


UPGRADE = head(
    b"connection: upgrade", b"upgrade: websocket", b"sec-websocket-version: 13",
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
)  # fmt: skip


async def test_a_request_for_another_protocol_is_answered_and_is_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    app = Answering()
    async with serving(app) as connect, asyncio.timeout(30):
        reader, writer = await connect()
        writer.write(UPGRADE + head(path=b"/lost"))
        told = await reader.read()
    assert told.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in told
    assert app.seen == ["/"]
    assert not caplog.records


async def test_a_connection_that_another_protocol_has_taken_over_is_forgotten_when_it_is_closed() -> None:
    made: list[Bounded] = []

    class Known(Bounded):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made.append(self)

    async with serving(Answering(), Known, ws="auto") as connect, asyncio.timeout(30):
        reader, writer = await connect()
        writer.write(UPGRADE)
        await reader.read()
        (protocol,) = made
        await until(protocol.transport.is_closing)
        assert protocol.transport.get_protocol() is not protocol, "it was not told"
        protocol._looking.cancel()
        protocol._look()
        assert protocol._looking.cancelled(), "it looks no more"
