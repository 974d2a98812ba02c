"""Whatever ends half-way, cancelled, late or overtaken, leaves nothing behind on any server."""

from __future__ import annotations

import asyncio
import gc

import pytest

from inturn.errors import (
    LeaseLost,
    LockTimeout,
)
from inturn.locks.quorum import Quorum, QuorumLock
from inturn.store.redis import scripts
from inturn.store.redis.quorum.ballot import VERBS
from tests.chaos.proxy import Connection, Proxy
from tests.locks.quorum.world import KEYS, MakeQuorum, are_ready, ask, connections, ticks, until_clean, votes
from tests.servers import PrivateRedis
from tests.waiting import until


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
    async with quorum.lock("warm", wait=20):
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
    async with quorum.lock("x", wait=20):
        pass
    servers[2].pause()
    try:
        lease = await quorum.lock("x", ttl=60, wait=0).take()
        await lease.release()
    finally:
        servers[2].resume()
    await until_clean(servers, "x")


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_an_acquire_that_its_release_has_overtaken_is_taken_back(
    servers: list[PrivateRedis], is_repeated: bool
) -> None:
    """Its bytes are held up in the network, on a connection that we have long given up."""
    async with (
        Proxy(servers[2].port) as proxy,
        Quorum([servers[0].url, servers[1].url, proxy.url], timeout=8) as quorum,
    ):
        async with quorum.lock("x", wait=20):
            await until(lambda: are_ready(quorum))
        await until_clean(servers, "x")
        await hold_back(servers[2], proxy)
        lease = await quorum.lock("x", ttl=60, wait=0).take()
        old = await the_one_that_is_held_back(proxy, "quorum/acquire")
        proxy.is_open = is_repeated
        old.abort_client()
        if is_repeated:  # it was sent again on a new connection
            await until(lambda: votes(servers, "x")[2] == lease.token)
        else:
            await until(lambda: not are_ready(quorum))
        await lease.release()
        await until_clean(servers, "x")
        old.request_flows.set()
        await until(lambda: votes(servers, "x") == [None, None, lease.token])
        proxy.is_open = True
        await until_clean(servers, "x")


@pytest.mark.timed
async def test_a_renewal_that_its_release_has_overtaken_is_taken_back(servers: list[PrivateRedis]) -> None:
    async with (
        Proxy(servers[2].port) as proxy,
        Quorum([servers[0].url, servers[1].url, proxy.url], timeout=3) as quorum,
    ):
        lease = await quorum.lock("x", ttl=12, wait=20).take()
        await until(lambda: votes(servers, "x")[2] == lease.token)
        await hold_back(servers[2], proxy)
        renewing = await the_one_that_is_held_back(proxy, "quorum/extend")
        await lease.release()
        await until_clean(servers, "x")
        renewing.request_flows.set()
        await until(lambda: votes(servers, "x") == [None, None, lease.token])
        await until_clean(servers, "x", within_s=10)  # before its life would have ended


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
    lease = await quorum.lock("x", ttl=60, wait=20).take()
    await lease.release()
    answer = await quorum._store.extend(lease.held.grant, 60, 0.5)
    assert answer.status == "lost"
    await until_clean(servers, "x")


@pytest.mark.timed  # how well a server's clock is known depends on how long it took to ask for it
async def test_bytes_that_arrive_after_the_deadline_change_nothing(
    make_quorum: MakeQuorum, servers: list[PrivateRedis]
) -> None:
    quorum = make_quorum(servers, timeout=2.0)
    async with quorum.lock("x", wait=20):
        pass
    await until(lambda: ask(servers[2], "GET", KEYS.fence) is not None)  # a majority had it before the third was asked
    await until_clean(servers, "x")
    fence = int(ask(servers[2], "GET", KEYS.fence))
    servers[2].pause()
    try:
        lease = await quorum.lock("x", ttl=60, wait=0).take()
        # Let the deadline pass; the bytes lie in the server's socket. Its clock is known to within half of the time
        # that it took to ask for it, which was no longer than a call may take.
        await asyncio.sleep(2.0 * 1.5 + 0.1)
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


async def test_a_hold_whose_object_is_gone_ends_with_a_warning(
    quorum: Quorum, servers: list[PrivateRedis], caplog: pytest.LogCaptureFixture
) -> None:
    assert await quorum.lock("x", ttl=2).acquire()
    assert await quorum.lock("long", ttl=600).acquire()
    assert await quorum.lock("fixed", ttl=600, renew=False).acquire()
    lease = await quorum.lock("kept", ttl=600).take()
    gc.collect()
    await until_clean(servers, "x")
    await until_clean(servers, "long")
    assert "dropped name=x" in caplog.text
    assert "dropped name=long" in caplog.text
    assert await quorum.lock("fixed").locked(), "it lives to its end"
    assert await quorum.lock("kept").locked(), "its lease is here"
    await lease.release()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_hold_whose_loop_was_closed_ends_with_a_warning(
    servers: list[PrivateRedis], caplog: pytest.LogCaptureFixture
) -> None:
    def scene() -> None:
        quorum = Quorum([server.url for server in servers])
        renewed, fixed = quorum.lock("x", ttl=600), quorum.lock("fixed", ttl=600, renew=False)

        async def take_and_leave() -> None:
            assert await renewed.acquire()
            assert await fixed.acquire()

        async def look() -> None:
            await until_clean(servers, "x")
            assert await quorum.lock("fixed").locked(), "it lives to its end"
            await quorum.close()

        asyncio.run(take_and_leave())
        asyncio.run(look())

    scene()
    gc.collect()  # here, where the warnings about the abandoned connections are expected
    assert "dropped name=x" in caplog.text
    assert "its event loop was closed" in caplog.text
    assert "dropped name=fixed" not in caplog.text


async def test_a_block_keeps_its_hold_though_nobody_else_does(quorum: Quorum, caplog: pytest.LogCaptureFixture) -> None:
    async with quorum.lock("x", ttl=60):  # a renewal may come seconds late, and a machine's clock be set forward
        for _ in range(3):  # the thread that renews looks once a second
            await asyncio.sleep(1)
            gc.collect()
        assert await quorum.lock("x").locked()
    assert "dropped" not in caplog.text


async def test_a_lock_with_urls_of_its_own_leaves_no_connections(servers: list[PrivateRedis]) -> None:
    lock = QuorumLock([server.url for server in servers], "x", ttl=10, wait=0)
    async with lock as lease:
        assert votes(servers, "x").count(lease.token) >= 2
    assert votes(servers, "x") == [None] * 3
    await until(lambda: connections(servers) == [0, 0, 0])
    async with lock as again:
        assert again.fence > lease.fence
