"""Locks on independent servers: one holder at a time, fences that grow."""

from __future__ import annotations

import asyncio
import time

import pytest

from inturn.errors import (
    DeadlockDetected,
    LockTimeout,
    NotHeld,
    StoreUnavailable,
)
from inturn.locks.quorum import Quorum
from inturn.store.redis import scripts
from tests.chaos.proxy import Proxy
from tests.locks.quorum.world import KEYS, MakeQuorum, are_ready, ask, until_clean, votes
from tests.servers import PrivateRedis
from tests.waiting import until


async def test_a_holder_excludes_everyone_else(quorum: Quorum, other: Quorum, servers: list[PrivateRedis]) -> None:
    async with quorum.lock("x", ttl=60, wait=0) as lease:
        assert 30 < lease.remaining() < 59.4
        assert not lease.lost
        assert votes(servers, "x").count(lease.token) >= 2
        assert not await other.lock("x").acquire(blocking=False)
        with pytest.raises(LockTimeout, match="held by") as late:
            await other.lock("x", wait=0.2).take()
        assert 0.2 <= late.value.waited_s < 20
        async with other.lock("y", wait=0):
            pass
    assert lease.remaining() == 0
    await until_clean(servers, "x")
    async with other.lock("x", wait=0) as later:
        assert later.fence > lease.fence


async def test_a_waiter_gets_it_when_it_is_released(quorum: Quorum, other: Quorum) -> None:
    lock = quorum.lock("x")
    assert await lock.acquire()
    assert lock.fence == lock.lease.fence
    assert 0 < lock.remaining() <= 30
    assert not lock.lost
    waiting = asyncio.create_task(other.lock("x", wait=20).take())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await lock.release()
    lease = await asyncio.wait_for(waiting, 20)
    await lease.release()


@pytest.mark.parametrize("count", [3, 5])
async def test_under_contention_bodies_do_not_overlap_and_fences_grow(
    make_quorum: MakeQuorum, count: int, request: pytest.FixtureRequest
) -> None:
    servers = request.getfixturevalue("servers" if count == 3 else "five_servers")
    fences: list[int] = []
    inside = 0

    async def work(quorum: Quorum) -> None:
        nonlocal inside
        for _ in range(5):
            async with quorum.lock("x", ttl=20, wait=50) as lease:
                inside += 1
                assert inside == 1
                fences.append(lease.fence)
                await asyncio.sleep(0.001)
                assert inside == 1
                inside -= 1

    quorums = [make_quorum(servers), make_quorum(servers)]
    await asyncio.gather(*(work(quorum) for quorum in quorums * 6))
    assert len(fences) == 60
    assert fences == sorted(set(fences))
    await until_clean(servers, "x")


async def test_a_hold_belongs_to_the_object_and_a_second_one_is_refused(quorum: Quorum) -> None:
    lock = quorum.lock("x")
    await asyncio.wait_for(lock.acquire(), 20)
    assert not await lock.acquire(blocking_timeout=0.05)
    assert not await quorum.lock("x", wait=0).acquire()
    await asyncio.create_task(lock.release())
    with pytest.raises(NotHeld):
        await lock.release()
    async with lock:
        assert not await lock.acquire(blocking=False)
        with pytest.raises(DeadlockDetected):
            await quorum.lock("x").acquire()


async def test_leaving_a_block_never_releases_what_another_task_holds(quorum: Quorum) -> None:
    lock = quorum.lock("x")
    is_in, may_go = asyncio.Event(), asyncio.Event()

    async def stranger() -> None:
        async with lock as lease:
            is_in.set()
            await may_go.wait()
            assert not lease.is_over

    with pytest.raises(NotHeld):
        async with lock:
            task = asyncio.create_task(stranger())
            await lock.release()
            await is_in.wait()
    assert not await quorum.lock("x").acquire(blocking=False), "it is still the other task's"
    may_go.set()
    await task


async def test_fences_grow_when_other_servers_grant(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    a, b, c = servers
    c.kill()
    async with quorum.lock("x", wait=20) as first:
        pass
    b.kill()
    a.restart(keep_data=False)
    c.start()
    async with quorum.lock("x", wait=20) as second:
        assert [vote == second.token for vote in votes(servers, "x")] == [True, False, True]
    assert second.fence > first.fence


async def test_a_fence_is_known_to_a_majority_before_it_is_given_out(
    quorum: Quorum, servers: list[PrivateRedis]
) -> None:
    """Far ahead of every clock, a fence can only be passed by a server that has learnt of it."""
    a, b, c = servers
    ahead = time.time_ns() // 1000 + 3600 * 10**6
    ask(a, "SET", KEYS.fence, ahead)
    c.kill()
    async with quorum.lock("x", wait=20) as first:
        assert first.fence == ahead + 1
        assert int(ask(b, "GET", KEYS.fence)) == ahead + 1
    a.kill()
    c.start()
    async with quorum.lock("x", wait=20) as second:
        pass
    assert second.fence > first.fence


async def test_a_fence_that_no_majority_has_confirmed_is_not_given_out(servers: list[PrivateRedis]) -> None:
    async with (
        Proxy(servers[1].port) as one,
        Proxy(servers[2].port) as two,
        Quorum([servers[0].url, one.url, two.url]) as quorum,
    ):
        async with quorum.lock("x", wait=20):
            await until(lambda: are_ready(quorum))
        await until_clean(servers, "x")
        for proxy in (one, two):
            proxy.cut_reply_to = scripts.load("quorum/fence").sha
            proxy.is_open = False
        with pytest.raises(StoreUnavailable):
            await quorum.lock("x", ttl=60, wait=0).take()
        for proxy in (one, two):
            proxy.is_open = True
        await until_clean(servers, "x")
