"""Who is granted when: order of arrival, priorities, capacities, readers and writers. On every store."""

from __future__ import annotations

import asyncio

from inturn.store.protocol import Released, Request
from tests.store.world import Peer, World
from tests.waiting import until

ALL = 2**20


async def test_locks_are_granted_in_order_of_arrival_across_processes(world: World, a: Peer, b: Peer) -> None:
    c = await world.peer()
    holder, held = a, await a.hold("n")
    queue = [(peer, await peer.wait_for("n")) for peer in (b, c, a, a, c, b)]
    for peer, waiting in queue:
        await holder.release(held)
        await until(lambda peer=peer, waiting=waiting: peer.told("granted", waiting))  # type: ignore[misc]
        assert (await peer.acquire(waiting)).status == "granted"
        view = await a.store.inspect("n")
        assert view is not None
        assert [found.token for found in view.holders] == [waiting.token]
        holder, held = peer, waiting


async def test_a_higher_priority_goes_first_and_within_one_the_arrival_counts(a: Peer) -> None:
    held = await a.hold("n")
    priorities = [0, 5, -1000, 5, 1000, 0, -1]
    queue = [(-priority, await a.wait_for("n", priority=priority)) for priority in priorities]
    for _, waiting in sorted(queue, key=lambda item: (item[0], int(item[1].token.rpartition("#")[2]))):
        await a.release(held)
        view = await a.store.inspect("n")
        assert view is not None
        assert [found.token for found in view.holders] == [waiting.token]
        held = waiting


async def test_fences_and_arrivals_grow_over_all_grants(a: Peer, b: Peer) -> None:
    numbers = []
    for round_ in range(20):
        peer = (a, b)[round_ % 2]
        request = peer.ask(f"n{round_ % 3}")
        answer = await peer.acquire(request)
        numbers += [answer.fence]
        await peer.release(request)
    assert numbers == sorted(set(numbers))


async def test_a_waiter_is_granted_with_a_later_fence_than_all_before(a: Peer) -> None:
    held = a.ask("n")
    first = (await a.acquire(held)).fence
    waiting = await a.wait_for("n")
    elsewhere = (await a.acquire(a.ask("other"))).fence
    await a.release(held)
    await until(lambda: a.told("granted", waiting))
    grant = a.told("granted", waiting)[0].grant
    assert grant is not None
    assert grant.fence > elsewhere > grant.arrival > first


async def test_many_callers_at_once_get_one_grant_and_one_place_each(a: Peer, b: Peer) -> None:
    requests = [(a, b)[number % 2].ask("n") for number in range(60)]
    answers = await asyncio.gather(*((a, b)[number % 2].acquire(request) for number, request in enumerate(requests)))
    assert sorted(answer.status for answer in answers) == ["granted"] + ["waiting"] * 59
    assert len({answer.arrival for answer in answers}) == 60
    view = await a.store.inspect("n")
    assert view is not None
    arrivals = [waiter.arrival for waiter in view.waiters]
    assert arrivals == sorted(arrivals)


async def test_a_semaphore_has_as_many_holders_as_permits(a: Peer, b: Peer) -> None:
    held = [await peer.hold("n", capacity=3) for peer in (a, b, a)]
    assert (await b.acquire(b.ask("n", capacity=3, wait=False))).status == "busy"
    waiting = [await b.wait_for("n", capacity=3) for _ in range(2)]
    await a.release(held[0])
    await until(lambda: b.told("granted", waiting[0]))
    assert not b.told("granted", waiting[1])
    assert (await b.acquire(waiting[0])).status == "granted"
    assert (await b.acquire(waiting[1])).status == "waiting"


async def test_a_head_that_does_not_fit_stops_the_queue(a: Peer) -> None:
    small = await a.hold("n", capacity=4, weight=2)
    big = await a.wait_for("n", capacity=4, weight=3)
    fitting = await a.wait_for("n", capacity=4, weight=1)
    assert (await a.acquire(a.ask("n", capacity=4, weight=1, wait=False))).status == "busy"
    await a.release(small)
    await until(lambda: a.told("granted", big) and a.told("granted", fitting))


async def test_a_higher_priority_that_fits_does_not_wait_for_a_lower_one_that_does_not(a: Peer, b: Peer) -> None:
    await a.hold_many(40)  # so that a beat does not find it by chance
    await a.hold("n", capacity=4, weight=2)
    big = await b.wait_for("n", capacity=4, weight=3)
    urgent = await a.hold("n", capacity=4, weight=2, priority=1, ttl_ms=0, life_ms=300)
    assert 0 <= (await b.store.beat(0, [])).due_in_ms <= 300
    assert (await a.acquire(a.ask("n", capacity=4, weight=1, wait=False))).status == "busy"
    await a.release(urgent)
    assert (await b.acquire(big)).status == "waiting"


async def test_a_release_grants_to_all_that_fit(a: Peer, b: Peer) -> None:
    held = await a.hold("n", capacity=4, weight=4)
    queue = [await b.wait_for("n", capacity=4, weight=weight) for weight in (1, 2, 1, 1)]
    await a.release(held)
    await until(lambda: b.told("granted", queue[2]))
    assert [len(b.told("granted", waiting)) for waiting in queue] == [1, 1, 1, 0]


def reader(peer: Peer, wait: bool = True) -> Request:
    return peer.ask("n", capacity=ALL, weight=1, wait=wait)


def writer(peer: Peer, wait: bool = True) -> Request:
    return peer.ask("n", capacity=ALL, weight=ALL, wait=wait)


async def test_readers_share_and_a_writer_is_alone(a: Peer, b: Peer) -> None:
    readers = [reader(peer) for peer in (a, b, a)]
    for request, peer in zip(readers, (a, b, a), strict=True):
        assert (await peer.acquire(request)).status == "granted"
    assert (await b.acquire(writer(b, wait=False))).status == "busy"
    for request, peer in zip(readers, (a, b, a), strict=True):
        await peer.release(request)
    assert (await b.acquire(writer(b))).status == "granted"
    assert (await a.acquire(reader(a, wait=False))).status == "busy"
    assert (await a.acquire(writer(a, wait=False))).status == "busy"


async def test_a_reader_behind_a_waiting_writer_waits(a: Peer, b: Peer) -> None:
    reading, writing, late = reader(a), writer(b), reader(a)
    assert (await a.acquire(reading)).status == "granted"
    assert (await b.acquire(writing)).status == "waiting"
    assert (await a.acquire(reader(a, wait=False))).status == "busy"
    assert (await a.acquire(late)).status == "waiting"
    await a.release(reading)
    await until(lambda: b.told("granted", writing))
    assert (await b.acquire(writing)).status == "granted"
    assert (await a.acquire(late)).status == "waiting"
    await b.release(writing)
    await until(lambda: a.told("granted", late))


async def test_a_writer_that_leaves_lets_the_readers_behind_it_in(a: Peer, b: Peer) -> None:
    reading, writing = reader(a), writer(b)
    await a.acquire(reading)
    await b.acquire(writing)
    late = [reader(peer) for peer in (a, b, a)]
    for request, peer in zip(late, (a, b, a), strict=True):
        assert (await peer.acquire(request)).status == "waiting"
    assert await b.release(writing) == Released("left")
    await until(lambda: a.told("granted", late[0]) and b.told("granted", late[1]) and a.told("granted", late[2]))
    # the one who left granted to its own process for good, to the other one provisionally
    assert b.told("granted", late[1])[0].grant is not None
    assert a.told("granted", late[0])[0].grant is None
