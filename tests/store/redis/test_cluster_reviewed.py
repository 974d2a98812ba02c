"""Promises about clusters, sentinels and replicas that a review found broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager

import pytest

from inturn import CommitUnknown, InTurn
from inturn.errors import StoreUnavailable
from inturn.services import ClusterNode, PrivateCluster, PrivateRedis, PrivateSentinels
from inturn.services.word import facts, tell
from inturn.settings import Settings
from inturn.store import clock
from inturn.store.redis.topology.slots import slot_of
from tests.store.redis.topology.clusters import names_at
from tests.store.redis.conftest import Reserve
from tests.store.redis.peers import Open
from tests.store.redis.proxy import Proxy
from tests.store.world import until

TICK_S = 0.01


@pytest.fixture(scope="module")
def maimed(clusters: Reserve[PrivateCluster]) -> Iterator[PrivateCluster]:
    """Its last master is dead and has no replica. The others go on without it."""
    with clusters.take() as cluster:
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
    """How long the event loop did nothing else, over and over."""
    found: list[float] = []

    async def tick() -> None:
        while True:
            began_at = clock.now()
            await asyncio.sleep(TICK_S)
            found.append(clock.now() - began_at - TICK_S)

    ticking = asyncio.create_task(tick())
    try:
        yield found
        count = len(found)
        await until(lambda: len(found) > count)  # the last one is measured too
    finally:
        ticking.cancel()


@pytest.mark.alone
async def test_a_dead_node_that_a_slot_was_moved_to_does_not_block_the_event_loop(
    maimed: PrivateCluster, open_at: Open
) -> None:
    store = open_at(maimed.url, timeout_s=1.0).store
    key = "plain:moving"
    target = _begin_to_move(maimed, slot_of(key))
    assert await store.command("GET", key) is None  # the target has answered that
    target.kill()
    async with gaps() as found:
        sent_at = clock.now()
        with pytest.raises(StoreUnavailable):
            await store.command("GET", key)
        assert 0.9 <= clock.now() - sent_at < 2.0
    assert len(found) > 20
    assert max(found) < 0.4


async def test_a_process_can_start_while_a_master_is_away_and_warns(maimed: PrivateCluster, open_at: Open) -> None:
    peer = open_at(maimed.url, timeout_s=1.0)
    warnings = await peer.store.check()
    assert [warning for warning in warnings if f":{maimed.masters[2].port}" in warning and "was not checked" in warning]
    for node in maimed.masters[:2]:
        await peer.release(await peer.hold(names_at(peer.store, maimed, node, 1)[0]))


async def test_one_silent_sentinel_does_not_keep_a_new_process_out(sentinels: PrivateSentinels, open_at: Open) -> None:
    """Also if a call may not take much longer than a sentinel that is asked."""
    sentinels.sentinels[0].pause()
    try:
        peer = open_at(sentinels.url, timeout_s=0.9)
        await peer.release(await peer.hold("n"))
    finally:
        sentinels.sentinels[0].resume()


class Chain:
    """A master, its replica, and a replica of that one: the one in the middle can take the first one's place."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.first = self._add()
        self.second = self._add(self.first)
        self.third = self._add(self.second)

    def _add(self, master: PrivateRedis | None = None) -> PrivateRedis:
        follows = ("--replicaof", f"127.0.0.1 {master.port}") if master else ()
        return self._stack.enter_context(PrivateRedis(extra=("--repl-diskless-sync-delay", "0", *follows)))

    @staticmethod
    def has_replica(server: PrivateRedis) -> bool:
        return "state=online" in facts(path(server), "INFO", "replication").get("slave0", "")


def path(server: PrivateRedis) -> str:
    return server.socket_url.removeprefix("unix://")


async def test_a_commit_whose_server_was_replaced_by_one_that_never_had_it_is_not_acknowledged(namespace: str) -> None:
    with ExitStack() as stack:
        chain = Chain(stack)
        await until(lambda: chain.has_replica(chain.first) and chain.has_replica(chain.second), within_s=15)
        settings = Settings(store_timeout=10)
        state = f"{namespace}:{{0}}:state:"
        async with (
            Proxy(chain.first.port) as proxy,
            InTurn(proxy.url, namespace=namespace, settings=settings, replicas=1) as app,
        ):
            async with app.turn("before", state=dict) as turn:
                turn.state["x"] = 1
            await until(lambda: tell(path(chain.third), "EXISTS", f"{state}before"))
            tell(path(chain.second), "REPLICAOF", "NO", "ONE")
            replacing = asyncio.create_task(_replace(chain, proxy, f"{state}k"))
            with pytest.raises(CommitUnknown):
                async with app.turn("k", message_id="m", state=dict) as turn:
                    turn.state["paid"] = True
            await replacing
        assert not tell(path(chain.second), "EXISTS", f"{state}k")
        assert tell(path(chain.second), "EXISTS", f"{state}before")


async def _replace(chain: Chain, proxy: Proxy, written: str) -> None:
    """The first server has the commit, and nobody else: it dies, and the second one takes its place."""
    await until(lambda: tell(path(chain.first), "EXISTS", written))
    proxy._server_port = chain.second.port
    chain.first.kill()
