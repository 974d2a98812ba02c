"""Renewal and loss of a lease that a majority holds, and what becomes of its body."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from inturn.errors import (
    LeaseLost,
    NotHeld,
    SettingsError,
    StoreUnavailable,
)
from inturn.locks.quorum import Quorum
from inturn.store import clock
from inturn.store.redis.quorum.store import QuorumExtended
from tests.locks.quorum.world import KEYS, MakeQuorum, ask, until_clean, votes
from tests.servers import PrivateRedis
from tests.store.stopwatch import Stopwatch
from tests.waiting import until


async def test_a_lease_is_renewed_for_as_long_as_its_body_runs(quorum: Quorum, other: Quorum) -> None:
    async with quorum.lock("x", ttl=6, wait=20) as lease:  # a renewal may come seconds late, on a busy machine
        ends_at = clock.now() + 7
        while clock.now() < ends_at:
            await asyncio.sleep(0.1)
            assert lease.remaining() > 0
        assert not await other.lock("x").acquire(blocking=False)


async def test_servers_that_cannot_be_reached_do_not_keep_the_thread_from_renewing(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach, here = quorum._store.reach, threading.current_thread()

    async def reach_here_only() -> None:
        if threading.current_thread() is not here:
            raise SettingsError("two of them are one server")
        await reach()

    monkeypatch.setattr(quorum._store, "reach", reach_here_only)
    async with quorum.lock("x", ttl=30, wait=20) as lease:
        await until(lambda: lease.held in quorum._renewal._watched)


async def test_a_blocked_loop_does_not_lose_the_lease(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    async with quorum.lock("x", ttl=6, wait=20) as lease:  # a renewal may come seconds late, on a busy machine
        ends_at = clock.now() + 7
        while clock.now() < ends_at:
            time.sleep(0.1)  # noqa: ASYNC251
            assert votes(servers, "x").count(lease.token) >= 2
        assert lease.remaining() > 0
        await asyncio.sleep(0)


@pytest.mark.timed
async def test_a_body_is_cancelled_in_time_though_the_thread_that_renews_has_not_connected_yet(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, here = quorum._store, asyncio.get_running_loop()
    really_reach = store.reach

    async def reach() -> None:
        if asyncio.get_running_loop() is here:
            await really_reach()
        else:
            await asyncio.sleep(30)  # as behind servers that do not answer

    async def away(*_: Any) -> QuorumExtended:
        return QuorumExtended("away", clock.now(), [])

    monkeypatch.setattr(store, "reach", reach)
    monkeypatch.setattr(store, "extend", away)
    watches = []
    with pytest.raises(LeaseLost, match="no renewal in time"):
        async with quorum.lock("x", ttl=4, wait=20), Stopwatch() as watch:
            watches.append(watch)
            await asyncio.sleep(30)
    assert watches[0].own_s < 4, "it ended before the servers could grant the lock anew"


@pytest.mark.timed
async def test_a_body_is_cancelled_before_its_lease_ends_unrenewed(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    async with quorum.lock("warm", wait=20):
        pass
    leases, watches = [], []

    async def body() -> None:
        async with quorum.lock("x", ttl=4, wait=20) as lease:
            leases.append(lease)
            for server in servers:
                server.pause()
            async with Stopwatch() as watch:
                watches.append(watch)
                await asyncio.sleep(30)

    with pytest.raises(LeaseLost, match="no renewal in time") as lost:
        await body()
    for server in servers:
        server.resume()
    assert watches[0].own_s < 4, "it ended before the servers could grant the lock anew"
    assert lost.value.fence == leases[0].fence
    assert leases[0].lost
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await until_clean(servers, "x")


async def test_a_lease_that_a_majority_gave_to_another_is_lost_at_the_next_renewal(
    quorum: Quorum, servers: list[PrivateRedis]
) -> None:
    async def body() -> None:
        async with quorum.lock("x", ttl=9, wait=20):
            for server in servers[:2]:
                ask(server, "SET", KEYS.lock("x"), "someone#1", "PX", 60_000)
            await asyncio.sleep(30)

    with pytest.raises(LeaseLost, match="gone when it should have been renewed"):
        await body()
    await until(lambda: votes(servers, "x") == ["someone#1", "someone#1", None])


async def test_a_bare_lease_that_is_lost_says_so_and_its_release_raises(
    quorum: Quorum, servers: list[PrivateRedis]
) -> None:
    lock = quorum.lock("x", ttl=1, wait=20)
    lease = await lock.take()
    for server in servers[:2]:
        server.kill()
    await until(lambda: lease.lost)
    assert lock.lost
    with pytest.raises(LeaseLost):
        await lock.extend(5)
    with pytest.raises(LeaseLost):
        await lock.release()
    with pytest.raises(NotHeld):
        await lock.release()
    assert lease.remaining() == 0


async def test_releasing_what_is_gone_is_a_loss_and_does_not_touch_the_next_holder(
    quorum: Quorum, servers: list[PrivateRedis]
) -> None:
    lease = await quorum.lock("x", ttl=60, wait=20).take()
    for server in servers:
        ask(server, "SET", KEYS.lock("x"), "someone#1")
    with pytest.raises(LeaseLost, match="gone when it was released"):
        await lease.release()
    assert votes(servers, "x") == ["someone#1"] * 3


async def test_releasing_without_a_majority_is_an_absent_store(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    lease = await quorum.lock("x", ttl=60, wait=20).take()
    for server in servers[:2]:
        server.kill()
    with pytest.raises(StoreUnavailable) as away:
        await lease.release()
    assert away.value.__cause__ is not None
    await until_clean(servers, "x")


async def test_a_server_that_comes_back_joins_the_lease_so_that_another_may_go(
    quorum: Quorum, servers: list[PrivateRedis]
) -> None:
    a, b, c = servers
    c.kill()
    async with quorum.lock("x", ttl=6, wait=20) as lease:
        c.start()
        await until(lambda: votes(servers, "x") == [lease.token] * 3)
        a.kill()
        ends_at = clock.now() + 7
        while clock.now() < ends_at:
            await asyncio.sleep(0.1)
            assert lease.remaining() > 0
        b.restart(keep_data=False)
        await until(lambda: votes(servers, "x")[1] == lease.token)
    await until_clean(servers, "x")


async def test_a_renewal_that_meets_a_release_leaves_nothing(
    make_quorum: MakeQuorum, servers: list[PrivateRedis]
) -> None:
    """A server that is asked to renew, is paused, and wakes up after the release, must not vote anew."""
    quorum = make_quorum(servers, timeout=1)
    for _ in range(2):
        async with quorum.lock("x", ttl=6, wait=20) as lease:
            servers[2].pause()
            ends_at = lease.held.ends_at
            await until(lambda ends_at=ends_at, lease=lease: lease.held.ends_at > ends_at)  # type: ignore[misc]
            # the other two have renewed it, and the paused one was asked together with them
        servers[2].resume()
        await until_clean(servers, "x", within_s=5)  # before a vote of its would have ended by itself


@pytest.mark.timed
async def test_a_fixed_life_ends_unless_it_is_extended(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    async def body() -> None:
        async with quorum.lock("x", ttl=4, wait=20, renew=False) as lease:
            async with Stopwatch() as watch:
                assert await lease.extend(5, replace_ttl=True)
                assert lease.remaining() + watch.took_s > 4.3
                assert lease.remaining() < 5
                assert await lease.extend(0.5, replace_ttl=True), "it never becomes shorter"
                assert lease.remaining() + watch.took_s > 4.3
                assert await lease.extend(1)
                assert lease.remaining() + watch.took_s > 5.2
                assert lease.remaining() < 6
            await asyncio.sleep(30)

    with pytest.raises(LeaseLost, match="its time is up"):
        await body()
    await until_clean(servers, "x")


async def test_an_extension_without_a_majority_is_an_absent_store(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    lease = await quorum.lock("x", ttl=20, wait=20).take()
    for server in servers[:2]:
        server.kill()
    with pytest.raises(StoreUnavailable):
        await lease.extend(30)
    assert not lease.lost, "it may still be ours"
    with pytest.raises(StoreUnavailable):
        await lease.release()


async def test_the_bodys_own_error_is_not_hidden(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    async def body() -> None:
        async with quorum.lock("x", wait=20):
            for server in servers[:2]:
                server.kill()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await body()


async def test_a_cancellation_from_elsewhere_goes_on(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with quorum.lock("x", wait=20):
            entered.set()
            await asyncio.sleep(30)

    running = asyncio.create_task(body())
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until_clean(servers, "x")


async def test_servers_whose_clocks_were_set_forward_are_asked_once_more(quorum: Quorum) -> None:
    def set_forward() -> None:
        for server in quorum._store._servers.here():
            server._link.skew_s -= 3600  # as if the server's clock had been set forward by an hour

    async with quorum.lock("warm", wait=20):
        pass
    set_forward()
    lease = await quorum.lock("x", ttl=60, wait=20).take()
    set_forward()
    assert await quorum.lock("x").locked()
    set_forward()
    await lease.extend(60)
    set_forward()
    await lease.release()
    assert not await quorum.lock("x").locked()
