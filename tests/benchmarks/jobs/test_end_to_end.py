"""The figures of whole jobs: only call-backs that were accepted and tell of a success count."""

from __future__ import annotations

import json

import pytest

from benchmarks import load
from benchmarks.jobs.end_to_end import Receiver, _side
from inturn.errors import InTurnError

pytestmark = pytest.mark.alone


async def test_a_job_is_measured_from_when_it_was_due_until_its_call_back(sqlite_url: str) -> None:
    async with _side(sqlite_url, "bench", "-") as side:
        assert await side.per_s(4) > 0
        took = await side.latencies_ms(4, 200.0)
    assert len(took) == 4
    assert all(value > 0 for value in took)


async def test_a_failure_that_is_called_back_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MEASURED_S", 0.2)
    receiver = Receiver()
    receiver.took("one", "success")
    receiver.took("two", "failure")
    with pytest.raises(InTurnError, match="1 of 2 jobs"):
        await receiver.all_of(["one", "two"])


async def test_a_job_that_is_refused_gives_no_figure(sqlite_url: str) -> None:
    async with _side(sqlite_url, "bench", "-") as side:
        side._callers[0]._body = json.dumps({"natural_language": "Pay the rent"}).encode()
        with pytest.raises(InTurnError, match="not accepted"):
            await side.per_s(1)
