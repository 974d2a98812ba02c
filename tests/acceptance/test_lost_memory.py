"""A Redis that comes back empty: fences grow on, bodies under the lost leases stop, their releases are refused."""

from __future__ import annotations

import asyncio
import time

import pytest

from inturn import InTurn
from inturn.errors import LeaseLost
from inturn.settings import Settings
from tests.acceptance.processes import SLACK, Processes
from tests.chaos.proxy import Proxy
from tests.servers import PrivateRedis
from tests.waiting import until

TTL = 1.0


def test_fences_grow_on_after_redis_came_back_empty(
    processes: Processes, fresh_redis: PrivateRedis, namespace: str
) -> None:
    (actor,) = processes.actors(1, fresh_redis.url, namespace)
    fences = []
    for _ in range(3):
        actor.tell("hold", name="x")
        fences.append(actor.hears("granted", "x")["fence"])
        actor.tell("release", name="x")
        actor.hears("released", "x")
        fresh_redis.restart(keep_data=False)
    assert fences == sorted(set(fences))


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_a_body_stops_when_the_store_has_forgotten_its_lease(
    processes: Processes, fresh_redis: PrivateRedis, namespace: str, is_busy: bool
) -> None:
    """Also in a process that goes on working, and so is known to the new memory before its heartbeat asks."""
    holder, other = processes.actors(2, fresh_redis.url, namespace)
    if is_busy:
        holder.tell("busy", name="y")
    for name in ("a", "b", "c") if is_busy else ("a",):  # the heartbeat may be the first to ask, but not each time
        holder.tell("hold", name=name, ttl=TTL)
        holder.hears("granted", name)
        time.sleep(TTL / 8)  # the first beat comes with the lease, the next after a quarter of the ttl
        fresh_redis.restart(keep_data=False)
        other.tell("hold", name=name, ttl=TTL)
        other.hears("granted", name)
        holder.hears("over", name, within=TTL + SLACK)
        holder.hears("LeaseLost", name, within=SLACK)


async def test_a_release_that_is_repeated_after_the_memory_was_lost_is_refused(
    fresh_redis: PrivateRedis, namespace: str
) -> None:
    async with Proxy(fresh_redis.port) as proxy:
        app = InTurn(proxy.url, namespace=namespace, settings=Settings(store_timeout=10.0))
        lock = app.lock("x", ttl=10)
        await lock.acquire()
        lease = lock.lease
        # until the heartbeat has beaten once, and pauses
        await until(lambda: app.process.heartbeat.deadline_of(lease.held) > lease.held.confirmed_at + 9.0001)
        await asyncio.to_thread(fresh_redis.restart, keep_data=False)
        async with app.lock("y", ttl=10):  # the process is known to the new memory
            proxy.cut_replies()
            with pytest.raises(LeaseLost):
                await lock.release()
        await app.close()
