"""A connection that is cut at any byte: each verb still answers as if nothing had happened, and happens once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from tests.servers import PrivateRedis
from tests.store.redis.peers import Open, RedisPeer
from tests.store.redis.proxy import Proxy
from tests.waiting import until

T = TypeVar("T")
AT_A_TIME = 32


async def at_every_byte(count: int, run: Callable[[int], Awaitable[T]], stride: int = 1) -> list[T]:
    """Run once for each k in 0..count, some at a time."""
    places = asyncio.Semaphore(AT_A_TIME)

    async def one(k: int) -> T:
        async with places:
            return await run(k)

    return await asyncio.gather(*(one(k) for k in range(0, count + 1, stride)))


async def exchange(peer: RedisPeer, name: str) -> None:
    """Acquire, look, release, look; what the answers say is what the server has."""
    request = peer.ask(name)
    answer = await peer.acquire(request)
    assert answer.status == "granted"
    view = await peer.store.inspect(name)
    assert view is not None
    assert [(holder.token, holder.fence) for holder in view.holders] == [(request.token, answer.fence)]
    assert view.waiters == ()
    assert (await peer.release(request)).status == "released"
    assert await peer.store.inspect(name) is None


async def length_of_an_exchange(server: PrivateRedis, peer_at: Open, way: str, *, is_greeted: bool) -> int:
    async with Proxy(server.port) as proxy:
        peer = peer_at(proxy.url)
        before = proxy.passed[way]
        if is_greeted:
            await exchange(peer, "warm-up-")
            before = proxy.passed[way]
        await exchange(peer, "n-------")
        return proxy.passed[way] - before


@pytest.mark.parametrize("is_greeted", [True, False], ids=["in the exchange", "from the greeting on"])
async def test_a_reply_that_is_cut_at_any_byte_changes_no_answer(
    redis_server: PrivateRedis, open_at: Open, is_greeted: bool
) -> None:
    count = await length_of_an_exchange(redis_server, open_at, "reply", is_greeted=is_greeted)

    async def run(k: int) -> int:
        async with Proxy(redis_server.port) as proxy:
            peer = open_at(proxy.url, timeout_s=10)
            if is_greeted:
                await exchange(peer, f"w{k:07d}")  # by their sources, which every connection is sent once
            proxy.cut(k)
            await exchange(peer, f"n{k:07d}")
            await peer.store.close()
            return proxy.connections

    connections = await at_every_byte(count - 3, run)  # numbers of other lengths may end the exchange a bit sooner
    assert set(connections) == {2}


async def test_a_request_that_is_cut_at_any_byte_changes_no_answer(redis_server: PrivateRedis, open_at: Open) -> None:
    count = await length_of_an_exchange(redis_server, open_at, "request", is_greeted=True)

    async def run(k: int) -> int:
        async with Proxy(redis_server.port) as proxy:
            peer = open_at(proxy.url, timeout_s=10)
            await exchange(peer, f"w{k:07d}")
            proxy.cut(k, way="request")
            await exchange(peer, f"n{k:07d}")
            await peer.store.close()
            return proxy.connections

    connections = await at_every_byte(count - 3, run, stride=7)
    assert set(connections) == {2}


async def test_a_hand_over_survives_a_cut_at_any_byte_of_the_release(redis_server: PrivateRedis, open_at: Open) -> None:
    """The reply to a release carries the grants to others of its process; a lost one is asked for again."""
    answer = len(
        b"*2\r\n$8\r\nreleased\r\n*1\r\n*4\r\n$20\r\nhost:12345:0001#1234\r\n:1794775343016051\r\n:1794775343016051\r\n:0\r\n"
    )

    async def run(k: int) -> None:
        async with Proxy(redis_server.port) as proxy:
            peer = open_at(proxy.url, timeout_s=10)
            held = await peer.hold(f"n{k:07d}")
            waiting = await peer.wait_for(f"n{k:07d}")
            reopened: list[bool] = []
            peer.store.listen(peer.notices.append, lambda: reopened.append(True))
            proxy.cut(k)
            assert (await peer.release(held)).status == "released"
            if not peer.told("granted", waiting):
                assert reopened  # so that the process knows to look again
            assert (await peer.acquire(waiting)).status == "granted"
            assert (await peer.release(waiting)).status == "released"
            assert await peer.store.inspect(f"n{k:07d}") is None
            await peer.store.close()

    await at_every_byte(answer, run, stride=3)


async def test_a_repeat_that_finds_nothing_was_done_by_the_first_attempt(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url)
    await exchange(peer, "warm")
    request = await peer.hold("n")
    proxy.cut(0)
    assert (await peer.release(request)).status == "released"
    assert proxy.commands[-5:] == ["EVALSHA", "HELLO", "TIME", "SSUBSCRIBE", "EVAL"]


@pytest.mark.parametrize("k", [0, 50, 200])
async def test_an_attempt_that_never_left_is_no_first_attempt(proxy: Proxy, open_at: Open, k: int) -> None:
    peer = open_at(proxy.url)
    await exchange(peer, "warm")
    await peer.store.close()
    proxy.cut(k)  # in the greeting: the release itself is sent once
    assert (await peer.store.release("n", f"{peer.store.process}#999")).status == "gone"
    assert proxy.is_cut


async def test_an_answer_after_a_lost_one_says_until_when_the_lost_one_may_ask_again(
    proxy: Proxy, open_at: Open
) -> None:
    peer = open_at(proxy.url)
    await exchange(peer, "warm")
    request = peer.ask("n")
    proxy.cut(0)
    first = await peer.acquire(request)
    again = await peer.acquire(request)
    assert first.doubt_until > 0.0
    assert again.doubt_until == 0.0
    assert again.fence == first.fence


async def test_many_callers_survive_many_cuts(redis_server: PrivateRedis, open_at: Open) -> None:
    async with Proxy(redis_server.port) as proxy:
        peer = open_at(proxy.url, timeout_s=10)
        await exchange(peer, "warm")
        proxy.cut(*range(1000, 3000, 97))

        async def work(number: int) -> None:
            for _ in range(10):
                await exchange(peer, f"n{number}")

        await asyncio.gather(*map(work, range(50)))
        assert proxy.is_cut
        assert proxy.connections > 20
        await until(lambda: peer.store._link().is_up)
