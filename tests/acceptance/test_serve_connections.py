"""`inturn serve` and clients that send too little, too slowly or too much, or never read: none of them stays."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inturn.store import clock
from tests.acceptance.served import Served
from tests.waiting import until

KEY = "ada-key-0123456789"
LIMIT_S = 2.0
"""For a head, a body and writing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    limit = str(LIMIT_S)
    limits = {"INTURN_HEAD_TIMEOUT": limit, "INTURN_BODY_TIMEOUT": limit, "INTURN_WRITE_TIMEOUT": limit}
    started = Served(tmp_path, INTURN_API_KEYS=f"{KEY}:ada:acme", **limits)
    yield started
    started.end()


Connect = Callable[..., "Client"]


@pytest.fixture
def connect(served: Served) -> Iterator[Connect]:
    clients: list[Client] = []

    def start(**how: Any) -> Client:
        clients.append(Client(served, **how))
        return clients[-1]

    yield start
    for client in clients:
        client.socket.close()


def written(address: tuple[str, int]) -> str:
    """As in /proc/net/tcp."""
    host, port = address
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


class Client:
    """A connection on which a test sends what it likes, and goes on sending a byte now and then."""

    def __init__(self, served: Served, *, drips: bytes = b"", reads: bool = True) -> None:
        host, _, port = served.url.removeprefix("http://").partition(":")
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect((host, int(port)))
        self.host = f"{host}:{port}".encode()
        self.name = (written(self.socket.getsockname()), written(self.socket.getpeername()))
        self.drips = drips
        self.reads = reads
        self.got = b""

    def head(self, path: str, *lines: bytes, method: bytes = b"GET") -> bytes:
        return b"\r\n".join([method + b" " + path.encode() + b" HTTP/1.1", b"host: " + self.host, *lines, b"", b""])

    def post(self, *lines: bytes) -> bytes:
        return self.head("/api/v1/workflows", b"content-type: application/json", *lines, method=b"POST")

    def send(self, data: bytes) -> None:
        self.socket.settimeout(30)
        self.socket.sendall(data)

    def go_on(self) -> None:
        """Sends its next byte, and takes what it was sent, if it reads at all."""
        self.socket.settimeout(0)
        with suppress(OSError):
            self.socket.send(self.drips)
        with suppress(OSError):
            self.got += self.socket.recv(65536) if self.reads else b""

    @property
    def is_answered(self) -> bool:
        """Something has come for it, which it need not have read."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def is_left(self) -> bool:
        """The server has closed the connection, or reset it. Whoever does not read all before does not see it."""
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return bool(poll.poll(0))

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


Manner = Callable[[Client], None]


def behaving(connect: Connect, manner: Manner, **how: Any) -> Client:
    """A client that connects and behaves so, in far less than the server's limit: one that a busy machine has kept from
    it may have been left before it had sent anything, and another takes its place.
    """
    while True:
        began_at = clock.now()
        client = connect(**how)
        try:
            manner(client)
        except (OSError, AssertionError):
            if clock.now() - began_at < LIMIT_S / 2:
                raise
        if clock.now() - began_at < LIMIT_S / 2:
            return client


def kept_open(clients: list[Client]) -> int:
    """For how many of them the server has a connection open. It makes sockets of its own when it likes."""
    ours = {client.name for client in clients}
    found = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        # what is closed, but not all sent, belongs to no process any more: its inode is 0
        found += (words[2], words[1]) in ours and words[9] != "0"
    return found


AUTHORIZED = b"authorization: Bearer " + KEY.encode()
LONG = b"content-length: 100000"


def nothing(client: Client) -> None: ...


def half_a_head(client: Client) -> None:
    client.send(client.head("/healthz")[:-2])


def one_byte_too_many(client: Client) -> None:
    client.send(client.head("/healthz") + b"\r")


def a_byte_after_the_answer(client: Client) -> None:
    client.send(client.head("/healthz"))
    client.socket.settimeout(30)
    assert b"200 OK" in client.socket.recv(65536)
    client.send(b"\n")


def no_body_after_a_401(client: Client) -> None:
    client.send(client.post(LONG) + b"{")


def no_body_after_a_413(client: Client) -> None:
    client.send(client.post(AUTHORIZED, b"content-length: 9999999"))


def no_body(client: Client) -> None:
    client.send(client.post(AUTHORIZED, LONG))


def a_chunk_and_no_more(client: Client) -> None:
    client.send(client.post(AUTHORIZED, b"transfer-encoding: chunked") + b"1\r\n{\r\n")


def many_requests_and_half_of_one(client: Client) -> None:
    client.send(client.head("/healthz") * 20 + client.head("/healthz")[:-2])


MANNERS = [
    nothing, half_a_head, one_byte_too_many, a_byte_after_the_answer, no_body_after_a_401, no_body_after_a_413, no_body,
    a_chunk_and_no_more, many_requests_and_half_of_one,
]  # fmt: skip


async def until_gone(clients: list[Client]) -> None:
    """The clients go on meanwhile."""

    def are_gone() -> bool:
        for client in clients:
            client.go_on()
        return all(client.is_left for client in clients if client.reads) and not kept_open(clients)

    await until(are_gone, 60, "all connections are closed", pause_s=0.1)


async def test_a_client_that_does_not_go_on_is_left(served: Served, connect: Connect) -> None:
    clients = [behaving(connect, manner) for _ in range(8) for manner in MANNERS]
    await until_gone(clients)
    said = {manner.__name__: clients[number].got for number, manner in enumerate(MANNERS)}
    assert b" 401 " in said["no_body_after_a_401"]
    assert b" 413 " in said["no_body_after_a_413"]
    assert b" 408 " in said["no_body"]
    assert b" 408 " in said["a_chunk_and_no_more"]
    async with served.client() as honest:
        assert (await honest.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    "manner", [half_a_head, one_byte_too_many, a_byte_after_the_answer, no_body_after_a_401], ids=lambda f: f.__name__
)
async def test_a_client_that_goes_on_byte_by_byte_is_left(served: Served, connect: Connect, manner: Manner) -> None:
    drips = b"\r\n" if manner in (one_byte_too_many, a_byte_after_the_answer) else b"x"
    await until_gone([behaving(connect, manner, drips=drips) for _ in range(4)])


async def test_a_client_that_never_reads_is_left(served: Served, connect: Connect) -> None:
    def asks(client: Client, times: int) -> None:
        client.send(client.head("/openapi.json") * times)

    times = (1, 40) * 2  # what the system keeps for it, and more
    clients = [behaving(connect, partial(asks, times=each), reads=False) for each in times]
    await until(lambda: all(client.is_answered for client in clients))  # the server has had them all
    await until_gone(clients)


async def test_a_stream_of_events_that_says_nothing_stays_open(served: Served) -> None:
    async with served.client(headers={"authorization": f"Bearer {KEY}"}) as client:
        message = {"message_id": "m", "text": "hi", "project_id": "p", "conversation_id": "c"}
        sent = await client.post("/api/v1/visitors/v/messages", json=message)
        assert sent.status_code == 202, sent.text
        async with client.stream("GET", "/api/v1/conversations/c/events") as events:
            assert events.status_code == 200
            with pytest.raises(TimeoutError):  # rather than an end
                async with asyncio.timeout(3 * LIMIT_S):
                    async for _ in events.aiter_lines():
                        continue


async def test_pipelined_requests_and_a_reset_cost_no_traceback(served: Served, connect: Connect) -> None:
    for path in ("/healthz", "/readyz", "/openapi.json"):
        for _ in range(5):
            client = connect()
            client.send(client.head(path) * 30)
            client.reset()
            client = connect()
            client.send(client.head(path) * 30 + b"\x00 no HTTP \r\n\r\n")
            client.reset()
    async with served.client() as honest:
        assert (await honest.get("/readyz")).status_code == 200
    assert served.terminate() == 0
    logged = served.logged()
    assert "Traceback" not in logged
    assert "RuntimeError" not in logged
    assert len([line for line in logged.splitlines() if "WARNING" in line or "ERROR" in line]) <= 15


async def test_a_request_for_a_websocket_is_answered_as_any_other(served: Served, connect: Connect) -> None:
    def upgrade(client: Client) -> None:
        lines = (b"connection: upgrade", b"upgrade: websocket", b"sec-websocket-version: 13")
        client.send(client.head("/nothing", *lines, b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="))

    client = behaving(connect, upgrade)

    def is_left() -> bool:
        client.go_on()
        return client.is_left

    await until(is_left)
    assert client.got.startswith(b"HTTP/1.1 404 ")
    assert b"application/problem+json" in client.got
    assert "WARNING" not in served.logged()
