"""Calls that reach the server late, and answers that never come: nobody may hold, or wait for, what nobody wants.

The late bytes are those of a call that was answered on another connection in the meantime.
"""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn
from inturn.errors import LeaseLost
from inturn.settings import Settings
from inturn.store import clock
from inturn.store.protocol import Notice
from tests.acceptance.conftest import FAR_TIMEOUT_S
from tests.chaos.proxy import Proxy
from tests.waiting import is_soon_free, until, until_waiters


@pytest.mark.parametrize("wait_s", [0.0, 0.1])
async def test_a_late_acquire_of_a_caller_that_was_refused_meanwhile_holds_nothing(
    proxy: Proxy, far: InTurn, near: InTurn, wait_s: float
) -> None:
    held = near.lock("x", ttl=10)
    await held.acquire()
    (main,) = proxy.connections
    main.request_flows.clear()
    asking = asyncio.create_task(far.lock("x", ttl=10, wait=wait_s).acquire())
    await main.lose_client()
    assert not await asking
    await held.release()
    await main.deliver()
    assert await is_soon_free(near, "x", within_s=FAR_TIMEOUT_S + 20.0)


async def test_a_late_acquire_of_a_lock_that_was_granted_and_released_meanwhile_holds_nothing(
    proxy: Proxy, far: InTurn, near: InTurn
) -> None:
    (main,) = proxy.connections
    main.request_flows.clear()
    lock = far.lock("x", ttl=10, owner="me")
    asking = asyncio.create_task(lock.acquire())
    await main.lose_client()
    assert await asking
    await lock.release()
    await main.deliver()
    assert await is_soon_free(near, "x", within_s=FAR_TIMEOUT_S + 20.0)


async def test_a_late_question_of_a_waiter_that_was_granted_meanwhile_holds_nothing(
    proxy: Proxy, far: InTurn, near: InTurn
) -> None:
    """The waiter asks again (as after a lost connection) on one connection, and is granted through another."""
    first, second = far.lock("x", ttl=10, owner="first"), far.lock("x", ttl=10, owner="second")
    (main,) = proxy.connections
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await until_waiters(near, "x", 1)
    main.request_flows.clear()
    far.process.registry.look_again()
    far.process.registry.once_more("x", first.lease.token, 0.0)  # as after a release that could not be sent
    assert await waiting
    await main.lose_client()
    await second.release()
    await main.deliver()
    assert await is_soon_free(near, "x", within_s=FAR_TIMEOUT_S + 20.0)


async def test_a_grant_whose_answer_was_lost_reaches_its_waiter(proxy: Proxy, far: InTurn, near: InTurn) -> None:
    """The heartbeat releases what its holder could not; the store grants to a waiter of the same process."""
    first, second = far.lock("x", ttl=10, owner="first"), far.lock("x", ttl=10, owner="second")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await until_waiters(near, "x", 1)
    proxy.cut_reply_to = first.lease.token.encode()
    far.process.registry.once_more("x", first.lease.token, 0.0)
    async with asyncio.timeout(20):
        assert await waiting
    await second.release()


@pytest.mark.timed
async def test_a_bare_lease_that_is_lost_leaves_its_body_the_margin_to_stop(
    proxy: Proxy, far: InTurn, near: InTurn
) -> None:
    """Without `async with` nothing cancels the body; it looks at `lost`, and must have time for that."""
    (main,) = proxy.connections
    lock = far.lock("x", ttl=5)  # counts as lost half a second before its end
    await lock.acquire()
    lease = lock.lease
    waiting = asyncio.create_task(near.lock("x").acquire())
    await until_waiters(near, "x", 1)
    await until(lambda: len(proxy.connections) == 2)
    (heartbeat,) = proxy.connections - {main}
    proxy.is_open = False  # what is connected stays, and nothing new comes through
    heartbeat.abort()
    looked_at, stalled_s = clock.now(), 0.0
    async with asyncio.timeout(20):
        while not lease.lost:
            await asyncio.sleep(0.001)
            looked_at, before = clock.now(), looked_at
            stalled_s = max(stalled_s, looked_at - before)
        lost_at = looked_at
        assert await waiting
    info = await near.locks.inspect("x")
    assert info is not None
    granted_at = clock.now() - info.holders[0].held_s  # as the store says: we may hear of it at any time after that
    # while this process did not run at all, it could not learn of its loss
    assert granted_at - lost_at > 0.15 - stalled_s, "it was given away while its body could not have stopped yet"


async def test_a_stale_notice_of_a_grant_does_not_overtake_the_holders_own_release(
    proxy: Proxy, far: InTurn, near: InTurn
) -> None:
    """The heartbeat may read of a grant in the inbox just when its holder, who was told by push, releases it."""
    (main,) = proxy.connections
    lock = far.lock("x", ttl=10, owner="me")
    await lock.acquire()
    token, registry, heartbeat = lock.lease.token, far.process.registry, far.process.heartbeat
    await until(lambda: len(proxy.connections) == 2)
    main.request_flows.clear()
    releasing = asyncio.create_task(lock.release())
    await until(lambda: bool(main.held_back))
    assert heartbeat._loop is not None
    heartbeat._loop.call_soon_threadsafe(registry.notice, Notice("granted", "x", token))
    await is_soon_free(near, "x", within_s=0.1)  # only if the notice was taken for a grant that nobody wants
    main.request_flows.set()
    await releasing


async def test_a_release_that_arrives_after_the_lock_went_to_another_is_refused(
    proxy: Proxy, near: InTurn, namespace: str
) -> None:
    """The holder does not know that its lease ended while its release was under way: the store has to say so."""
    async with InTurn(proxy.url, namespace=namespace, settings=Settings(store_timeout=30.0)) as far:
        (main,) = proxy.connections
        lock = far.lock("x", ttl=6, owner="me")
        await lock.acquire()
        waiting = asyncio.create_task(near.lock("x").acquire())
        await until_waiters(near, "x", 1)
        await until(lambda: len(proxy.connections) == 2)
        main.request_flows.clear()
        releasing = asyncio.create_task(lock.release())
        await until(lambda: bool(main.held_back))
        proxy.is_open = False
        (heartbeat,) = proxy.connections - {main}
        heartbeat.abort()
        async with asyncio.timeout(20):
            assert await waiting
        main.request_flows.set()
        with pytest.raises(LeaseLost):
            await releasing
        proxy.is_open = True
