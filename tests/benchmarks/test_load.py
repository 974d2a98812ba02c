"""Work that is posted and done later: only what was accepted and done counts, from when it was due."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from benchmarks import load
from benchmarks.load import Caller, Done, Side, read_body
from inturn.errors import InTurnError
from tests.waiting import until

pytestmark = pytest.mark.alone


def answer(name: str) -> bytes:
    body = json.dumps({"id": name})
    return f"HTTP/1.1 202 Accepted\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def test_time_that_work_had_to_wait_for_a_caller_is_part_of_its_latency() -> None:
    done = Done("were not done")
    names = iter(("first", "second"))

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for name in names:
            await read_body(reader)
            await asyncio.sleep(0.1)  # a server that takes so long to accept
            done.add(name, time.time())
            writer.write(answer(name))
        writer.close()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        side = Side([Caller(server.sockets[0].getsockname()[1], "/", {}, "id")], done)
        first, second = await side.latencies_ms(2, 1000.0)
        side.close()
    assert first >= 99
    assert second >= 198


async def test_work_that_is_not_done_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MEASURED_S", 0.2)
    done = Done("jobs were not called back")
    done.add("one", time.time())
    with pytest.raises(InTurnError, match="1 of 2 jobs were not called back"):
        await done.all_of(["one", "two"])


async def test_a_connection_that_the_server_has_closed_is_opened_anew() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader)
        writer.write(answer("one"))
        writer.close()

    async with await asyncio.start_server(once, "127.0.0.1", 0) as server:
        caller = Caller(server.sockets[0].getsockname()[1], "/", {}, "id")
        assert await caller.post() == "one"
        assert caller._open is not None
        await until(caller._open[0].at_eof, 20, "the server has hung up")
        assert await caller.post() == "one"
        caller.close()
