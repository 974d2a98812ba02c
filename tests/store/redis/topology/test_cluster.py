"""A plain redis:// URL that leads to a node of a cluster: the one that serves our slot is found, also when it moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from inturn.errors import StoreUnavailable
from tests.servers import PrivateRedis, free_port
from tests.store.redis.peers import Open, RedisPeer, admin, started
from tests.store.redis.proxy import Proxy
from tests.store.stopwatch import Stopwatch
from tests.waiting import until

SLOTS = 16384


class Node:
    """One node of a cluster, on its own until it meets another."""

    def __init__(self, stack: ExitStack) -> None:
        self._bus_port = free_port()
        options = ("--cluster-enabled", "yes", "--cluster-port", str(self._bus_port))
        self.server = stack.enter_context(PrivateRedis(extra=options))
        self.owner = stack.enter_context(admin(self.server))
        self.id = self.cluster("MYID").decode()

    def cluster(self, *command: object) -> bytes:
        answer: bytes = self.owner.execute_command("CLUSTER", *command, NEVER_DECODE=True)
        return answer

    def meet(self, other: Node) -> None:
        self.cluster("MEET", "127.0.0.1", other.server.port, other._bus_port)

    @property
    def is_ready(self) -> bool:
        info = self.cluster("INFO")
        return b"cluster_state:ok" in info and b"cluster_known_nodes:2" in info

    def keys_of(self, slot: int) -> list[bytes]:
        keys: list[bytes] = self.owner.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        return keys


class Cluster:
    """Two nodes. `has` serves the slot of the one partition that the tests use, `has_not` sends callers there."""

    def __init__(self, stack: ExitStack) -> None:
        self.has, self.has_not = Node(stack), Node(stack)
        self.slot = int(self.has.cluster("KEYSLOT", "inturn:{0}:fence"))
        self.has.cluster("ADDSLOTSRANGE", self.slot, SLOTS - 1)
        self.has_not.cluster("ADDSLOTSRANGE", 0, self.slot - 1)
        self.has.meet(self.has_not)

    def begin_to_move(self) -> None:
        self.has_not.cluster("SETSLOT", self.slot, "IMPORTING", self.has.id)
        self.has.cluster("SETSLOT", self.slot, "MIGRATING", self.has_not.id)

    def move(self) -> None:
        """What began is finished: every key goes over, and then the slot."""
        for key in self.has.keys_of(self.slot):
            self.has.owner.migrate("127.0.0.1", self.has_not.server.port, key, 0, 5000)
        for node in (self.has_not, self.has):
            node.cluster("SETSLOT", self.slot, "NODE", self.has_not.id)
        self.has, self.has_not = self.has_not, self.has


@pytest.fixture(scope="module")
def whole_cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)


@pytest.fixture
async def pair(whole_cluster: Cluster) -> Cluster:
    await until(lambda: whole_cluster.has.is_ready and whole_cluster.has_not.is_ready, within_s=30)
    return whole_cluster


async def hand_over(one: RedisPeer, other: RedisPeer) -> None:
    held = await one.hold("n")
    waiting = await other.wait_for("n")
    assert (await one.release(held)).status == "released"
    await until(lambda: other.told("granted", waiting))
    assert (await other.release(waiting)).status == "released"


async def test_who_comes_to_the_wrong_node_is_sent_to_the_right_one(pair: Cluster, open_at: Open) -> None:
    one, other = open_at(pair.has_not.server.url), open_at(pair.has.server.url)
    await hand_over(one, other)
    await hand_over(other, one)  # so the push of the one who was sent elsewhere comes from there, too


async def test_a_link_without_pushes_follows_as_well(pair: Cluster, open_at: Open) -> None:
    assert await open_at(pair.has_not.server.url).beat() == []


async def test_a_socket_that_leads_to_the_wrong_node_is_left_for_the_right_one(pair: Cluster, open_at: Open) -> None:
    await open_at(pair.has_not.server.socket_url).beat()


async def test_a_slot_that_moves_takes_its_locks_and_its_waiters_along(pair: Cluster, open_at: Open) -> None:
    one, other = open_at(pair.has.server.url, timeout_s=20), open_at(pair.has.server.url, timeout_s=20)
    held = await one.hold("n")
    waiting = await other.wait_for("n")
    reopened: list[bool] = []
    other.store.listen(other.notices.append, lambda: reopened.append(True))
    pair.has.owner.config_resetstat()
    pair.begin_to_move()
    # some of its keys are there and some are not: TRYAGAIN
    acquiring = await started(one.acquire(one.ask("m")))
    await until(lambda: "errorstat_TRYAGAIN" in _errors(pair.has))
    assert not acquiring.done()
    pair.move()
    assert (await acquiring).status == "granted"
    await until(lambda: reopened)  # the server ended the subscription
    await other.beat()  # a place of which nothing was heard for three seconds is dropped
    assert (await one.release(held)).status == "released"
    await until(lambda: other.told("granted", waiting))


async def test_a_slot_that_moves_without_a_key_in_it_is_waited_for(pair: Cluster, open_at: Open) -> None:
    peer = open_at(pair.has.server.url, timeout_s=20, namespace="other")
    for key in pair.has.keys_of(pair.slot):
        pair.has.owner.delete(key)
    await peer.store._link().open()
    pair.has.owner.config_resetstat()
    pair.begin_to_move()
    acquiring = await started(peer.acquire(peer.ask("n")))
    await until(lambda: "errorstat_ASK" in _errors(pair.has))
    assert not acquiring.done()
    pair.move()
    assert (await acquiring).status == "granted"


def _errors(node: Node) -> dict[str, object]:
    errors: dict[str, object] = node.owner.info("errorstats")
    return errors


@pytest.mark.timed
async def test_a_slot_that_nobody_serves_is_given_up_in_time_and_taken_up_again(open_at: Open) -> None:
    with ExitStack() as stack:
        node = Node(stack)
        peer = open_at(node.server.url, timeout_s=2)
        async with Stopwatch() as watch:
            with pytest.raises(StoreUnavailable, match="CLUSTERDOWN"):
                await peer.acquire(peer.ask("n"))
        assert watch.took_s >= 2
        assert watch.own_s < 2.5
        patient = open_at(node.server.url, timeout_s=20)
        acquiring = await started(patient.acquire(patient.ask("n")))
        node.cluster("ADDSLOTSRANGE", 0, SLOTS - 1)
        assert (await acquiring).status == "granted"


async def test_who_is_sent_to_a_node_that_is_gone_asks_at_home_again(
    proxy: Proxy, open_at: Open, unused_tcp_port: int
) -> None:
    peer = open_at(proxy.url)
    await peer.release(await peer.hold("warm"))
    proxy.answer("EVALSHA", f"MOVED 1234 127.0.0.1:{unused_tcp_port}")
    request = await peer.hold("n")
    proxy.answer("EVAL", f"MOVED 1234 :{proxy.port}")  # a node that does not know its own host
    assert (await peer.release(request)).status == "released"
    assert proxy.connections == 3


async def test_nodes_that_send_us_round_in_circles_are_given_up_in_time(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url, timeout_s=2)
    proxy.answer("SSUBSCRIBE", *[f"MOVED 1234 127.0.0.1:{proxy.port}"] * 1000)
    with pytest.raises(StoreUnavailable, match="MOVED"):
        await peer.acquire(peer.ask("n"))
    assert proxy.connections < 20
