"""The end of a turn that shares a plain key: robbed, interrupted or cleared, it never works beside another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import Interrupted, InTurn, LeaseLost, Turn
from tests.lanes.plain_key import TTL_S, Plain, add, body, on_redis, until_free
from tests.lanes.workbench import Gate, counted, working
from tests.waiting import until

pytestmark = on_redis


async def test_if_it_is_stolen_our_turn_is_lost_and_cannot_commit(app: InTurn, plain: Plain) -> None:
    """Whoever deleted it did not follow the protocol; but two who work at once is what the key is there to prevent."""
    gate = Gate()
    lost = counted("inturn_turns_total", outcome="lost")
    cancelled = asyncio.Event()

    @app.handler("h", key="k", shares=plain.key, state=list, ttl=TTL_S, backoff=(0, 0))
    async def h(turn: Turn[list[Any]]) -> int:
        turn.state.append(turn.attempt)
        if turn.attempt == 1:
            try:
                await gate.pass_through()
            except asyncio.CancelledError:
                cancelled.set()
                raise
        return turn.attempt

    async with working(app):
        receipt = await app.submit("h", 1)
        await gate.reached.wait()
        thief = await plain.steal()
        await asyncio.wait_for(cancelled.wait(), 20)
        assert await plain.holder() == thief, "ours is compared before it is deleted"
        info = await app.lanes.inspect("k")
        assert (info.status, info.state) == ("waiting", None)
        assert await plain.drop(thief)
        assert await receipt.result(20) == 2
    assert (await app.lanes.inspect("k")).state == [2]
    assert counted("inturn_turns_total", outcome="lost") == lost + 1


async def test_a_commit_after_it_was_stolen_is_refused_also_before_the_next_beat(app: InTurn, plain: Plain) -> None:
    gate = Gate()

    @app.handler("h", key="k", shares=plain.key, state=list, ttl=10, backoff=(0, 0))
    async def h(turn: Turn[list[Any]]) -> int:
        turn.state.append(turn.attempt)
        if turn.attempt == 1:
            await gate.pass_through()
        return turn.attempt

    async with working(app):
        receipt = await app.submit("h", 1)
        await gate.reached.wait()
        thief = await plain.steal()
        gate.opened.set()

        async def is_settled() -> bool:
            return (await app.lanes.inspect("k")).status != "running"

        await until(is_settled)
        info = await app.lanes.inspect("k")
        assert info.state is None, "it was committed while another held the key"
        assert await plain.holder() == thief
        await plain.drop(thief)
        assert await receipt.result(20) == 2


async def test_an_inline_turn_that_was_robbed_raises(app: InTurn, plain: Plain) -> None:
    with pytest.raises(LeaseLost, match="plain key"):
        async with app.turn("k", shares=plain.key, state=list, ttl=TTL_S) as turn:
            turn.state.append("never")
            await plain.steal()
            await asyncio.sleep(30)
    assert (await app.lanes.inspect("k")).state is None


async def test_an_interrupted_turn_gives_it_to_the_next_one_and_to_nobody_between(app: InTurn, plain: Plain) -> None:
    gate = Gate()
    seen: list[int] = []

    @app.handler("h", key="k", shares=plain.key, busy="interrupt")
    async def h(turn: Turn[Any]) -> int:
        assert await plain.take() is None
        seen.append(len(turn.messages))
        if len(turn.messages) == 1:
            try:
                await gate.pass_through()
            except asyncio.CancelledError:
                assert await plain.take() is None, "it has not ended yet"
                raise
        return len(turn.messages)

    async with working(app):
        first = await app.submit("h", 1)
        await gate.reached.wait()
        second = await app.submit("h", 2)
        assert (await first.result(20), await second.result(20)) == (2, 2)
    assert seen == [1, 2]
    await until_free(plain)


async def test_an_interrupted_inline_turn_gives_it_back(app: InTurn, other: InTurn, plain: Plain) -> None:
    @other.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> None: ...

    with pytest.raises(Interrupted):
        async with app.turn("k", shares=plain.key, interruptible=True):
            await other.submit("h", 1)
            await asyncio.sleep(30)
    await until_free(plain)


async def test_turns_of_two_lanes_with_one_plain_key_exclude_each_other(app: InTurn, plain: Plain) -> None:
    running = most = 0

    @app.handler("h", key="{lane}", shares=lambda body: plain.key)
    async def h(turn: Turn[Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1

    async with working(app):
        receipts = [await app.submit("h", {"lane": f"lane{n}"}) for n in range(4)]
        for receipt in receipts:
            await receipt.result(20)
    assert most == 1


async def test_clearing_the_lane_gives_it_back(app: InTurn, other: InTurn, plain: Plain) -> None:
    gate = Gate()
    add(app, plain, gate)
    async with working(app):
        receipt = await app.submit("h", body(plain))
        await gate.reached.wait()
        await other.lanes.clear(receipt.key)
        await until_free(plain, TTL_S / 2)
