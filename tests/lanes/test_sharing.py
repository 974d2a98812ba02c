"""A plain key that services outside of inturn lock too: they exclude our turns, and our turns exclude them."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn
from inturn.store import clock
from tests.lanes.plain_key import SOON_S, TTL_S, Plain, add, body, on_redis, until_free
from tests.lanes.workbench import NOT_TODAY, SLACK_S, Gate, working
from tests.waiting import until, until_status

pytestmark = on_redis


async def test_while_our_turn_runs_the_other_service_cannot_take_it(app: InTurn, plain: Plain) -> None:
    gate = Gate()
    add(app, plain, gate)
    async with working(app):
        receipt = await app.submit("h", body(plain))
        await gate.reached.wait()
        held_by = await plain.holder()
        assert held_by is not None
        assert await plain.take() is None
        assert not await plain.drop("not mine")
        assert 0 < await plain.life_ms() <= TTL_S * 1000
        gate.opened.set()
        await receipt.result(20)
        assert await plain.holder() is None, "it is free in the transition that commits"
        assert await plain.take() is not None


@pytest.mark.usefixtures("nobody_looks")
@pytest.mark.parametrize("how", ["dropped", "expired"])
async def test_while_the_other_service_holds_it_our_turn_waits_and_then_begins_soon(
    app: InTurn, plain: Plain, how: str
) -> None:
    add(app, plain)
    asked_at = clock.now()
    lock_id = await plain.take(30_000 if how == "dropped" else 4000)
    assert lock_id is not None
    async with working(app):
        receipt = await app.submit("h", body(plain))
        key = receipt.key
        with pytest.raises(TimeoutError):
            await receipt.result(0.25)
        info = await app.lanes.inspect(key)
        assert (info.status, info.waiting, info.messages[0].attempts) == ("waiting", 1, 0)
        if how == "dropped":
            free_at = clock.now()
            assert await plain.drop(lock_id)
        else:
            free_at = asked_at + 4
        began_at = await receipt.result(20)
        assert free_at - 0.01 <= began_at < free_at + SOON_S + SLACK_S


async def test_a_lane_that_waits_for_it_holds_up_no_other(app: InTurn, plain: Plain) -> None:
    add(app, plain)
    await plain.take()
    async with working(app, concurrency=1):
        await app.submit("h", body(plain))
        assert await (await app.submit("h", {"uid": plain.key + "-2"})).result(20) > 0


async def test_the_next_turn_of_the_lane_takes_it_anew(app: InTurn, plain: Plain) -> None:
    add(app, plain)
    async with working(app):
        receipts = [await app.submit("h", body(plain, n=n)) for n in range(5)]
        for receipt in receipts:
            await receipt.result(20)
        assert await plain.holder() is None
    assert (await app.lanes.inspect(receipts[0].key)).state == [0, 1, 2, 3, 4]


async def test_it_is_renewed_while_a_turn_lasts_longer_than_its_life(app: InTurn, plain: Plain) -> None:
    gate = Gate()
    add(app, plain, gate)
    async with working(app):
        receipt = await app.submit("h", body(plain))
        await gate.reached.wait()
        held_by, ends_at = await plain.holder(), clock.now() + 1.2 * TTL_S
        while clock.now() < ends_at:
            assert await plain.holder() == held_by
            assert await plain.take() is None
            await asyncio.sleep(0.02)
        gate.opened.set()
        await receipt.result(20)
    await until_free(plain)


async def test_it_is_given_back_after_a_failure(app: InTurn, plain: Plain) -> None:
    add(app, plain, attempts=2, backoff=NOT_TODAY)
    async with working(app):
        receipt = await app.submit("h", body(plain, fails=True))
        await until_status(app, receipt.key, "waiting")
        assert await plain.holder() is None, "a message that waits for its retry holds nothing"


async def test_it_is_given_back_after_an_inline_turn_and_after_an_error_in_one(app: InTurn, plain: Plain) -> None:
    async with app.turn("k", shares=plain.key):
        assert await plain.take() is None
    assert await plain.holder() is None
    with pytest.raises(KeyError):
        async with app.turn("k", shares=plain.key):
            raise KeyError
    assert await plain.holder() is None


@pytest.mark.usefixtures("nobody_looks")
@pytest.mark.parametrize("is_first", [True, False])
async def test_an_inline_turn_waits_for_the_other_service(
    app: InTurn, plain: Plain, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.process.store, "timeout_s", 600.0)  # while somebody waits, it beats four times in that
    if not is_first:  # the beat that has just been made knew of nothing to look at, and no other is due
        async with app.lock("other", ttl=600):
            await until(lambda: app.process.heartbeat._confirmed_at[0])
    lock_id = await plain.take()
    assert lock_id is not None

    async def take() -> float:
        async with app.turn("k", shares=plain.key, wait=20):
            return clock.now()

    taking = asyncio.create_task(take())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(taking), 0.25)
    assert await plain.drop(lock_id)
    dropped_at = clock.now()
    assert await asyncio.wait_for(taking, 20) < dropped_at + SOON_S + SLACK_S


async def test_a_worker_that_stops_gives_it_back(app: InTurn, plain: Plain) -> None:
    gate = Gate()
    add(app, plain, gate)
    async with working(app, grace=0):
        await app.submit("h", body(plain))
        await gate.reached.wait()
    await until_free(plain, TTL_S / 2)
