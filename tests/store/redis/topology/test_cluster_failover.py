"""A master that dies or hangs: its replica takes its place, and calls are repeated there until their deadline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from inturn.errors import StoreUnavailable
from inturn.store.redis.topology.slots import slot_of
from tests.servers import ClusterNode, PrivateCluster
from tests.servers.cluster import NODE_TIMEOUT_MS
from tests.store.redis.conftest import Reserve, have_patience
from tests.store.redis.peers import Open, RedisPeer, started
from tests.store.redis.topology.clusters import is_copied, names_at, partitions_of
from tests.store.stopwatch import Stopwatch
from tests.waiting import until


async def test_a_killed_masters_locks_live_on_at_its_replica(fresh_cluster: PrivateCluster, open_at: Open) -> None:
    cluster, first = fresh_cluster, fresh_cluster.masters[0]
    one, other = open_at(cluster.url, timeout_s=30), open_at(cluster.url, timeout_s=30)
    name, another = names_at(one.store, cluster, first, 2)
    elsewhere = names_at(one.store, cluster, cluster.masters[1], 1)[0]
    held = await one.hold(name)
    waiting = await other.wait_for(name)
    reopened: list[bool] = []
    other.store.listen(other.notices.append, lambda: reopened.append(True))
    await until(lambda: is_copied(first))
    first.kill()
    acquiring = await started(one.acquire(one.ask(another)))
    assert (await acquiring).status == "granted"  # repeated until the replica was promoted
    await one.release(await one.hold(elsewhere))
    await until(lambda: reopened)  # also where nobody called: pushes may be missing, so one asks again
    assert (await other.acquire(waiting)).status == "waiting"
    assert (await one.release(held)).status == "released"
    await until(lambda: other.told("granted", waiting))
    assert partitions_of(one.store, cluster, cluster.replica)


async def until_beats(peer: RedisPeer, partition: int) -> None:
    """The node is tried in the background, and beats reach it again."""
    async with asyncio.timeout(20):
        while True:
            try:
                await peer.store.beat(partition, ())
            except StoreUnavailable:
                await asyncio.sleep(0.02)
            else:
                return


@pytest.mark.timed
async def test_without_a_replica_the_partitions_of_a_killed_master_are_given_up_in_time(
    fresh_cluster: PrivateCluster, open_at: Open
) -> None:
    cluster, last = fresh_cluster, fresh_cluster.masters[2]
    for node in cluster.nodes:
        node.tell("CONFIG", "SET", "cluster-require-full-coverage", "no")
    peer = open_at(cluster.url, timeout_s=2)
    here, there = names_at(peer.store, cluster, cluster.masters[0], 1)[0], names_at(peer.store, cluster, last, 1)[0]
    partition = peer.store.partition_of(there)
    await until_beats(peer, partition)
    patient = open_at(cluster.url, timeout_s=20)
    await patient.release(await patient.hold(there))
    last.kill()
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable):
            await peer.hold(there)
    assert watch.took_s >= 2.0
    assert watch.own_s < 2.6
    await peer.release(await peer.hold(here))
    with pytest.raises(StoreUnavailable):
        await peer.store.beat(partition, ())
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable, match="is away"):
            await peer.store.beat(partition, ())  # it is known by now, and does not hold up the beats of the others
    assert watch.own_s < 0.2
    last.start()
    await until_beats(peer, partition)
    assert (await patient.acquire(patient.ask(there))).status == "granted"


async def test_a_master_that_hangs_is_left_when_its_replica_was_promoted(
    fresh_cluster: PrivateCluster, open_at: Open
) -> None:
    cluster, first = fresh_cluster, fresh_cluster.masters[0]
    peer = open_at(cluster.url, timeout_s=12)
    name, other = names_at(peer.store, cluster, first, 2)
    await peer.release(await peer.hold(name))
    await until(lambda: is_copied(first))
    first.pause()  # connections stay open, and nothing is answered
    fresh = open_at(cluster.url, timeout_s=12)  # one that has never been connected
    answers = await asyncio.gather(peer.acquire(peer.ask(name)), fresh.acquire(fresh.ask(other)))
    assert {answer.status for answer in answers} == {"granted"}
    first.resume()  # what it had been sent before it hung is past its deadline, or refused by now
    view = await peer.store.inspect(name)
    assert view is not None
    assert len(view.holders) == 1


TICK_S = 0.01


@pytest.fixture(scope="module")
def maimed(clusters: Reserve[PrivateCluster]) -> Iterator[PrivateCluster]:
    """Its last master is dead and has no replica. The others go on without it."""
    with clusters.take() as cluster:
        have_patience(cluster, NODE_TIMEOUT_MS)  # none any more
        for node in cluster.nodes:
            node.tell("CONFIG", "SET", "cluster-require-full-coverage", "no")
        cluster.masters[2].kill()
        cluster.wait_until(lambda: all(map(_misses_one, cluster.masters[:2])), "the dead node is not missed")
        yield cluster


def _misses_one(node: ClusterNode) -> bool:
    """Whether it knows that another one is dead, and serves what it has."""
    return " master,fail " in node.tell("CLUSTER", "NODES") and node.facts("CLUSTER", "INFO")["cluster_state"] == "ok"


def _begin_to_move(cluster: PrivateCluster, slot: int) -> ClusterNode:
    """To a new node, which has no slots yet."""
    source, target = cluster.owner(slot), cluster.add(ClusterNode())
    target.tell("CONFIG", "SET", "cluster-require-full-coverage", "no")
    source.tell("CLUSTER", "MEET", "127.0.0.1", target.port, target.bus_port)
    cluster.wait_until(
        lambda: target.id in source.tell("CLUSTER", "NODES") and source.id in target.tell("CLUSTER", "NODES"),
        "they have not met",
    )
    cluster.wait_until(lambda: cluster.is_well(target), "the new node is not ready")
    target.tell("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.tell("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    return target


@asynccontextmanager
async def gaps() -> AsyncIterator[list[float]]:
    """How long the event loop did nothing else, over and over.

    By a thread that ticks beside it: while the machine lets neither of them run, no time passes.
    """
    found: list[float] = []
    count, is_over = 0, threading.Event()

    def count_ticks() -> None:
        nonlocal count
        while not is_over.wait(TICK_S):
            count += 1

    async def tick() -> None:
        while True:
            began_at = count
            await asyncio.sleep(TICK_S)
            found.append((count - began_at - 1) * TICK_S)

    thread = threading.Thread(target=count_ticks)
    thread.start()
    ticking = asyncio.create_task(tick())
    try:
        yield found
        number = len(found)
        await until(lambda: len(found) > number)  # the last one is measured too
    finally:
        ticking.cancel()
        is_over.set()
        thread.join()


@pytest.mark.timed
async def test_a_dead_node_that_a_slot_was_moved_to_does_not_block_the_event_loop(
    maimed: PrivateCluster, open_at: Open
) -> None:
    store = open_at(maimed.url, timeout_s=2.0).store
    key = "plain:moving"
    target = _begin_to_move(maimed, slot_of(key))
    assert await store.command("GET", key) is None  # the target has answered that
    target.kill()
    async with gaps() as found:
        async with Stopwatch() as watch:
            with pytest.raises(StoreUnavailable):
                await store.command("GET", key)
        assert watch.took_s >= 1.9
        assert watch.own_s < 3.0
    assert len(found) > 20
    assert max(found) < 0.4


async def test_a_process_can_start_while_a_master_is_away_and_warns(maimed: PrivateCluster, open_at: Open) -> None:
    peer = open_at(maimed.url, timeout_s=3.0)
    warnings = await peer.store.check()
    assert [warning for warning in warnings if f":{maimed.masters[2].port}" in warning and "was not checked" in warning]
    for node in maimed.masters[:2]:
        await peer.release(await peer.hold(names_at(peer.store, maimed, node, 1)[0]))
