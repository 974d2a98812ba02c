"""The lock as its users see it, over both stores."""

from __future__ import annotations

import asyncio
import logging

import pytest

from inturn import InTurn, LeaseLost, LockTimeout, NotHeld, StoreUnavailable
from inturn.errors import AlreadyHeld, DeadlockDetected
from inturn.settings import Settings
from inturn.store import clock
from inturn.store.protocol import Acquired, Notice, Request
from tests.servers import PrivateRedis
from tests.waiting import until, until_free, until_waiters, wait_until


async def test_a_held_lock_has_a_fence_and_is_free_afterwards(app: InTurn) -> None:
    async with app.lock("a") as lease:
        assert lease.fence > 0
        assert not lease.lost
        assert 20 < lease.remaining() < 30
        info = await app.locks.inspect("a")
        assert info is not None
        assert info.holders[0].fence == lease.fence
    assert lease.remaining() == 0.0
    assert await app.locks.inspect("a") is None


async def test_fences_grow_with_every_grant(app: InTurn, other: InTurn) -> None:
    fences = []
    for holder in (app, other, app, other):
        async with holder.lock("a") as lease:
            fences.append(lease.fence)
    assert fences == sorted(set(fences))


async def test_the_names_of_redis_py_mean_the_same(app: InTurn, other: InTurn) -> None:
    lock = app.lock("a")
    assert not await lock.locked()
    assert await lock.acquire()
    assert await lock.locked()
    assert await lock.owned()
    theirs = other.lock("a")
    assert not await theirs.owned()
    assert await theirs.locked()
    assert not await theirs.acquire(blocking=False)
    assert not await theirs.acquire(blocking_timeout=0.05)
    await lock.release()
    assert not await lock.owned()
    assert not await lock.locked()
    assert await theirs.acquire(blocking=False)
    await theirs.release()


async def test_a_context_manager_that_cannot_have_the_lock_raises_with_name_time_and_holder(
    app: InTurn, other: InTurn
) -> None:
    async with app.lock("a"):
        with pytest.raises(LockTimeout) as refused:
            async with other.lock("a", wait=0):
                pass
        assert refused.value.name == "a"
        assert refused.value.holder is not None
        with pytest.raises(LockTimeout) as late:
            async with other.lock("a", wait=0.1):
                pass
        assert late.value.waited_s >= 0.1
        info = await app.locks.inspect("a")
        assert info is not None
        assert info.waiters == ()


async def test_waiters_are_granted_in_order_of_arrival(app: InTurn, other: InTurn) -> None:
    order = []

    async def wait_as(number: int) -> None:
        async with (app if number % 2 else other).lock("a"):
            order.append(number)

    async with app.lock("a"):
        tasks = []
        for number in range(6):
            tasks.append(asyncio.create_task(wait_as(number)))
            await until_waiters(app, "a", number + 1)
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4, 5]


async def test_a_higher_priority_goes_first(app: InTurn, other: InTurn) -> None:
    order = []

    async def wait_as(priority: int, number: int) -> None:
        async with other.lock("a", priority=priority):
            order.append((priority, number))

    async with app.lock("a"):
        tasks = []
        for count, (priority, number) in enumerate([(0, 1), (5, 1), (-1000, 1), (5, 2), (1000, 1), (0, 2)], 1):
            tasks.append(asyncio.create_task(wait_as(priority, number)))
            await until_waiters(app, "a", count)
    await asyncio.gather(*tasks)
    assert order == [(1000, 1), (5, 1), (5, 2), (0, 1), (0, 2), (-1000, 1)]


async def test_nobody_barges_in_between_a_release_and_the_next_waiter(app: InTurn, other: InTurn) -> None:
    order = []

    async def wait() -> None:
        async with other.lock("a"):
            order.append("waiter")

    lock = app.lock("a")
    await lock.acquire()
    waiting = asyncio.create_task(wait())
    await until_waiters(app, "a", 1)
    await lock.release()
    async with lock:
        order.append("barger")
    await waiting
    assert order == ["waiter", "barger"]


async def test_a_cancelled_waiter_leaves_at_once_and_the_next_one_gets_the_lock(app: InTurn, other: InTurn) -> None:
    async with app.lock("a"):
        first = asyncio.create_task(other.lock("a").acquire())
        await until_waiters(app, "a", 1)
        second = asyncio.create_task(app.lock("a").acquire())
        await until_waiters(app, "a", 2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await until_waiters(app, "a", 1)
    assert await second


async def test_waiting_for_what_ones_own_block_holds_is_refused_at_once(app: InTurn) -> None:
    async with app.lock("a"):
        with pytest.raises(DeadlockDetected, match="'a'"):
            async with app.lock("a"):
                pass
        with pytest.raises(DeadlockDetected, match="'a'"):
            await app.lock("a").acquire()


async def test_a_reentrant_lock_is_released_by_its_outermost_block(app: InTurn) -> None:
    async with app.lock("a", reentrant=True) as outer:
        async with app.lock("a", reentrant=True) as inner:
            assert inner is outer
        assert not outer.is_released
        assert await app.locks.inspect("a") is not None
    assert await app.locks.inspect("a") is None


async def test_a_given_owner_is_the_same_one_in_every_process(app: InTurn, other: InTurn) -> None:
    async with app.lock("a", owner="job-7"):
        with pytest.raises(AlreadyHeld, match="job-7"):
            await other.lock("a", owner="job-7").acquire()
        assert not await other.lock("a", owner="job-7").acquire(blocking=False)


async def test_tasks_may_share_a_lock_object_and_whoever_has_it_may_release(app: InTurn) -> None:
    lock = app.lock("a")
    inside = 0

    async def use() -> None:
        nonlocal inside
        async with lock:
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(use() for _ in range(8)))
    await lock.acquire()

    await asyncio.create_task(lock.release())
    assert not await lock.locked()
    with pytest.raises(NotHeld):
        await lock.release()


