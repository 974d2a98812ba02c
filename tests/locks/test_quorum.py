"""Locks on three and five independent servers, which are killed, paused, emptied and cut off."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from inturn.errors import (
    AlreadyHeld,
    LeaseLost,
    LockTimeout,
    NotHeld,
    SettingsError,
    StoreUnavailable,
)
from inturn.locks import quorum_lock
from inturn.locks.quorum import Quorum, QuorumLock
from inturn.services import PrivateRedis
from inturn.store import clock
from inturn.store.redis import scripts
from inturn.store.redis.ballot import VERBS
from inturn.store.redis.quorum import QuorumKeys
from tests.chaos.proxy import Connection, Proxy

KEYS = QuorumKeys("inturn")
MakeQuorum = Callable[..., Quorum]


@pytest.fixture
def servers() -> Iterator[list[PrivateRedis]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(PrivateRedis()) for _ in range(3)]


@pytest.fixture
def five_servers() -> Iterator[list[PrivateRedis]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(PrivateRedis()) for _ in range(5)]


@pytest.fixture
async def make_quorum() -> AsyncIterator[MakeQuorum]:
    made: list[Quorum] = []

    def make(servers: list[PrivateRedis], **options: Any) -> Quorum:
        # longer than the usual half second: a test that gets the processor late must not take a server for absent
        made.append(Quorum([server.url for server in servers], **{"timeout": 2, **options}))
        return made[-1]

    yield make
    for quorum in made:
        await quorum.close()


@pytest.fixture
async def quorum(make_quorum: MakeQuorum, servers: list[PrivateRedis]) -> Quorum:
    return make_quorum(servers)


@pytest.fixture
async def other(make_quorum: MakeQuorum, servers: list[PrivateRedis]) -> Quorum:
    return make_quorum(servers)


def ask(server: PrivateRedis, *command: Any) -> Any:
    with redis.Redis.from_url(server.url, decode_responses=True, socket_timeout=5) as client:
        return client.execute_command(*command)


def votes(servers: list[PrivateRedis], name: str) -> list[str | None]:
    """Whom each server has voted for; None also for one that is down."""
    return [ask(server, "GET", KEYS.lock(name)) if server.is_running else None for server in servers]


def connections(servers: list[PrivateRedis]) -> list[int]:
    """How many there are beside the one that asks."""
    return [len(ask(server, "CLIENT", "LIST").splitlines()) - 1 for server in servers]


def are_ready(quorum: Quorum) -> bool:
    """Whether all servers are connected on this loop; nothing outside tells."""
    return all(server.is_ready for server in quorum._store._servers.here())


async def until(is_true: Callable[[], object], within_s: float = 10) -> None:
    deadline = clock.now() + within_s
    while not is_true():
        assert clock.now() < deadline, "it did not come true in time"
        await asyncio.sleep(0.005)


async def until_clean(servers: list[PrivateRedis], name: str, within_s: float = 10) -> None:
    await until(lambda: votes(servers, name) == [None] * len(servers), within_s)


async def ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- one at a time -------------------------------------------------------------------------------------------------


async def test_a_holder_excludes_everyone_else(quorum: Quorum, other: Quorum, servers: list[PrivateRedis]) -> None:
    async with quorum.lock("x", ttl=10, wait=0) as lease:
        assert 5 < lease.remaining() < 9.9
        assert not lease.lost
        assert votes(servers, "x").count(lease.token) >= 2
        assert not await other.lock("x").acquire(blocking=False)
        with pytest.raises(LockTimeout, match="held by") as late:
            await other.lock("x", wait=0.2).take()
        assert 0.2 <= late.value.waited_s < 5
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
    lease = await asyncio.wait_for(waiting, 5)
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


async def test_tasks_of_one_quorum_have_their_own_holds(quorum: Quorum) -> None:
    lock = quorum.lock("x")
    await lock.acquire()

    async def stranger() -> None:
        with pytest.raises(NotHeld):
            await lock.release()
        assert not await lock.acquire(blocking_timeout=0.05)

    await asyncio.create_task(stranger())
    with pytest.raises(AlreadyHeld):
        await lock.acquire()
    with pytest.raises(AlreadyHeld):
        await quorum.lock("x", wait=0).acquire()
    await lock.release()
    with pytest.raises(NotHeld):
        await lock.release()


# -- servers that are away -------------------------------------------------------------------------------------------


async def test_one_of_three_may_be_down(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    fences = []
    for number in range(3):
        async with quorum.lock("x", wait=5) as lease:
            fences.append(lease.fence)
        servers[number].kill()
        async with quorum.lock("x", wait=5) as lease:
            fences.append(lease.fence)
        servers[number].start()
    assert fences == sorted(set(fences))


async def test_two_of_five_may_be_down_from_the_beginning(
    make_quorum: MakeQuorum, five_servers: list[PrivateRedis]
) -> None:
    quorum = make_quorum(five_servers)
    five_servers[0].kill()
    five_servers[3].kill()
    async with quorum.lock("x", wait=5) as lease:
        assert votes(five_servers, "x").count(lease.token) == 3
    await until_clean(five_servers, "x")


@pytest.mark.parametrize("wait", [0, 0.5])
async def test_without_a_majority_the_caller_is_told_in_time(
    quorum: Quorum, servers: list[PrivateRedis], wait: float
) -> None:
    async with quorum.lock("x", wait=5):
        pass
    servers[0].kill()
    servers[1].kill()
    before = clock.now()
    with pytest.raises(StoreUnavailable, match="no majority of 3 servers") as away:
        await quorum.lock("x", wait=wait).take()
    assert clock.now() - before < wait + 3
    assert away.value.__cause__ is not None
    await until_clean(servers, "x")
    servers[0].start()
    async with quorum.lock("x", wait=10):
        pass


async def test_who_waits_for_ever_is_told_of_an_absent_majority(
    quorum: Quorum, servers: list[PrivateRedis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_lock, "AWAY_S", 0.3)
    for server in servers:
        server.kill()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(quorum.lock("x", wait=None).take(), 5)


async def test_a_paused_server_is_not_waited_for(make_quorum: MakeQuorum, servers: list[PrivateRedis]) -> None:
    quorum = make_quorum(servers, timeout=8)
    async with quorum.lock("x", wait=5):
        pass
    servers[2].pause()
    try:
        before = clock.now()
        for _ in range(5):
            async with quorum.lock("x", wait=0):
                pass
        assert clock.now() - before < 8, "five locks took less than one server's deadline"
    finally:
        servers[2].resume()
    await until_clean(servers, "x")


async def test_a_paused_server_whose_vote_would_matter_costs_its_deadline(
    make_quorum: MakeQuorum, servers: list[PrivateRedis]
) -> None:
    quorum = make_quorum(servers, timeout=0.3)
    async with quorum.lock("x", wait=5):
        pass
    ask(servers[0], "SET", KEYS.lock("x"), "host:1:aa#1", "PX", 60_000)
    servers[2].pause()
    try:
        before = clock.now()
        with pytest.raises(LockTimeout) as late:
            await quorum.lock("x", wait=0).take()
        assert 0.25 < clock.now() - before < 5
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


# -- fences --------------------------------------------------------------------------------------------------------


async def test_fences_grow_when_other_servers_grant(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    a, b, c = servers
    c.kill()
    async with quorum.lock("x", wait=5) as first:
        pass
    b.kill()
    a.restart(keep_data=False)
    c.start()
    async with quorum.lock("x", wait=10) as second:
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
    async with quorum.lock("x", wait=5) as first:
        assert first.fence == ahead + 1
        assert int(ask(b, "GET", KEYS.fence)) == ahead + 1
    a.kill()
    c.start()
    async with quorum.lock("x", wait=10) as second:
        pass
    assert second.fence > first.fence


async def test_a_fence_that_no_majority_has_confirmed_is_not_given_out(servers: list[PrivateRedis]) -> None:
    async with (
        Proxy(servers[1].port) as one,
        Proxy(servers[2].port) as two,
        Quorum([servers[0].url, one.url, two.url]) as quorum,
    ):
        async with quorum.lock("x", wait=5):
            await until(lambda: are_ready(quorum))
        await until_clean(servers, "x")
        for proxy in (one, two):
            proxy.cut_reply_to = scripts.load("quorum_fence").sha
            proxy.is_open = False
        with pytest.raises(StoreUnavailable):
            await quorum.lock("x", ttl=60, wait=0).take()
        for proxy in (one, two):
            proxy.is_open = True
        await until_clean(servers, "x")


# -- nothing is left behind ------------------------------------------------------------------------------------------


async def test_split_votes_are_taken_back(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    ask(servers[1], "SET", KEYS.lock("x"), "someone#1", "PX", 60_000)
    ask(servers[2], "SET", KEYS.lock("x"), "another#1", "PX", 60_000)
    with pytest.raises(LockTimeout):
        await quorum.lock("x", wait=0.1).take()
    await until(lambda: votes(servers, "x") == [None, "someone#1", "another#1"])


@pytest.mark.parametrize(("is_warm", "step"), [(True, 1), (False, 5)])
async def test_a_cancelled_acquire_keeps_nothing_wherever_it_is_cancelled(
    quorum: Quorum, servers: list[PrivateRedis], is_warm: bool, step: int
) -> None:
    async with quorum.lock("warm", wait=5):
        pass
    count, passed, is_done = 0, 0, False
    while not is_done:
        name = f"x{count}"
        if not is_warm:
            await quorum.close()
        taking = asyncio.create_task(quorum.lock(name, ttl=60).take())
        await ticks(passed)
        is_done = taking.done()
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        if not is_done:
            await until_clean(servers, name)
        count += 1
        passed += step + passed // 20  # where answers are slow the loop turns often, and it must come to an end
    assert count > 5, "it was cancelled at several places"


async def test_a_cancelled_release_happens_all_the_same(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    for count in range(8):
        lease = await quorum.lock("x", ttl=60, wait=0).take()
        releasing = asyncio.create_task(lease.release())
        await ticks(count)
        releasing.cancel()
        await asyncio.gather(releasing, return_exceptions=True)
        if count == 0:
            await lease.release()  # it had not begun
        await until_clean(servers, "x")


async def test_a_grant_that_arrives_late_is_taken_back(make_quorum: MakeQuorum, servers: list[PrivateRedis]) -> None:
    """The server wakes up before the deadline, votes, and has to be told that nobody wants its vote."""
    quorum = make_quorum(servers, timeout=8)
    async with quorum.lock("x", wait=5):
        pass
    servers[2].pause()
    try:
        lease = await quorum.lock("x", ttl=60, wait=0).take()
        await lease.release()
    finally:
        servers[2].resume()
    await until_clean(servers, "x", within_s=5)


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_an_acquire_that_its_release_has_overtaken_is_taken_back(
    servers: list[PrivateRedis], is_repeated: bool
) -> None:
    """Its bytes are held up in the network, on a connection that we have long given up."""
    async with (
        Proxy(servers[2].port) as proxy,
        Quorum([servers[0].url, servers[1].url, proxy.url], timeout=4) as quorum,
    ):
        async with quorum.lock("x", wait=5):
            await until(lambda: are_ready(quorum))
        await until_clean(servers, "x")
        await hold_back(servers[2], proxy)
        lease = await quorum.lock("x", ttl=60, wait=0).take()
        old = await the_one_that_is_held_back(proxy, "quorum_acquire")
        proxy.is_open = is_repeated
        old.abort_client()
        if is_repeated:  # it was sent again on a new connection
            await until(lambda: votes(servers, "x")[2] == lease.token)
        else:
            await until(lambda: not are_ready(quorum))
        await lease.release()
        await until_clean(servers, "x")
        old.request_flows.set()
        await until(lambda: votes(servers, "x") == [None, None, lease.token], within_s=3)
        proxy.is_open = True
        await until_clean(servers, "x")


@pytest.mark.alone
async def test_a_renewal_that_its_release_has_overtaken_is_taken_back(servers: list[PrivateRedis]) -> None:
    async with (
        Proxy(servers[2].port) as proxy,
        Quorum([servers[0].url, servers[1].url, proxy.url], timeout=3) as quorum,
    ):
        lease = await quorum.lock("x", ttl=6, wait=5).take()
        await until(lambda: votes(servers, "x")[2] == lease.token)
        await hold_back(servers[2], proxy)
        renewing = await the_one_that_is_held_back(proxy, "quorum_extend")
        await lease.release()
        await until_clean(servers, "x")
        renewing.request_flows.set()
        await until(lambda: votes(servers, "x") == [None, None, lease.token], within_s=1)
        await until_clean(servers, "x", within_s=3)


async def hold_back(server: PrivateRedis, proxy: Proxy) -> None:
    """What our loop and the thread will ask; both have been greeted by now, and have loaded the scripts."""
    await until(lambda: scripts_loaded(server) >= 2 * len(VERBS))
    for connection in proxy.connections:
        connection.request_flows.clear()


def scripts_loaded(server: PrivateRedis) -> int:
    calls: int = ask(server, "INFO", "commandstats").get("cmdstat_script|load", {"calls": 0})["calls"]
    return calls


async def the_one_that_is_held_back(proxy: Proxy, verb: str) -> Connection:
    """The other may go on, whatever it was about to say."""
    sha = scripts.load(verb).sha
    await until(lambda: any(sha in connection.held_back for connection in proxy.connections))
    (held_back,) = [connection for connection in proxy.connections if sha in connection.held_back]
    for connection in proxy.connections - {held_back}:
        connection.request_flows.set()
    return held_back


async def test_what_was_released_is_never_renewed(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    lease = await quorum.lock("x", ttl=60, wait=5).take()
    await lease.release()
    answer = await quorum._store.extend(lease.grant, 60, 0.5)
    assert answer.status == "lost"
    await until_clean(servers, "x")


async def test_bytes_that_arrive_after_the_deadline_change_nothing(
    make_quorum: MakeQuorum, servers: list[PrivateRedis]
) -> None:
    quorum = make_quorum(servers, timeout=1.0)
    async with quorum.lock("x", wait=5):
        pass
    fence = int(ask(servers[2], "GET", KEYS.fence))
    servers[2].pause()
    try:
        lease = await quorum.lock("x", ttl=60, wait=0).take()
        await asyncio.sleep(1.2)  # let the deadline pass; the bytes lie in the server's socket
    finally:
        servers[2].resume()
    assert votes(servers, "x")[2] is None
    assert int(ask(servers[2], "GET", KEYS.fence)) == fence
    await lease.release()
    await until_clean(servers, "x")


async def test_closing_gives_back_what_is_held_and_ends_the_body(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with quorum.lock("x", ttl=60):
            entered.set()
            await asyncio.sleep(30)

    running = asyncio.create_task(body())
    await entered.wait()
    await quorum.close()
    with pytest.raises(LeaseLost, match="closed"):
        await running
    assert votes(servers, "x") == [None] * 3
    await until(lambda: connections(servers) == [0, 0, 0])


async def test_a_lock_with_urls_of_its_own_leaves_no_connections(servers: list[PrivateRedis]) -> None:
    lock = QuorumLock([server.url for server in servers], "x", ttl=10, wait=0)
    async with lock as lease:
        assert votes(servers, "x").count(lease.token) >= 2
    assert votes(servers, "x") == [None] * 3
    await until(lambda: connections(servers) == [0, 0, 0])
    async with lock as again:
        assert again.fence > lease.fence


# -- renewal and loss ------------------------------------------------------------------------------------------------


async def test_a_lease_is_renewed_for_as_long_as_its_body_runs(quorum: Quorum, other: Quorum) -> None:
    async with quorum.lock("x", ttl=3, wait=5) as lease:
        ends_at = clock.now() + 4
        while clock.now() < ends_at:
            await asyncio.sleep(0.1)
            assert lease.remaining() > 0
        assert not await other.lock("x").acquire(blocking=False)


async def test_a_blocked_loop_does_not_lose_the_lease(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    async with quorum.lock("x", ttl=3, wait=5) as lease:
        ends_at = clock.now() + 4
        while clock.now() < ends_at:
            time.sleep(0.1)  # noqa: ASYNC251
            assert votes(servers, "x").count(lease.token) >= 2
        assert lease.remaining() > 0
        await asyncio.sleep(0)


@pytest.mark.alone
async def test_a_body_is_cancelled_before_its_lease_ends_unrenewed(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    async with quorum.lock("warm", wait=5):
        pass
    leases, ran_s = [], []

    async def body() -> None:
        async with quorum.lock("x", ttl=4, wait=5) as lease:
            leases.append(lease)
            for server in servers:
                server.pause()
            paused_at = clock.now()
            try:
                await asyncio.sleep(30)
            finally:
                ran_s.append(clock.now() - paused_at)

    with pytest.raises(LeaseLost, match="no renewal in time") as lost:
        await body()
    for server in servers:
        server.resume()
    assert ran_s[0] < 4, "it ended before the servers could grant the lock anew"
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
        async with quorum.lock("x", ttl=3, wait=5):
            for server in servers[:2]:
                ask(server, "SET", KEYS.lock("x"), "someone#1", "PX", 60_000)
            await asyncio.sleep(30)

    with pytest.raises(LeaseLost, match="gone when it should have been renewed"):
        await body()
    await until(lambda: votes(servers, "x") == ["someone#1", "someone#1", None])


async def test_a_bare_lease_that_is_lost_says_so_and_its_release_raises(
    quorum: Quorum, servers: list[PrivateRedis]
) -> None:
    lock = quorum.lock("x", ttl=1, wait=5)
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
    lease = await quorum.lock("x", ttl=60, wait=5).take()
    for server in servers:
        ask(server, "SET", KEYS.lock("x"), "someone#1")
    with pytest.raises(LeaseLost, match="gone when it was released"):
        await lease.release()
    assert votes(servers, "x") == ["someone#1"] * 3


async def test_releasing_without_a_majority_is_an_absent_store(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    lease = await quorum.lock("x", ttl=60, wait=5).take()
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
    async with quorum.lock("x", ttl=2, wait=5) as lease:
        c.start()
        await until(lambda: votes(servers, "x") == [lease.token] * 3)
        a.kill()
        ends_at = clock.now() + 4
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
        async with quorum.lock("x", ttl=3, wait=5):
            await asyncio.sleep(0.8)
            servers[2].pause()
            await asyncio.sleep(0.4)  # the renewal after a second finds it paused
        servers[2].resume()
        await until_clean(servers, "x", within_s=2)


@pytest.mark.alone
async def test_a_fixed_life_ends_unless_it_is_extended(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    async def body() -> None:
        async with quorum.lock("x", ttl=1, wait=5, renew=False) as lease:
            assert await lease.extend(2, replace_ttl=True)
            assert 1.5 < lease.remaining() < 2
            assert await lease.extend(0.5, replace_ttl=True), "it never becomes shorter"
            assert lease.remaining() > 1.4
            assert await lease.extend(1)
            assert 2 < lease.remaining() < 3
            await asyncio.sleep(30)

    with pytest.raises(LeaseLost, match="its time is up"):
        await body()
    await until_clean(servers, "x")


async def test_an_extension_without_a_majority_is_an_absent_store(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    lease = await quorum.lock("x", ttl=20, wait=5).take()
    for server in servers[:2]:
        server.kill()
    with pytest.raises(StoreUnavailable):
        await lease.extend(30)
    assert not lease.lost, "it may still be ours"
    with pytest.raises(StoreUnavailable):
        await lease.release()


# -- bodies ------------------------------------------------------------------------------------------------------------


async def test_the_bodys_own_error_is_not_hidden(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    async def body() -> None:
        async with quorum.lock("x", wait=5):
            for server in servers[:2]:
                server.kill()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await body()


async def test_a_cancellation_from_elsewhere_goes_on(quorum: Quorum, servers: list[PrivateRedis]) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with quorum.lock("x", wait=5):
            entered.set()
            await asyncio.sleep(30)

    running = asyncio.create_task(body())
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until_clean(servers, "x")


# -- set-up ------------------------------------------------------------------------------------------------------------


async def test_bad_input_is_named(quorum: Quorum) -> None:
    for wrong in ("redis://localhost", [], [7]):
        with pytest.raises(TypeError, match="urls"):
            Quorum(wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="named twice"):
        Quorum(["redis://localhost:7001", "redis://localhost:7001/0"])
    with pytest.raises(SettingsError, match="Redis URL"):
        Quorum(["sqlite:///x.db"])
    with pytest.raises(ValueError, match="timeout=0"):
        Quorum(["redis://localhost"], timeout=0)
    with pytest.raises(ValueError, match="name=''"):
        quorum.lock("")
    with pytest.raises(ValueError, match=r"ttl=0\.05"):
        quorum.lock("x", ttl=0.05)
    with pytest.raises(ValueError, match="wait=-1"):
        quorum.lock("x", wait=-1)


def test_without_redis_py_the_extra_is_named() -> None:
    program = """
