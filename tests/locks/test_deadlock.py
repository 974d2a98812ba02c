"""A circle of waiters ends with its youngest; a wait that will end is none."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn, Lock
from inturn.errors import DeadlockDetected
from tests.waiting import until_waiters


async def test_a_deadlock_across_processes_ends_with_its_youngest_waiter(app: InTurn, other: InTurn) -> None:
    both_hold = asyncio.Barrier(2)

    async def cross(mine: InTurn, first: str, second: str, *, is_younger: bool) -> str:
        async with mine.lock(first):
            await both_hold.wait()
            if is_younger:
                await until_waiters(mine, first, 1)
            async with mine.lock(second):
                return "done"

    older = asyncio.create_task(cross(app, "a", "b", is_younger=False))
    younger = asyncio.create_task(cross(other, "b", "a", is_younger=True))
    with pytest.raises(DeadlockDetected) as found:
        await younger
    assert found.value.name == "a"
    assert "waits for 'b'" in str(found.value)
    assert await older == "done"


async def test_a_long_wait_without_a_circle_is_no_deadlock(app: InTurn, other: InTurn) -> None:
    async with app.lock("a"):
        waiting = asyncio.create_task(other.lock("a").acquire())
        await until_waiters(app, "a", 1)
        await asyncio.sleep(2.5)  # long enough for two looks at the same waits
        assert not waiting.done()
    assert await waiting


async def test_waiting_for_one_of_several_permits_is_no_deadlock_while_one_will_come_back(
    app: InTurn, other: InTurn
) -> None:
    """A holds a permit and waits for B's lock; B waits for a permit: C, who holds the other one, will give it back."""
    may_go = asyncio.Event()
    all_hold = asyncio.Barrier(3)

    async def with_permit_and_lock() -> str:
        async with app.semaphore("s", 2):
            await all_hold.wait()
            async with app.lock("m"):
                return "a"

    async def with_lock_and_permit() -> str:
        async with other.lock("m"):
            await all_hold.wait()
            async with other.semaphore("s", 2):
                return "b"

    async def with_permit() -> str:
        async with app.semaphore("s", 2):
            await all_hold.wait()
            await may_go.wait()
            return "c"

    tasks = [asyncio.create_task(work()) for work in (with_permit_and_lock, with_lock_and_permit, with_permit)]
    await asyncio.wait(tasks, timeout=3.5)  # long enough for the same waits to be seen twice
    may_go.set()
    assert await asyncio.gather(*tasks) == ["a", "b", "c"]


async def test_a_deadlock_over_the_last_permits_is_found(app: InTurn, other: InTurn) -> None:
    both_hold = asyncio.Barrier(2)

    async def cross(mine: InTurn, first: Lock, second: Lock) -> str:
        async with first:
            await both_hold.wait()
            async with second:
                return "done"

    outcomes = await asyncio.gather(
        cross(app, app.semaphore("s", 1), app.lock("m")),
        cross(other, other.lock("m"), other.semaphore("s", 1)),
        return_exceptions=True,
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["DeadlockDetected", "str"]
