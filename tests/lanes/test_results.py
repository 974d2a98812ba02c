"""A lost push or a lost inbox only makes a result late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn, Turn
from inturn.lanes import results
from inturn.store.protocol import Notice
from tests.lanes.conftest import Gate, until, working


async def test_a_result_whose_notice_was_lost_is_found_by_looking_again(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "LOOK_AGAIN_S", 0.05)
    gate = Gate()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> int:
        await gate.pass_through()
        return 1

    def hears_nothing(notice: Notice) -> None: ...

    app.process.registry.listeners["settled"] = hears_nothing
    async with working(app):
        waiting = asyncio.create_task((await app.submit("h", 1)).result(5))
        await gate.reached.wait()
        gate.opened.set()
        assert await waiting == 1


async def test_waiting_for_a_result_keeps_the_process_beating_and_then_it_is_not(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    receipt = await app.submit("h", 1)
    waiting = asyncio.create_task(receipt.result(5))
    registry = app.process.registry

    async def is_busy() -> bool:
        return not registry.is_empty()

    await until(is_busy)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert registry.is_empty()
