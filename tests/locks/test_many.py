"""Several names at once: all or none, and in one order."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn, LockTimeout


async def test_a_set_takes_all_or_none(app: InTurn, other: InTurn) -> None:
    async with other.lock("b"):
        with pytest.raises(LockTimeout) as late:
            async with app.lock_all(["c", "a", "b"], wait=0.1):
                pass
        assert late.value.name == "b"
        assert [lock.name for lock in await app.locks.list()] == ["b"]
    async with app.lock_all(["c", "a", "b", "a"]) as leases:
        assert sorted(leases) == ["a", "b", "c"]
        assert [lock.name for lock in await app.locks.list()] == ["a", "b", "c"]
    assert await app.locks.list() == []


async def test_sets_that_overlap_never_block_each_other(app: InTurn, other: InTurn) -> None:
    names = ["a", "b", "c", "d"]
    done = 0

    async def use(number: int) -> None:
        nonlocal done
        mine = names[number % 4 :] + names[: number % 4]
        async with (app if number % 2 else other).lock_all(mine[:3][:: 1 if number % 3 else -1]):
            done += 1

    await asyncio.wait_for(asyncio.gather(*(use(number) for number in range(24))), 50)
    assert done == 24
