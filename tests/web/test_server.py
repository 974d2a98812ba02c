"""How the process of `inturn serve` ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.store import clock
from tests.acceptance.served import Served


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Served]:
    """Its agent needs long for an answer, and has that time after the first signal."""
    served = Served(tmp_path, "--grace", "600", INTURN_OFFLINE_PACE="3")
    yield served
    served.end()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT], ids=lambda sent: sent.name)
async def test_a_second_signal_does_not_wait_for_what_runs(slow: Served, sent: signal.Signals) -> None:
    async with slow.client() as client:
        started = await client.post("/api/v1/workflows")
        path = f"{started.headers['location']}/turns/stream"
        async with client.stream("POST", path, json={"text": "I am Ada Lovelace"}) as turn:
            lines = turn.aiter_lines()
            assert await anext(lines) == "event: token"
            slow.process.send_signal(sent)
            ends_at = clock.now() + 30
            while "1 streamed turns have 600 s to finish" not in slow.logged():
                assert clock.now() < ends_at, slow.logged()
                await asyncio.sleep(0.02)
            slow.process.send_signal(sent)
            rest = [line async for line in lines]
        assert "event: problem" in rest
        assert any('"outcome-unknown"' in line for line in rest)
    assert await asyncio.to_thread(slow.process.wait, 30) == 0
