"""What the guard adds to a send: a slow guard misses the bar, and a send that it refuses gives no figure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from benchmarks.bot import safe_send
from benchmarks.bot.safe_send import guard_overhead
from benchmarks.plan import Plan, Target
from inturn.bot import send_ai_response_safe
from inturn.errors import InTurnError

pytestmark = pytest.mark.alone


def quiet(what: str) -> None:
    """Nobody reads the progress."""


async def test_a_slow_guard_misses_the_bar(redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*args: Any, **options: Any) -> bool:
        await asyncio.sleep(0.003)
        return await send_ai_response_safe(*args, **options)

    monkeypatch.setattr(safe_send, "send_ai_response_safe", slow)
    figures = {each.name: each for each in await guard_overhead(Target(redis_url, namespace), Plan(1, 0.1, quiet))}
    assert figures["guard_overhead_ms"].is_reached is False
    assert figures["guard_overhead_ms"].reported["p99"] >= 3


async def test_a_send_that_is_refused_gives_no_figure(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_send, "count", lambda: [7] * 1000)  # the same text again and again
    with pytest.raises(InTurnError, match="no figure"):
        await guard_overhead(Target(redis_url, namespace), Plan(1, 0.1, quiet))
