"""Servers of a quorum that are down, paused, or not fit for it."""

from __future__ import annotations

import asyncio

import pytest

from inturn.errors import (
    LeaseLost,
    LockTimeout,
    SettingsError,
    StoreUnavailable,
)
from inturn.locks.quorum import Quorum
from inturn.locks.quorum import lock as quorum_lock
from inturn.store import clock
from tests.locks.quorum.world import KEYS, MakeQuorum, ask, until_clean, votes
from tests.servers import PrivateRedis
from tests.waiting import until, wait_until


async def test_one_of_three_may_be_down(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    fences = []
    for number in range(3):
        async with quorum.lock("x", wait=20) as lease:
            fences.append(lease.fence)
        servers[number].kill()
        async with quorum.lock("x", wait=20) as lease:
            fences.append(lease.fence)
        servers[number].start()
    assert fences == sorted(set(fences))


async def test_two_of_five_may_be_down_from_the_beginning(
    make_quorum: MakeQuorum, five_servers: list[PrivateRedis]
) -> None:
    quorum = make_quorum(five_servers)
    five_servers[0].kill()
    five_servers[3].kill()
    async with quorum.lock("x", wait=20) as lease:
        assert votes(five_servers, "x").count(lease.token) == 3
    await until_clean(five_servers, "x")


@pytest.mark.parametrize("wait", [0, 0.5])
async def test_without_a_majority_the_caller_is_told_in_time(
    quorum: Quorum, servers: list[PrivateRedis], wait: float
) -> None:
    async with quorum.lock("x", wait=20):
        pass
    servers[0].kill()
    servers[1].kill()
    before = clock.now()
    with pytest.raises(StoreUnavailable, match="no majority of 3 servers") as away:
        await quorum.lock("x", wait=wait).take()
    assert clock.now() - before < wait + 5, "nobody waits for the deadline of a server that is not there"
    assert away.value.__cause__ is not None
    await until_clean(servers, "x")
    servers[0].start()
    async with quorum.lock("x", wait=20):
        pass


async def test_a_lease_whose_time_is_up_is_lost_even_if_its_loop_was_blocked(
    quorum: Quorum, servers: list[PrivateRedis]
) -> None:
    """Nobody could be told before the release, which is then not answered either."""
    lease = await quorum.lock("x", ttl=0.5, wait=20, renew=False).take()
    for server in servers[:2]:
        server.kill()
    wait_until(lambda: lease.remaining() == 0.0)  # the loop stands still
    assert not lease.lost
    with pytest.raises(LeaseLost, match="its time is up"):
        await lease.release()


async def test_who_waits_for_ever_is_told_of_an_absent_majority(
    quorum: Quorum, servers: list[PrivateRedis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_lock, "AWAY_S", 0.3)
    for server in servers:
        server.kill()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(quorum.lock("x", wait=None).take(), 20)


async def test_a_paused_server_is_not_waited_for(make_quorum: MakeQuorum, servers: list[PrivateRedis]) -> None:
    quorum = make_quorum(servers, timeout=12)
    async with quorum.lock("x", ttl=60, wait=20):
        pass
    servers[2].pause()
    try:
        before = clock.now()
        for _ in range(5):
            async with quorum.lock("x", ttl=60, wait=0):
                pass
        assert clock.now() - before < 12, "five locks took less than one server's deadline"
    finally:
        servers[2].resume()
    await until_clean(servers, "x")


async def test_a_paused_server_whose_vote_would_matter_costs_its_deadline(
    make_quorum: MakeQuorum, servers: list[PrivateRedis]
) -> None:
    quorum = make_quorum(servers, timeout=3)
    async with quorum.lock("x", wait=20):
        pass
    await until_clean(servers, "x")  # a release on its way would lose the connection before the vote's own deadline
    ask(servers[0], "SET", KEYS.lock("x"), "host:1:aa#1", "PX", 60_000)
    servers[2].pause()
    try:
        before = clock.now()
        with pytest.raises(LockTimeout) as late:
            await quorum.lock("x", wait=0).take()
        assert 2.95 < clock.now() - before < 10
        assert isinstance(late.value.__cause__, TimeoutError)
        assert late.value.holder == "host:1"
    finally:
        servers[2].resume()
    await until(lambda: votes(servers, "x") == ["host:1:aa#1", None, None])


async def test_a_server_that_could_lose_locks_is_refused(make_quorum: MakeQuorum) -> None:
    with PrivateRedis(extra=("--maxmemory-policy", "allkeys-lru")) as server:
        lock = make_quorum([server]).lock("x", wait=0)
        with pytest.raises(SettingsError, match="noeviction"):
            await lock.take()


async def test_scripts_that_a_server_forgot_are_sent_again(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    for _ in range(3):
        async with quorum.lock("x", wait=0):
            for server in servers:
                ask(server, "SCRIPT", "FLUSH")
    await until_clean(servers, "x")
