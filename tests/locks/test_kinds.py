"""Read-write locks, semaphores, several names at once, deadlocks: all on the one structure."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn, Lock, LockTimeout
from inturn.errors import DeadlockDetected, LockMismatch
from tests.waiting import until_free, until_waiters


async def test_readers_share_and_a_writer_excludes(app: InTurn, other: InTurn) -> None:
    mine, theirs = app.rwlock("a"), other.rwlock("a")
    async with mine.read(), theirs.read():
        assert not await app.rwlock("a", owner="writer").write().acquire(blocking=False)
    async with mine.write():
        assert not await theirs.read().acquire(blocking=False)
        assert not await theirs.write().acquire(blocking=False)


async def test_a_reader_that_comes_after_a_waiting_writer_waits_behind_it(app: InTurn, other: InTurn) -> None:
    order = []

    async def write() -> None:
        async with other.rwlock("a").write():
            order.append("writer")

    async def read() -> None:
        async with app.rwlock("a").read():
            order.append("reader")

    async with app.rwlock("a").read():
        writing = asyncio.create_task(write())
        await until_waiters(app, "a", 1)
        reading = asyncio.create_task(read())
        await until_waiters(app, "a", 2)
        assert order == []
    await asyncio.gather(writing, reading)
    assert order == ["writer", "reader"]


async def test_a_writer_that_gives_up_lets_the_readers_behind_it_in(app: InTurn, other: InTurn) -> None:
    async with app.rwlock("a").read():
        writing = asyncio.create_task(other.rwlock("a").write().acquire())
        await until_waiters(app, "a", 1)
        reading = asyncio.create_task(other.rwlock("a").read().acquire())
        await until_waiters(app, "a", 2)
        writing.cancel()
        assert await asyncio.wait_for(reading, 20)


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
