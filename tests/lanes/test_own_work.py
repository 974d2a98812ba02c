"""A process works one lane by itself: what stands first there, and nothing of other lanes. On both stores."""

from __future__ import annotations

import asyncio
from typing import Any

from inturn import InTurn, Turn
from inturn.lanes.own_work import OwnWork
from tests.lanes.workbench import Gate
from tests.waiting import until


def noting(app: InTurn, name: str = "h") -> list[str]:
    seen: list[str] = []

    @app.handler(name)
    async def h(turn: Turn[Any]) -> None:
        seen.append(f"{turn.key}: {turn.body}")

    return seen


async def test_it_runs_the_lane_until_it_is_empty_and_no_other(app: InTurn) -> None:
    seen, work = noting(app), OwnWork(app.runtime)
    for key, text in (("k", "a"), ("other", "x"), ("k", "b")):
        await app.submit("h", text, key=key)
    await work.start("k", lambda: False)
    assert seen == ["k: a", "k: b"]
    assert work.running("k") is None
    assert [lane.key for lane in await app.lanes.list()] == ["other"]


async def test_it_takes_only_turns_of_the_handlers_that_it_is_told(app: InTurn) -> None:
    seen, others, work = noting(app), noting(app, "note"), OwnWork(app.runtime)
    await app.submit("h", "a", key="k")
    await work.start("k", can=["note"])
    assert seen == []
    for text in ("n1", "n2"):
        await app.submit("note", text, key="k", priority=1)
    await work.start("k", can=["note"])
    assert (seen, others) == ([], ["k: n1", "k: n2"])


async def test_it_goes_on_without_whoever_started_it_and_outside_of_its_turn(app: InTurn) -> None:
    gate, work = Gate(), OwnWork(app.runtime)

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> str:
        await gate.pass_through()
        async with app.turn("outer"):  # not the turn of whoever started the work
            return "done"

    receipt = await app.submit("h", None)

    async def start() -> None:
        async with app.turn("outer"):
            work.start("k", lambda: False)
            await asyncio.Event().wait()

    starting = asyncio.create_task(start())

    async def is_running() -> bool:
        return (await app.lanes.inspect("k")).status == "running"

    await until(is_running)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    gate.opened.set()
    assert await receipt.result(20) == "done"


async def test_it_ends_with_the_app_and_its_message_waits_for_the_next(app: InTurn, other: InTurn) -> None:
    begun = asyncio.Event()

    @app.handler("h", key="k")
    async def hangs(turn: Turn[Any]) -> None:
        begun.set()
        await asyncio.Event().wait()

    seen, work = noting(other), OwnWork(app.runtime)
    await app.submit("h", "a")
    working = work.start("k", lambda: True)
    await begun.wait()
    await app.close()
    await asyncio.wait([working], timeout=20)
    assert working.done()
    await OwnWork(other.runtime).start("k", lambda: False)
    assert seen == ["k: a"]


async def test_each_loop_works_for_itself(app: InTurn) -> None:
    gate, work = Gate(), OwnWork(app.runtime)

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        await gate.pass_through()

    await app.submit("h", None)
    working = work.start("k", lambda: False)

    async def looks() -> asyncio.Task[None] | None:
        return work.running("k")

    assert await looks() is working
    assert await asyncio.to_thread(asyncio.run, looks()) is None
    gate.opened.set()
    await working
