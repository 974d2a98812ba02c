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

from inturn.http.asgi import Receive, Scope, Send
from inturn.web.head_limit import MAX_HEAD, Bounded

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Hasty(Bounded):
    head_s = 0.1


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
async def serving(app: Any, protocol: type[Bounded] = Bounded) -> AsyncIterator[Connect]:
    config = uvicorn.Config(app, http=protocol, lifespan="off", log_config=None, log_level="critical")
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
    class Brisk(Bounded):
        head_s = 0.5  # a head that is sent at once must not be late for it, however busy the machine is

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(1.5 * Brisk.head_s)
        await Answering()(scope, receive, send)

    async with serving(slow, Brisk) as connect:
        reader, writer = await connect()
        for _ in range(2):
            writer.write(head())
            assert await answer(reader) == (200, b"0")


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
