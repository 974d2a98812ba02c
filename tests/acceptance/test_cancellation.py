"""A cancelled acquire never keeps a lock and a cancelled release never strands one, at whatever await it happens."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn
from tests.acceptance.cancelling import Cancelled, When, at_every_await, cancelled_at, in_both_ways
from tests.acceptance.looks import PATIENT
from tests.waiting import is_soon_free, until_waiters


@in_both_ways
async def test_an_acquire_can_be_cancelled_at_every_await(app: InTurn, other: InTurn, when: When) -> None:
    async def attempt(number: int) -> None:
        lock = app.lock("x", owner="me")
        try:
            await cancelled_at(number, when, lock.acquire())
        except Cancelled:
            assert await is_soon_free(other, "x", within_s=20.0)
            raise
        await lock.release()

    assert await at_every_await(attempt) >= 1


@in_both_ways
async def test_the_first_acquire_of_an_app_can_be_cancelled_at_every_await(
    store_url: str, namespace: str, other: InTurn, when: When
) -> None:
    async def attempt(number: int) -> None:
        app = InTurn(store_url, namespace=namespace, settings=PATIENT)
        lock = app.lock("x", owner="me")
        try:
            await cancelled_at(number, when, lock.acquire())
        except Cancelled:
            assert await is_soon_free(other, "x", within_s=20.0)
            async with asyncio.timeout(20):  # the app still works
                async with app.lock("x"):
                    pass
            raise
        finally:
            await app.close()

    assert await at_every_await(attempt) >= 2


@in_both_ways
@pytest.mark.parametrize("is_local", [True, False], ids=["same process", "another process"])
async def test_a_waiting_acquire_can_be_cancelled_at_every_await(
    app: InTurn, other: InTurn, when: When, is_local: bool
) -> None:
    """The lock is released while it waits, by the same process (a complete grant) or another (a provisional one)."""

    async def attempt(number: int) -> None:
        held = (app if is_local else other).lock("x", owner="the one before")
        await held.acquire()
        lock = app.lock("x", owner="me")
        asking = asyncio.create_task(cancelled_at(number, when, lock.acquire()))
        try:
            # the others see its place before its own process has the answer, which a grant must not overtake here
            while not (asking.done() or app.process.registry.waiting):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.001)
            await held.release()
            await asking
        except Cancelled:
            assert await is_soon_free(other, "x", within_s=20.0)
            raise
        await lock.release()

    assert await at_every_await(attempt) >= 2


@in_both_ways
async def test_a_release_can_be_cancelled_at_every_await(app: InTurn, other: InTurn, when: When) -> None:
    async def attempt(number: int) -> None:
        lock = app.lock("x", owner="me")
        await lock.acquire()
        try:
            await cancelled_at(number, when, lock.release())
        finally:
            assert await is_soon_free(other, "x", within_s=20.0)

    assert await at_every_await(attempt) >= 1


@in_both_ways
async def test_a_body_can_be_cancelled_at_every_await(app: InTurn, other: InTurn, when: When) -> None:
    async def guarded() -> None:
        async with app.lock("x"):
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)

    async def attempt(number: int) -> None:
        try:
            await cancelled_at(number, when, guarded())
        finally:
            assert await is_soon_free(other, "x", within_s=20.0)

    assert await at_every_await(attempt) >= 4


@in_both_ways
async def test_a_timed_out_wait_can_be_cancelled_at_every_await(app: InTurn, other: InTurn, when: When) -> None:
    held = other.lock("x", owner="the one before")
    await held.acquire()

    async def attempt(number: int) -> None:
        try:
            assert not await cancelled_at(number, when, app.lock("x", wait=0.01).acquire())
        finally:
            await until_waiters(other, "x", 0, within_s=20.0)

    assert await at_every_await(attempt) >= 3
    await held.release()


async def test_the_next_waiter_gets_what_a_cancelled_one_leaves(app: InTurn, other: InTurn) -> None:
    held = other.lock("x", owner="the one before")
    await held.acquire()
    granted_first = app.lock("x", owner="first")
    first = asyncio.create_task(granted_first.acquire())
    await until_waiters(other, "x", 1)
    second = asyncio.create_task(other.lock("x", owner="second").acquire())
    await until_waiters(other, "x", 2)
    await held.release()
    if not first.cancel():  # its grant was faster than the answer to the release
        await granted_first.release()
    async with asyncio.timeout(20):
        assert await second
