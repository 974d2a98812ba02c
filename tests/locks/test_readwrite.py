"""Read-write locks: readers share, a writer excludes, and nobody passes a writer who waits."""

from __future__ import annotations

import asyncio

from inturn import InTurn
from tests.waiting import until_waiters


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
