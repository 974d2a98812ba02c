"""Closing an app while a turn of it is being asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn, StoreUnavailable, Turn
from inturn.store.lane import Begun, Opening
from tests.conftest import MakeApp
from tests.lanes.workbench import Gate, working


@pytest.mark.parametrize("is_held", [True, False], ids=["it waits", "it is granted"])
async def test_a_turn_whose_answer_comes_when_the_app_closes_does_not_wait_for_ever(
    make_app: MakeApp, other: InTurn, is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, gate = make_app(), Gate()
    await app.open()
    store = app.process.store
    begin = store.begin

    async def slow(opening: Opening) -> Begun:
        answer = await begin(opening)
        await gate.pass_through()
        return answer

    monkeypatch.setattr(store, "begin", slow)

    async def ask() -> None:
        async with app.turn("k"):
            raise AssertionError("it must not begin")

    async def scene() -> None:
        asking = asyncio.create_task(ask())
        await gate.reached.wait()
        closing = asyncio.create_task(app.close())
        await asyncio.sleep(0)
        gate.opened.set()
        with pytest.raises(StoreUnavailable, match="the app was closed"):
            async with asyncio.timeout(20):
                await asking
        await closing

    if is_held:
        async with other.turn("k"):
            await scene()
    else:
        await scene()
    async with other.turn("k", busy="reject"):
        pass


async def test_a_worker_ends_when_its_app_is_closed(make_app: MakeApp) -> None:
    app = make_app()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app) as worker:
        await (await app.submit("h", 1)).result(20)
        await app.close()
        done, _ = await asyncio.wait({worker}, timeout=10)
        assert done, "it goes on asking a store that was closed"
