"""A failed test of lanes shows what the lanes said; a plain key for those that share one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from inturn.lanes import worker
from inturn.process import heartbeat
from tests.lanes.plain_key import Plain, plain_key


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "inturn.lanes")


@pytest.fixture
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker looks for work, and no process beats, without a reason.

    What happens within seconds all the same happens because someone was told, or had an alarm set: no test of that
    needs a bound that a busy machine could break.
    """
    monkeypatch.setattr(worker, "LOOK_S", 60.0)
    monkeypatch.setattr(heartbeat, "BEAT_S", 60.0)


@pytest.fixture
async def plain(redis_url: str, namespace: str) -> AsyncIterator[Plain]:
    async with plain_key(redis_url, f"ai:lock:visitor:{namespace}") as plain:
        yield plain
