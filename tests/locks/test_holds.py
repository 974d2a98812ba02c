"""A hold belongs to its lock object: whoever has the object may release it, and when nobody has it, it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from inturn import InTurn, LeaseLost, Lock, LockTimeout, NotHeld
from inturn.errors import AlreadyHeld, DeadlockDetected
from tests.waiting import until, until_free, until_waiters


async def test_what_wait_for_has_acquired_can_be_released(app: InTurn) -> None:
    lock = app.lock("a")
    assert await asyncio.wait_for(lock.acquire(), 20)  # Python 3.11 runs it in a task of its own
    assert await lock.owned()
    assert lock.lease.fence > 0
    await lock.release()
    assert await app.locks.inspect("a") is None


async def test_what_gather_has_acquired_can_be_released(app: InTurn) -> None:
    a, b = app.lock("a"), app.lock("b")
    assert all(await asyncio.gather(a.acquire(), b.acquire()))
    await asyncio.gather(a.release(), b.release())
    assert await app.locks.list() == []


async def test_a_generator_may_be_entered_and_left_in_two_tasks(app: InTurn) -> None:
    async def guarded() -> AsyncIterator[int]:
        async with app.lock("a") as lease:
            yield lease.fence

    fixture = guarded()
    assert await asyncio.create_task(anext(fixture)) > 0  # type: ignore[arg-type]
    assert await app.lock("a").locked()
    with pytest.raises(StopAsyncIteration):
        await asyncio.create_task(anext(fixture))  # type: ignore[arg-type]
    assert not await app.lock("a").locked()


async def test_an_exit_stack_may_be_closed_in_another_task(app: InTurn) -> None:
    stack = AsyncExitStack()
    await stack.enter_async_context(app.lock("a"))
    await stack.enter_async_context(app.lock_all(["b", "c"]))
    await asyncio.create_task(stack.aclose())
    assert await app.locks.list() == []


async def test_a_second_object_in_one_task_is_refused_like_anybody_else(app: InTurn) -> None:
    first, second = app.lock("a"), app.lock("a")
    assert await first.acquire()
    assert await second.acquire(blocking=False) is False
    assert await second.acquire(blocking_timeout=0.05) is False
    assert await first.acquire(blocking=False) is False
    assert not await second.owned()
    with pytest.raises(NotHeld):
        await second.release()
    async with app.lock("b"):
        assert await app.lock("b", wait=0).acquire() is False
        with pytest.raises(LockTimeout):
            await app.lock("b", wait=0.05).take()
    await first.release()
    assert await second.acquire(blocking=False)
    await second.release()


async def test_a_second_object_in_one_task_waits_until_the_first_is_released_elsewhere(
    app: InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    first, told = app.lock("a"), "waits for what it took itself"
    await first.acquire()
    assert not await app.lock("a", wait=0.01).acquire()
    assert told not in caplog.text, "it has ended by itself"

    async def release_later() -> None:
        await until_waiters(app, "a", 1)
        await asyncio.sleep(3.5)  # so long that the same wait is seen twice: it is no deadlock
        await first.release()

    releasing = asyncio.create_task(release_later())
    assert await app.lock("a").acquire()
    await releasing
    assert told in caplog.text


async def test_two_permits_of_one_object_are_released_by_those_who_took_them(app: InTurn) -> None:
    permits = app.semaphore("s", 2)
    released = asyncio.Event()

    async def take() -> None:
        await permits.acquire()
        lease = permits.lease
        await released.wait()
        assert not lease.is_over
        assert permits.lease is lease
        await permits.release()

    task = asyncio.create_task(take())
    assert await asyncio.wait_for(permits.acquire(), 20)
    await until(lambda: len(permits._holds) == 2)
    await permits.release()
    info = await app.locks.inspect("s")
    assert info is not None
    assert len(info.holders) == 1
    released.set()
    await task
    assert await app.locks.inspect("s") is None


async def test_who_lost_it_does_not_release_what_another_task_got_through_the_same_object(
    app: InTurn, other: InTurn
) -> None:
    lock = app.lock("a")
    await lock.acquire()
    lost = lock.lease
    got, may_go = asyncio.Event(), asyncio.Event()

    async def next_one() -> None:
        await lock.acquire()
        got.set()
        await may_go.wait()
        await lock.release()

    task = asyncio.create_task(next_one())
    await until_waiters(app, "a", 1)
    await other.locks.force_release("a")
    await got.wait()
    await until(lambda: lost.lost)
    with pytest.raises(LeaseLost):
        await lock.release()
    assert await lock.owned()
    may_go.set()
    await task


async def test_a_block_that_was_lost_does_not_end_the_one_of_another_task(app: InTurn, other: InTurn) -> None:
    lock = app.lock("a")

    @asynccontextmanager
    async def guarded() -> AsyncIterator[None]:
        async with lock:
            yield

    first = guarded()
    await asyncio.create_task(first.__aenter__())
    await other.locks.force_release("a")
    second = guarded()
    await asyncio.create_task(second.__aenter__())
    await asyncio.create_task(second.__aexit__(None, None, None))
    assert not await lock.locked()
    with pytest.raises(LeaseLost):
        await first.__aexit__(None, None, None)


async def test_a_hold_whose_object_is_gone_ends_with_a_warning(
    app: InTurn, other: InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    lock: Lock | None = app.lock("a")
    assert lock is not None
    await lock.acquire()
    del lock
    gc.collect()
    await until_free(other, "a")
    assert "dropped name=a" in caplog.text
    assert await other.lock("a").acquire(blocking=False)


async def test_what_was_dropped_is_no_obstacle_to_whoever_dropped_it(app: InTurn) -> None:
    assert await app.lock("a").acquire()
    gc.collect()
    assert await app.lock("a", wait=0).acquire()


async def test_a_lease_that_is_collected_while_its_thread_logs_does_not_log(app: InTurn, other: InTurn) -> None:
    """The queue of a `QueueHandler` is locked then, and cannot be locked twice."""
    within: list[str] = []
    nested: list[str] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == threading.get_ident() == here:
                (nested if within else within).append(record.getMessage())
                gc.collect()
                within.clear()

    here = threading.get_ident()
    handler, logger = Collecting(), logging.getLogger("inturn")
    logger.addHandler(handler)
    try:
        lock = app.lock("a")
        assert await lock.acquire()
        circle: list[object] = [lock]
        circle.append(circle)
        del circle, lock
        logger.warning("a line")
    finally:
        logger.removeHandler(handler)
    assert nested == []
    await until_free(other, "a")


async def test_a_lease_keeps_its_hold_without_the_lock_object(app: InTurn, other: InTurn) -> None:
    lease = await app.lock("a").take()
    gc.collect()
    assert not lease.is_over
    assert await other.lock("a").locked()
    await lease.release()
    assert not await other.lock("a").locked()


async def test_a_fixed_life_is_lived_to_its_end_without_its_object(app: InTurn, other: InTurn) -> None:
    """At most once a minute: it is taken, and nobody releases it."""
    assert await app.lock("a", ttl=60, renew=False).acquire()
    gc.collect()
    assert not await other.lock("a").acquire(blocking=False)
    info = await other.locks.inspect("a")
    assert info is not None
    assert info.holders[0].ends_in_s is not None


async def test_a_lock_that_is_taken_again_and_again_and_lost_does_not_grow(app: InTurn, other: InTurn) -> None:
    lock = app.lock("a")
    for _ in range(3):
        await lock.acquire()
        await other.locks.force_release("a")
        await until(lambda: lock.lease.lost)
    assert len(lock._holds) == 1


async def test_an_owner_of_two_processes_may_release_in_either(app: InTurn, other: InTurn) -> None:
    mine, theirs = app.lock("a", owner="job-7"), other.lock("a", owner="job-7")
    await mine.acquire()
    assert await theirs.owned()
    assert not await other.lock("a", owner="job-8").owned()
    with pytest.raises(NotHeld):
        await other.lock("a", owner="job-8").release()
    await theirs.release()
    assert not await mine.locked()
    lease = mine.lease
    await until(lambda: lease.lost)
    with pytest.raises(LeaseLost, match="by its owner elsewhere"):
        await mine.release()
    with pytest.raises(NotHeld):
        await theirs.release()


async def test_an_owner_may_release_through_another_object_of_the_same_process(app: InTurn) -> None:
    mine = app.lock("a", owner="job-7")
    await mine.acquire()
    assert await app.lock("a", owner="job-7").owned()
    await app.lock("a", owner="job-7").release()
    assert not await mine.locked()
    with pytest.raises(NotHeld):
        await mine.release()


async def test_a_reentrant_owner_counts_over_all_objects(app: InTurn) -> None:
    one, two = (app.lock("a", owner="job-7", reentrant=True) for _ in range(2))
    assert await one.acquire()
    assert await two.acquire()
    await one.release()
    assert await one.locked()
    with pytest.raises(AlreadyHeld):
        await app.lock("a", owner="job-7").acquire()
    await two.release()
    assert not await one.locked()


async def test_a_loss_between_two_tasks_is_told_by_the_lease_and_by_the_release(app: InTurn, other: InTurn) -> None:
    async def guarded() -> AsyncIterator[None]:
        async with app.lock("a") as lease:
            leases.append(lease)
            yield

    leases: list[object] = []
    fixture = guarded()
    await asyncio.create_task(anext(fixture))  # type: ignore[arg-type]
    await other.locks.force_release("a")
    await until(lambda: leases[0].lost)  # type: ignore[attr-defined]
    with pytest.raises(LeaseLost):
        await anext(fixture)


async def test_a_wait_for_ones_own_writer_or_reader_is_a_deadlock(app: InTurn) -> None:
    shelf = app.rwlock("shelf")
    async with shelf.write():
        with pytest.raises(DeadlockDetected):
            await shelf.read().acquire()
        assert not await shelf.read().acquire(blocking=False)
    async with shelf.read(), shelf.read():
        with pytest.raises(DeadlockDetected):
            await shelf.write().acquire()


async def test_a_generator_that_is_entered_twice_in_one_task_is_a_deadlock(app: InTurn) -> None:
    @asynccontextmanager
    async def locked() -> AsyncIterator[None]:
        async with app.lock("a"):
            yield

    @asynccontextmanager
    async def all_locked() -> AsyncIterator[None]:
        async with app.lock_all(["a", "b"]):
            yield

    async with asyncio.timeout(20):
        for guarded in (locked, all_locked):
            async with guarded():
                for again in (locked, all_locked):
                    with pytest.raises(DeadlockDetected):
                        await again().__aenter__()


async def test_what_a_block_with_an_end_holds_is_waited_for(app: InTurn) -> None:
    with pytest.raises(LeaseLost, match="time is up"):
        async with app.lock("a", ttl=0.6, renew=False):
            with pytest.raises(asyncio.CancelledError):
                await app.lock("a").acquire()
            await asyncio.sleep(0)
            raise asyncio.CancelledError


async def test_a_lock_tells_what_it_is(app: InTurn) -> None:
    lock = app.lock("a", ttl=20, wait=5)
    assert repr(lock) == "<Lock 'a' ttl=20 wait=5.0: not held>"
    async with lock as lease:
        assert repr(lock) == f"<Lock 'a' ttl=20 wait=5.0: <Lease 'a' fence={lease.fence} held>>"
    permits = app.semaphore("s", 3, owner="me")
    assert repr(permits) == "<Lock 's' weight=1 of 3 ttl=30 wait=None owner='me': not held>"
    await permits.acquire()
    await permits.acquire()
    assert "2 holds, the newest <Lease 's'" in repr(permits)
    await permits.release()
    await permits.release()
    assert repr(app.rwlock("shelf")) == "<ReadWriteLock 'shelf'>"
    assert repr(app.lock_all(["b", "a"])) == "<LockSet ['a', 'b']>"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_closed_loop_held_ends_with_a_warning_and_its_release_tells(
    store_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    app = InTurn(store_url, namespace=namespace)
    lock = app.lock("a")
    asyncio.run(_acquire(lock))

    async def look() -> None:
        await until_free(app, "a")
        with pytest.raises(LeaseLost, match="loop was closed"):
            await lock.release()
        with pytest.raises(NotHeld):
            await lock.release()
        await app.close()

    asyncio.run(look())
    assert "its event loop was closed" in caplog.text
    gc.collect()


async def _acquire(lock: Lock) -> None:
    await lock.acquire()


async def test_a_deadlock_of_tasks_that_use_acquire_is_found(app: InTurn, other: InTurn) -> None:
    both_hold = asyncio.Barrier(2)

    async def cross(mine: InTurn, first: str, second: str) -> str:
        one, two = mine.lock(first), mine.lock(second)
        await one.acquire()
        await both_hold.wait()
        try:
            await two.acquire()
        except DeadlockDetected:
            return "deadlock"
        else:
            await two.release()
            return "done"
        finally:
            await one.release()

    ends = await asyncio.gather(cross(app, "a", "b"), cross(other, "b", "a"))
    assert sorted(ends) == ["deadlock", "done"]
