"""Semaphores, and that one name is one kind of lock."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn
from inturn.errors import LockMismatch
from tests.waiting import until_free


async def test_a_semaphore_has_as_many_holders_as_permits(app: InTurn, other: InTurn) -> None:
    inside = most = 0
    enough = asyncio.Event()

    async def use(number: int) -> None:
        nonlocal inside, most
        async with (app if number % 2 else other).semaphore("a", 3):
            inside += 1
            most = max(most, inside)
            if inside == 3:
                enough.set()
            await enough.wait()
            await asyncio.sleep(0.002)
            inside -= 1

    await asyncio.gather(*(use(number) for number in range(20)))
    assert most == 3
    await until_free(app, "a")


async def test_one_name_cannot_be_two_kinds_of_lock_at_once(app: InTurn, other: InTurn) -> None:
    async with app.semaphore("a", 3):
        with pytest.raises(LockMismatch, match="capacity of 3"):
            await other.semaphore("a", 5).acquire()
        with pytest.raises(LockMismatch):
            await other.lock("a").acquire()
    async with other.lock("a"):
        pass
