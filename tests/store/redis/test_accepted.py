"""A server of a test that ends while somebody connects to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

import pytest

from tests.store.redis.fake import FakeServer


@pytest.mark.parametrize("ticks", range(6))
async def test_a_connection_that_comes_as_the_server_ends_is_closed(ticks: int) -> None:
    """Wherever it is on its way from the kernel to the server's callback."""
    async with FakeServer({}) as server:
        client = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=20)
        for _ in range(ticks):
            await asyncio.sleep(0)
    with client, contextlib.suppress(ConnectionResetError):  # if nobody had taken it from the kernel yet
        assert await asyncio.to_thread(client.recv, 1) == b""