async def test_a_lost_lease_cancels_the_body_with_lease_lost(app: InTurn, other: InTurn) -> None:
    reached_end = False
    with pytest.raises(LeaseLost, match="by force") as lost:
        async with app.lock("a") as lease:
            assert await other.locks.force_release("a") == 1
            await asyncio.sleep(30)
            reached_end = True
    assert not reached_end
    assert lease.lost
    assert lost.value.fence == lease.fence
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_body_that_ends_in_time_after_the_loss_is_told_all_the_same(app: InTurn, other: InTurn) -> None:
    with pytest.raises(LeaseLost):
        async with app.lock("a"):
            await other.locks.force_release("a")
    await asyncio.sleep(0)  # no cancellation is left over for the next await


async def test_the_bodys_own_error_is_not_hidden_by_the_loss(
    app: InTurn, other: InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with app.lock("a"):
            try:
                await other.locks.force_release("a")
                await asyncio.sleep(30)
            finally:
                raise KeyError("mine")
    assert "after the body raised" in caplog.text


async def test_a_cancellation_from_elsewhere_goes_on(app: InTurn) -> None:
    started = asyncio.Event()

    async def body() -> None:
        async with app.lock("a"):
            started.set()
            await asyncio.sleep(30)

    task = asyncio.create_task(body())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_free(app, "a")


async def test_a_loss_inside_a_timeout_is_not_taken_for_the_timeout(app: InTurn, other: InTurn) -> None:
    with pytest.raises(LeaseLost):
        async with asyncio.timeout(30):
            async with app.lock("a"):
                await other.locks.force_release("a")
                await asyncio.sleep(30)


async def test_a_bare_acquire_only_sets_lost(app: InTurn, other: InTurn) -> None:
    lock = app.lock("a")
    await lock.acquire()
    lease = lock.lease
    await other.locks.force_release("a")
    await until(lambda: lease.lost)
    with pytest.raises(LeaseLost):
        lease.check()
    with pytest.raises(LeaseLost):
        await lock.release()


async def test_a_fixed_life_ends_while_the_process_lives(app: InTurn, other: InTurn) -> None:
    with pytest.raises(LeaseLost, match="time is up"):
        async with app.lock("a", ttl=0.6, renew=False) as lease:
            assert lease.remaining() < 0.6
            await asyncio.sleep(30)
    async with other.lock("a", wait=20):
        pass


async def test_a_maximum_life_ends_a_renewed_lease(app: InTurn) -> None:
    with pytest.raises(LeaseLost, match="time is up"):
        async with app.lock("a", ttl=30, max_life=0.6):
            await asyncio.sleep(30)


async def test_a_renewed_lease_outlives_its_ttl(app: InTurn, other: InTurn) -> None:
    async with app.lock("a", ttl=6) as lease:  # so long that a beat may come seconds late, on a busy machine
        ends_at = clock.now() + 7
        while clock.now() < ends_at:
            assert not await other.lock("a").acquire(blocking=False)
            await asyncio.sleep(0.1)
        assert lease.remaining() > 0


async def test_extend_moves_the_end_of_a_fixed_life(app: InTurn) -> None:
    lock = app.lock("a", ttl=50, renew=False)
    await lock.acquire()
    assert await lock.extend(100)
    assert 100 < lock.lease.remaining() < 150
    assert await lock.extend(200, replace_ttl=True)
    assert 150 < lock.lease.remaining() < 200
    assert await lock.reacquire()
    assert 20 < lock.lease.remaining() < 50
    await lock.release()
    with pytest.raises(NotHeld):
        await lock.extend(1)


async def test_extending_a_lease_that_is_gone_tells_the_loss(app: InTurn, other: InTurn) -> None:
    lock = app.lock("a", ttl=5, renew=False)
    await lock.acquire()
    await other.locks.force_release("a")
    with pytest.raises(LeaseLost):
        await lock.extend(10)
    with pytest.raises(LeaseLost):
        await lock.release()


async def test_locks_tell_what_they_do_in_the_log(app: InTurn, other: InTurn, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "inturn.locks")
    async with app.lock("a") as lease:
        await other.lock("a").acquire(blocking=False)
    assert f"acquire name=a fence={lease.fence}" in caplog.text
    assert "contention name=a" in caplog.text
    assert f"release name=a fence={lease.fence}" in caplog.text


async def test_list_and_inspect_tell_holders_and_waiters_in_order(app: InTurn, other: InTurn) -> None:
    async with app.lock("a", owner="holder") as lease:
        tasks = [asyncio.create_task(other.lock("a", owner="second").acquire())]
        await until_waiters(app, "a", 1)
        tasks.append(asyncio.create_task(other.lock("a", priority=1, owner="first").acquire()))
        info = await until_waiters(app, "a", 2)
        assert info is not None
        assert [waiter.owner for waiter in info.waiters] == ["first", "second"]
        assert (info.holders[0].owner, info.holders[0].fence) == ("holder", lease.fence)
        assert info.holders[0].pid > 0
        assert info.holders[0].host
        async with app.lock("b"):
            assert [lock.name for lock in await other.locks.list()] == ["a", "b"]
        for task in tasks:
            task.cancel()
    await until_free(app, "a")
    assert await app.locks.force_release("a") == 0


async def test_leaving_a_block_does_not_release_what_another_task_got_meanwhile(app: InTurn) -> None:
    lock = app.lock("a")
    other_is_in, may_leave = asyncio.Event(), asyncio.Event()

    async def other_task() -> None:
        async with lock as lease:
            other_is_in.set()
            await may_leave.wait()
            assert not lease.is_over

    with pytest.raises(NotHeld):
        async with lock:
            other = asyncio.create_task(other_task())
            await until_waiters(app, "a", 1)
            await lock.release()
            await other_is_in.wait()
    assert await lock.locked()
    may_leave.set()
    await other


async def test_who_gave_up_an_acquire_may_ask_again_at_once(app: InTurn, other: InTurn) -> None:
    for _ in range(20):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await app.lock("a").acquire()
        assert await app.lock("a").acquire()
        await other.locks.force_release("a")
        await until_free(app, "a")


async def test_a_block_inside_a_bare_acquire_is_cancelled_too(app: InTurn, other: InTurn) -> None:
    lock = app.lock("a", reentrant=True)
    await lock.acquire()
    with pytest.raises(asyncio.CancelledError):
        async with lock:
            await other.locks.force_release("a")
            await asyncio.sleep(30)
    with pytest.raises(LeaseLost):
        await lock.release()


async def test_a_released_lease_cannot_be_extended(app: InTurn) -> None:
    lease = await app.lock("a", ttl=5, renew=False).take()
    await lease.release()
    with pytest.raises(NotHeld):
        await lease.extend(5)


async def test_an_app_that_was_closed_refuses_and_leaves_nobody_waiting(app: InTurn, other: InTurn) -> None:
    async with other.lock("a"):
        waiting = asyncio.create_task(app.lock("a").acquire())
        await until_waiters(other, "a", 1)
        await app.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await asyncio.wait_for(waiting, 20)
        with pytest.raises(StoreUnavailable, match="closed"):
            await app.lock("b").acquire()
        assert app.process.heartbeat._thread is None


@pytest.mark.parametrize(("renew", "why"), [(True, "no renewal in time"), (False, "its time is up")])
async def test_a_lease_whose_time_is_up_is_lost_even_if_its_loop_was_blocked_and_the_store_is_away(
    fresh_redis: PrivateRedis, renew: bool, why: str
) -> None:
    async with InTurn(fresh_redis.url, settings=Settings(store_timeout=4)) as app:
        lock = app.lock("a", ttl=0.5, renew=renew)
        lease = await lock.take()
        fresh_redis.kill()
        wait_until(lambda: lease.remaining() == 0.0)  # the loop stands still
        assert not lease.lost
        with pytest.raises(LeaseLost, match=why):
            await lock.release()
        with pytest.raises(NotHeld):
            await lock.release()


async def test_a_lease_that_was_lost_before_its_grant_was_read_is_asked_for_again(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop was blocked, say, for longer than the lease lived. Its block must not begin: another may hold it."""
    registry, acquire, fences = app.process.registry, app.process.store.acquire, []

    async def late(request: Request) -> Acquired:
        answer = await acquire(request)
        fences.append(answer.fence)
        if len(fences) == 1:
            registry.notice(Notice("lost", request.name, request.token, "expired", answer.fence))
        return answer

    monkeypatch.setattr(app.process.store, "acquire", late)
    async with app.lock("a") as lease:
        assert not lease.lost
        assert lease.fence == fences[-1] > fences[0]
    await until_free(app, "a")


async def test_tasks_that_share_an_owner_enter_a_reentrant_lock_while_another_leaves_it(app: InTurn) -> None:
    async def enter() -> None:
        for _ in range(50):
            async with app.lock("a", owner="job-7", reentrant=True):
                await asyncio.sleep(0)

    await asyncio.gather(*(enter() for _ in range(3)))
    await until_free(app, "a")


async def test_to_look_at_a_lock_changes_nothing_in_it(app: InTurn) -> None:
    """Another thread may be taking it."""
    lock = app.lock("a")
    lease = await lock.take()
    holds = lock._holds
    await lease.release()
    assert "not held" in repr(lock)
    with pytest.raises(NotHeld):
        lock.lease  # noqa: B018
    assert lock._holds is holds
