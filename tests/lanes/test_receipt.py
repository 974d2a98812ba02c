"""What the submitter holds: its result from any process, while it is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn, Receipt, Stop, Turn
from inturn.errors import ResultExpired
from inturn.store.protocol import Notice
from tests.lanes.workbench import Gate, working
from tests.waiting import until


async def test_a_result_is_told_to_whoever_waits_in_any_process(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.lanes.receipt.LOOK_AGAIN_S", 30.0)
    gate = Gate()
    for each in (app, other):

        @each.handler("h", key="k", message_id="{id}")
        async def h(turn: Turn[Any]) -> dict[str, Any]:
            await gate.pass_through()
            return {"of": turn.body["id"]}

    receipts = [await each.submit("h", {"id": 1}) for each in (app, other)]
    waiting = [asyncio.create_task(receipt.result(20)) for receipt in receipts]
    async with working(app):
        await gate.reached.wait()
        gate.opened.set()
        assert await asyncio.gather(*waiting) == [{"of": 1}, {"of": 1}]
    assert not app.runtime.results._woken
    assert not other.runtime.results._woken


async def test_a_result_can_be_asked_for_again_and_after_a_timeout(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> list[int]:
        return [1]

    receipt = await app.submit("h", 1)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await receipt.result(0.01)
    async with working(app):
        assert [await receipt.result(20) for _ in range(3)] == [[1]] * 3


async def test_many_wait_for_many(app: InTurn) -> None:
    @app.handler("h", key="k:{n}")
    async def h(turn: Turn[Any]) -> int:
        return int(turn.body["n"])

    receipts = [await app.submit("h", {"n": n}) for n in range(100)]
    waiting = [asyncio.create_task(receipt.result(20)) for receipt in receipts]
    async with working(app):
        assert await asyncio.gather(*waiting) == list(range(100))


async def test_a_message_that_was_removed_has_no_result(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k", on_failure="skip")
    async def h(turn: Turn[Any]) -> None:
        raise Stop("no")

    cleared = await app.submit("h", 1)
    waiting = asyncio.create_task(cleared.result(20))

    async def is_awaited() -> bool:
        return bool(app.runtime.results._woken)

    await until(is_awaited)
    await other.lanes.clear("k")
    with pytest.raises(ResultExpired):
        await waiting
    async with working(app):
        dead = await app.submit("h", 2)

        async def is_dead() -> bool:
            return bool(await other.dead_letters.list())

        await until(is_dead)
    assert await other.dead_letters.drop("k", "h", dead.id)
    with pytest.raises(ResultExpired, match="raise dedup_window to keep it"):
        await dead.result(1)


async def test_a_duplicate_replays_even_an_empty_result(app: InTurn) -> None:
    @app.handler("h", key="k", message_id="{id}")
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app):
        assert await (await app.submit("h", {"id": 1})).result(20) is None
        again = await app.submit("h", {"id": 1})
        assert again.is_duplicate
        assert await again.result(20) is None


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1"])
async def test_a_bad_timeout_is_named(app: InTurn, timeout: Any) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    receipt = await app.submit("h", 1)
    with pytest.raises((ValueError, TypeError), match="timeout="):
        await receipt.result(timeout)


def test_receipts_compare_and_show_by_what_they_say() -> None:
    one, two = (Receipt("accepted", "k", "h", "1", 0) for _ in range(2))
    assert one == two
    assert repr(one) == "Receipt(status='accepted', key='k', handler='h', id='1', ahead=0)"


async def test_a_result_whose_notice_was_lost_is_found_by_looking_again(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.lanes.receipt.LOOK_AGAIN_S", 0.05)
    gate = Gate()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> int:
        await gate.pass_through()
        return 1

    def hears_nothing(notice: Notice) -> None: ...

    app.process.registry.listeners["settled"] = hears_nothing
    async with working(app):
        waiting = asyncio.create_task((await app.submit("h", 1)).result(20))
        await gate.reached.wait()
        gate.opened.set()
        assert await waiting == 1


async def test_waiting_for_a_result_keeps_the_process_beating_and_then_it_is_not(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    receipt = await app.submit("h", 1)
    waiting = asyncio.create_task(receipt.result(20))
    registry = app.process.registry

    async def is_busy() -> bool:
        return not registry.is_empty()

    await until(is_busy)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert registry.is_empty()
