"""What the submitter holds: its result from any process, while it is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn, Receipt, ResultExpired, Stop, Turn
from inturn.lanes import results
from tests.lanes.conftest import Gate, until, working


async def test_a_result_is_told_to_whoever_waits_in_any_process(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "LOOK_AGAIN_S", 30.0)
    gate = Gate()
    for each in (app, other):

        @each.handler("h", key="k", message_id="{id}")
        async def h(turn: Turn[Any]) -> dict[str, Any]:
            await gate.pass_through()
            return {"of": turn.body["id"]}

    receipts = [await each.submit("h", {"id": 1}) for each in (app, other)]
    waiting = [asyncio.create_task(receipt.result(5)) for receipt in receipts]
    async with working(app):
        await gate.reached.wait()
        gate.opened.set()
        assert await asyncio.gather(*waiting) == [{"of": 1}, {"of": 1}]
    assert not app.runtime.results._waits
    assert not other.runtime.results._waits


async def test_a_result_can_be_asked_for_again_and_after_a_timeout(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> list[int]:
        return [1]

    receipt = await app.submit("h", 1)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await receipt.result(0.01)
    async with working(app):
        assert [await receipt.result(5) for _ in range(3)] == [[1]] * 3


async def test_many_wait_for_many(app: InTurn) -> None:
    @app.handler("h", key="k:{n}")
    async def h(turn: Turn[Any]) -> int:
        return int(turn.body["n"])

    receipts = [await app.submit("h", {"n": n}) for n in range(100)]
    waiting = [asyncio.create_task(receipt.result(10)) for receipt in receipts]
    async with working(app):
        assert await asyncio.gather(*waiting) == list(range(100))


async def test_a_message_that_was_removed_has_no_result(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k", on_failure="skip")
    async def h(turn: Turn[Any]) -> None:
        raise Stop("no")

    cleared = await app.submit("h", 1)
    waiting = asyncio.create_task(cleared.result(5))

    async def is_awaited() -> bool:
        return bool(app.runtime.results._waits)

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
    with pytest.raises(ResultExpired, match="a longer dedup_window keeps it"):
        await dead.result(1)


async def test_a_duplicate_replays_even_an_empty_result(app: InTurn) -> None:
    @app.handler("h", key="k", message_id="{id}")
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app):
        assert await (await app.submit("h", {"id": 1})).result(5) is None
        again = await app.submit("h", {"id": 1})
        assert again.is_duplicate
        assert await again.result(5) is None


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
