"""Coming in: the ways to a server, what is said on entering, and servers that are none."""

from __future__ import annotations

import asyncio
import socket

import pytest

from inturn.errors import StoreUnavailable
from inturn.store.redis.address import Address
from inturn.store.redis.link import Link, LinkRefused
from tests.servers import PrivateRedis
from tests.store.redis.fake import GREETING, FakeServer
from tests.store.redis.peers import Open, admin, started
from tests.store.stopwatch import Stopwatch
from tests.waiting import until


async def test_a_database_number_is_selected_also_after_a_reconnect(
    fresh_redis: PrivateRedis, open_at: Open, namespace: str
) -> None:
    peer = open_at(fresh_redis.url.removesuffix("/0") + "/3")
    request = await peer.hold("n")
    with admin(fresh_redis) as owner, admin(fresh_redis, db=3) as third:
        assert owner.dbsize() == 0
        assert third.exists(f"{namespace}:{{0}}:lock:n")
        owner.client_kill_filter(_type="pubsub")
        assert (await peer.release(request)).status == "released"
        assert not third.exists(f"{namespace}:{{0}}:lock:n")


async def test_a_database_that_is_not_there_is_refused_at_once(redis_server: PrivateRedis, open_at: Open) -> None:
    peer = open_at(redis_server.url.removesuffix("/0") + "/99")
    with pytest.raises(StoreUnavailable, match="DB index is out of range"):
        await peer.acquire(peer.ask("n"))


async def test_a_unix_socket_serves_as_well(fresh_redis: PrivateRedis, open_at: Open) -> None:
    one, other = open_at(fresh_redis.socket_url), open_at(fresh_redis.socket_url + "?db=0")
    held = await one.hold("n")
    waiting = await other.wait_for("n")
    await one.release(held)
    await until(lambda: other.told("granted", waiting))
    fresh_redis.restart(keep_data=False)
    await one.hold("n")


async def test_keepalive_is_on(redis_server: PrivateRedis) -> None:
    link = Link(Address.from_url(redis_server.url), 1.0, (), lambda push: None, lambda is_again: None)
    await link.open()
    assert link._transport is not None
    sock = link._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    link.close()


async def test_a_push_that_comes_during_the_greeting_is_heard(redis_server: PrivateRedis, namespace: str) -> None:
    pushes: list[bytes] = []
    channels = [f"{namespace}:{{0}}:{n}" for n in range(200)]
    link = Link(Address.from_url(redis_server.url), 5.0, channels, pushes.append, lambda is_again: None)
    with admin(redis_server) as owner:
        opening = await started(link.open())
        await until(lambda: owner.execute_command("SPUBLISH", channels[0], "early"), pause_s=0)  # a greeting is short
        was_up = link.is_up
        await opening
    assert pushes == [b"early"]
    assert not was_up
    assert await link.ask("ECHO", "hi") == b"hi"
    link.close()


HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
SSH = b"SSH-2.0-OpenSSH_9.2\r\n"


@pytest.mark.parametrize(
    "server",
    [FakeServer({b"HELLO": HTTP}, hangs_up_after=b"HELLO"), FakeServer({}, greeting=SSH)],
    ids=["answers as HTTP", "speaks first"],
)
async def test_a_server_that_is_no_redis_is_refused_at_once(open_at: Open, server: FakeServer) -> None:
    async with server, asyncio.timeout(10):
        peer = open_at(server.url, timeout_s=50)
        with pytest.raises(StoreUnavailable, match="does not speak the Redis protocol") as refused:
            await peer.acquire(peer.ask("n"))
        assert isinstance(refused.value.__cause__, LinkRefused)


@pytest.mark.timed
async def test_a_server_that_closes_at_once_is_given_up_in_time(open_at: Open) -> None:
    async with FakeServer({b"HELLO": b""}, hangs_up_after=b"HELLO") as server, Stopwatch() as watch:
        peer = open_at(server.url, timeout_s=0.3)
        with pytest.raises(StoreUnavailable, match="closed the connection"):
            await peer.acquire(peer.ask("n"))
    assert watch.own_s < 1


@pytest.mark.timed
async def test_a_subscription_that_ends_with_the_last_word_of_the_greeting_is_no_connection(open_at: Open) -> None:
    ended = b">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n"  # the slot moved at this very moment
    async with FakeServer({**GREETING, b"SSUBSCRIBE": GREETING[b"SSUBSCRIBE"] + ended}) as server, Stopwatch() as watch:
        peer = open_at(server.url, timeout_s=0.3)
        with pytest.raises(StoreUnavailable, match="ended the subscription"):
            await peer.acquire(peer.ask("n"))
        assert watch.own_s < 1
        await peer.store.close()
