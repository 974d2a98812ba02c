"""A server has one vote, whatever it is called: by its run id, at the first use and whenever a server changes."""

from __future__ import annotations

import asyncio

import pytest

from inturn.errors import LeaseLost, SettingsError, StoreUnavailable
from inturn.locks.quorum import Quorum
from tests.locks.quorum.world import KEYS, MakeQuorum, are_ready, ask, until_clean, votes
from tests.servers import PrivateRedis
from tests.store.redis.proxy import Proxy
from tests.waiting import until


@pytest.mark.parametrize("other_name", ["redis://127.0.0.1:{port}/1", "redis://localhost:{port}/0", "{socket}"])
async def test_a_server_under_two_names_is_refused(servers: list[PrivateRedis], other_name: str) -> None:
    first, second, _ = servers
    again = other_name.format(port=first.port, socket=first.socket_url)
    async with Quorum([first.url, again, second.url], timeout=8) as quorum:
        with pytest.raises(SettingsError, match="the same server"):
            await quorum.lock("x", wait=0).acquire()
    assert votes([first], "x") == [None]


async def test_a_server_that_may_not_say_who_it_is_is_counted(
    servers: list[PrivateRedis], caplog: pytest.LogCaptureFixture
) -> None:
    for server in servers:
        ask(server, "ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-info")
    urls = [server.url.replace("redis://", "redis://u:pw@") for server in servers]
    async with Quorum(urls, timeout=8) as quorum, quorum.lock("x", wait=20):
        pass
    assert "is not known" in caplog.text


async def test_a_server_that_changes_into_another_one_has_no_second_vote(servers: list[PrivateRedis]) -> None:
    first, second, third = servers
    async with Proxy(third.port) as proxy, Quorum([first.url, second.url, proxy.url], timeout=8) as quorum:
        async with quorum.lock("x", ttl=3, wait=20):
            await until(lambda: are_ready(quorum))
        proxy.lead_to(first.port)
        await until(lambda: not are_ready(quorum))
        with pytest.raises(SettingsError, match="the same server"):
            for _ in range(1000):  # until the new connection is there
                async with quorum.lock("x", wait=20):
                    pass
        proxy.lead_to(third.port)
        await until(lambda: not are_ready(quorum))
        await until(lambda: are_counted(quorum))
        async with quorum.lock("x", wait=20):
            pass


async def test_a_lease_does_not_live_on_by_the_second_vote_of_a_server(make_quorum: MakeQuorum) -> None:
    """Of three servers one is gone, and another's name leads to the third now: that is one of three."""
    with PrivateRedis() as first, PrivateRedis() as second, PrivateRedis() as third:
        async with Proxy(third.port) as proxy, Quorum([first.url, second.url, proxy.url], timeout=1) as quorum:
            with pytest.raises(LeaseLost):
                async with quorum.lock("x", ttl=3, wait=20):
                    await until(lambda: are_ready(quorum))
                    proxy.lead_to(first.port)
                    second.kill()
                    await asyncio.sleep(60)


async def test_locked_tells_whether_a_majority_has_voted_for_the_same(
    quorum: Quorum, other: Quorum, servers: list[PrivateRedis]
) -> None:
    lock = quorum.lock("x", wait=20)
    assert not await lock.locked()
    async with lock:
        assert await lock.locked()
        assert await other.lock("x").locked()
    await until_clean(servers, "x")
    assert not await other.lock("x").locked()
    for server, token in zip(servers, ("a", "b", "c"), strict=True):  # votes that elected nobody
        ask(server, "SET", KEYS.lock("x"), token, "PX", 60_000)
    assert not await lock.locked()


async def test_locked_says_so_if_there_is_no_majority_to_ask(
    make_quorum: MakeQuorum, servers: list[PrivateRedis]
) -> None:
    quorum = make_quorum(servers, timeout=1)
    async with quorum.lock("x", wait=20):
        pass
    for server in servers[:2]:
        server.kill()
    with pytest.raises(StoreUnavailable, match="no majority"):
        await quorum.lock("x").locked()


def are_counted(quorum: Quorum) -> bool:
    """Whether all servers have said who they are, and none is another."""
    try:
        for server in quorum._store._servers.here():
            server.must_count()
    except SettingsError:
        return False
    return True
