"""The figures of whole jobs: only call-backs that were accepted and tell of a success count."""

from __future__ import annotations

import asyncio
import json

import pytest

from benchmarks.jobs import end_to_end
from benchmarks.jobs.end_to_end import Caller, Receiver, Side, _read, _side
from inturn.errors import InTurnError
from tests.waiting import until

pytestmark = pytest.mark.alone


async def test_a_job_is_measured_from_when_it_was_due_until_its_call_back(sqlite_url: str) -> None:
    async with _side(sqlite_url, "bench", "-") as side:
        assert await side.jobs_per_s(4) > 0
        took = await side.latencies_ms(4, 200.0)
    assert len(took) == 4
    assert all(value > 0 for value in took)


async def test_time_that_a_job_had_to_wait_for_a_caller_is_part_of_its_latency() -> None:
    receiver = Receiver()
    names = iter(("first", "second"))

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for name in names:
            await _read(reader)
            await asyncio.sleep(0.1)  # a server that takes so long to accept a job
            receiver.took(name, "success")
            body = json.dumps({"ai_service_request_id": name})
            writer.write(f"HTTP/1.1 202 Accepted\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        only = Caller(server.sockets[0].getsockname()[1], "http://127.0.0.1/")
        first, second = await Side([only], receiver).latencies_ms(2, 1000.0)
        only.close()
    assert first >= 99
    assert second >= 198


async def test_a_failure_that_is_called_back_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_to_end, "MEASURED_S", 0.2)
    receiver = Receiver()
    receiver.took("one", "success")
    receiver.took("two", "failure")
    with pytest.raises(InTurnError, match="1 of 2 jobs"):
        await receiver.all_of(["one", "two"])


async def test_a_job_that_is_refused_gives_no_figure(sqlite_url: str) -> None:
    async with _side(sqlite_url, "bench", "-") as side:
        side._callers[0]._body = json.dumps({"natural_language": "Pay the rent"}).encode()
        with pytest.raises(InTurnError, match="not accepted"):
            await side.jobs_per_s(1)


async def test_a_connection_that_the_server_has_closed_is_opened_anew() -> None:
    body = json.dumps({"ai_service_request_id": "one"})
    answer = f"HTTP/1.1 202 Accepted\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read(reader)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(once, "127.0.0.1", 0) as server:
        caller = Caller(server.sockets[0].getsockname()[1], "http://127.0.0.1/")
        assert await caller.post() == "one"
        assert caller._open is not None
        await until(caller._open[0].at_eof, 20, "the server has hung up")
        assert await caller.post() == "one"
        caller.close()