import sys
sys.modules["redis"] = sys.modules["hiredis"] = None
from inturn.errors import MissingExtra
from inturn.locks.quorum import Quorum
try:
    Quorum(["redis://localhost"])
except MissingExtra as missing:
    print(missing)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert "inturn[redis]" in done.stdout, done.stderr


FORKING = """
import asyncio, os, sys
from inturn.locks.quorum import Quorum

quorum = Quorum(sys.argv[1:])

async def in_child(lease):
    assert lease.lost and lease.remaining() == 0
    assert not await quorum.lock("x", wait=0).acquire(), "the parent has it"
    async with quorum.lock("x", wait=20) as mine:
        assert mine.fence > lease.fence
    await quorum.close()

async def in_parent(lease):
    await asyncio.sleep(2)
    assert lease.remaining() > 0, "it was renewed"
    await lease.release()

with asyncio.Runner() as runner:
    lease = runner.run(quorum.lock("x", ttl=1, wait=5).take())
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(in_child(lease))
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    runner.run(in_parent(lease))
    assert os.waitpid(child, 0)[1] == 0, "the child was content"
    runner.run(quorum.close())
"""


def test_after_a_fork_the_lease_stays_with_the_parent(servers: list[PrivateRedis], tmp_path: Path) -> None:
    program = tmp_path / "forking.py"
    program.write_text(FORKING)
    urls = [server.url for server in servers]
    done = subprocess.run([sys.executable, program, *urls], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
