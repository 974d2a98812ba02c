"""redis+cluster://: every call goes to the node that has its partition, over one link for each node."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from functools import partial
from pathlib import Path

import pytest

from inturn.errors import SettingsError, StoreUnavailable
from inturn.store.open import open_store
from inturn.store.redis.link import LinkRefused
from inturn.store.redis.store import RedisStore
from inturn.store.redis.topology.cluster import Cluster
from inturn.store.redis.topology.slots import CLUSTER_PARTITIONS, Slots, seeds_of, slot_of
from tests.servers import ClusterNode, PrivateCluster, PrivateRedis
from tests.servers.cluster import SLOTS
from tests.store.redis.certificates import Certificates
from tests.store.redis.peers import Open, RedisPeer
from tests.store.redis.rights import RIGHTS
from tests.store.redis.topology.clusters import Move, name_in, partitions_of
from tests.store.stopwatch import Stopwatch
from tests.waiting import until


def links_of(peer: RedisPeer) -> Cluster:
    links = peer.store._links[asyncio.get_running_loop()]
    assert isinstance(links, Cluster)
    return links


async def test_a_lock_of_every_partition_is_granted_and_handed_over_by_push(
    cluster: PrivateCluster, open_at: Open
) -> None:
    one, other = open_at(cluster.url), open_at(cluster.url)
    assert one.store.partitions == CLUSTER_PARTITIONS
    for partition in range(CLUSTER_PARTITIONS):
        name = name_in(one.store, partition)
        held = await one.hold(name)
        waiting = await other.wait_for(name)
        assert (await one.release(held)).status == "released"
        await until(partial(other.told, "granted", waiting))
        assert (await other.acquire(waiting)).status == "granted"
        assert (await other.release(waiting)).status == "released"
    for peer in (one, other):
        assert {address.port for address in links_of(peer)._links} == {node.port for node in cluster.masters}


async def test_the_partitions_are_spread_over_all_masters(cluster: PrivateCluster, open_at: Open) -> None:
    store = open_at(cluster.url).store
    shares = [len(partitions_of(store, cluster, node)) for node in cluster.masters]
    assert sum(shares) == CLUSTER_PARTITIONS
    assert min(shares) >= CLUSTER_PARTITIONS // 5


async def test_many_callers_at_once_learn_the_cluster_once_and_share_the_links(
    cluster: PrivateCluster, open_at: Open
) -> None:
    peer = open_at(cluster.url)
    requests = [peer.ask(f"n{number}") for number in range(300)]
    answers = await asyncio.gather(*map(peer.acquire, requests))
    assert {answer.status for answer in answers} == {"granted"}
    assert next(links_of(peer)._turns) == 1  # how often the cluster was asked
    assert len(links_of(peer)._links) == len(cluster.masters)


async def test_a_process_beats_for_every_partition_also_without_pushes(cluster: PrivateCluster, open_at: Open) -> None:
    peer = open_at(cluster.url)
    beats = await asyncio.gather(*(peer.store.beat(p, ()) for p in range(peer.store.partitions)))
    assert not any(beat.is_known for beat in beats)
    assert all([(await peer.store.beat(p, ())).is_known for p in range(peer.store.partitions)])
    assert not any(link.channels for link in links_of(peer)._links.values())
    await peer.store.depart()


async def test_a_plain_command_goes_to_the_node_of_its_key(
    cluster: PrivateCluster, open_at: Open, namespace: str
) -> None:
    store = open_at(cluster.url).store
    keys = [f"{namespace}:plain:{number}" for number in range(30)]
    for key in keys:
        await store.command("SET", key, key, "NX", "PX", 60_000)
    assert [await store.command("GET", key) for key in keys] == [key.encode() for key in keys]
    drop = "return redis.call('DEL', KEYS[1])"
    assert [await store.command("EVAL", drop, 1, key) for key in keys] == [1] * 30


async def test_every_master_is_checked(cluster: PrivateCluster, open_at: Open) -> None:
    warnings = await open_at(cluster.url).store.check()
    assert len(warnings) == 3  # that nothing is kept on disk
    assert all(any(f":{node.port}/" in warning for warning in warnings) for node in cluster.masters)


async def test_one_partition_on_a_cluster_is_possible_and_warned_about(cluster: PrivateCluster, open_at: Open) -> None:
    peer = open_at(cluster.url, partitions=1)
    await peer.release(await peer.hold("n"))
    assert "3 masters, and the 1 partition(s) of this namespace are on 1" in (await peer.store.check())[-1]


async def test_a_master_that_may_throw_keys_away_is_refused(fresh_cluster: PrivateCluster, open_at: Open) -> None:
    fresh_cluster.masters[2].tell("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(SettingsError, match=f":{fresh_cluster.masters[2].port}/0 has maxmemory-policy 'allkeys-lru'"):
        await open_at(fresh_cluster.url).store.check()


async def test_a_seed_that_is_dead_does_not_matter_and_a_replica_is_as_good_as_a_master(
    cluster: PrivateCluster, open_at: Open, unused_tcp_port: int
) -> None:
    peer = open_at(f"redis+cluster://127.0.0.1:{unused_tcp_port},127.0.0.1:{cluster.replica.port}")
    for partition in range(0, CLUSTER_PARTITIONS, 4):
        await peer.release(await peer.hold(name_in(peer.store, partition)))


@pytest.mark.timed
async def test_seeds_that_are_all_dead_are_given_up_in_time(open_at: Open, unused_tcp_port: int) -> None:
    peer = open_at(f"redis+cluster://127.0.0.1:{unused_tcp_port}", timeout_s=0.3)
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable, match="no node of the cluster tells who serves what"):
            await peer.acquire(peer.ask("n"))
    assert watch.own_s < 1


async def test_a_single_server_is_no_cluster_and_says_so_at_once(redis_server: PrivateRedis, open_at: Open) -> None:
    peer = open_at(f"redis+cluster://127.0.0.1:{redis_server.port}", timeout_s=50)
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnavailable, match="use redis://") as refused:
            await peer.acquire(peer.ask("n"))
        with pytest.raises(StoreUnavailable, match="use redis://"):
            await peer.store.check()
    assert isinstance(refused.value.__cause__, LinkRefused)


async def test_a_wrong_password_is_refused_at_once(cluster: PrivateCluster, open_at: Open) -> None:
    url = cluster.url.replace("://", "://nobody:topsecret@")
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnavailable, match="user name or the password") as refused:
            await open_at(url, timeout_s=50).hold("n")
    assert "topsecret" not in str(refused.value)


async def test_the_rights_that_the_docs_list_are_needed_and_enough(
    fresh_cluster: PrivateCluster, open_at: Open
) -> None:
    more = ["+cluster|slots", "+asking"]
    peers = []
    for number, missing in enumerate(["", *more]):
        rights = [right for right in (*RIGHTS, *more) if right != missing]
        for node in fresh_cluster.nodes:
            node.tell("ACL", "SETUSER", f"user{number}", "on", ">secret", *rights)
        url = fresh_cluster.url.replace("://", f"://user{number}:secret@")
        peers.append(open_at(url, timeout_s=3 if missing else 10, namespace="inturn"))
    enough, cannot_look, cannot_ask = peers
    for partition in range(enough.store.partitions):
        await enough.release(await enough.hold(name_in(enough.store, partition)))
        await enough.store.beat(partition, ())
    with pytest.raises(StoreUnavailable, match="NOPERM"):
        await cannot_look.hold("n")
    await enough.store.command("SET", "inturn:plain", "there")
    move = Move(fresh_cluster, slot_of("inturn:plain"))
    move.begin()
    move.move_keys()
    assert await enough.store.command("GET", "inturn:plain") == b"there"
    with pytest.raises(StoreUnavailable):
        await cannot_ask.store.command("GET", "inturn:plain")


async def test_a_cluster_that_speaks_tls(tmp_path: Path, open_at: Open) -> None:
    certificates = Certificates(tmp_path)
    files = {"--tls-cert-file": "server.crt", "--tls-key-file": "server.key", "--tls-ca-cert-file": "ca.crt"}
    options = [word for option, name in files.items() for word in (option, str(tmp_path / name))]
    tls = ("--port", "0", "--tls-port", "{port}", *options, "--tls-auth-clients", "no", "--tls-cluster", "yes")
    with ClusterNode(extra=tls) as node:
        node.tell("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        url = f"rediss+cluster://127.0.0.1:{node.port}?ssl_ca_certs={certificates.ca}"
        one, other = open_at(url, timeout_s=10), open_at(url, timeout_s=10)
        held = await one.hold("n")
        waiting = await other.wait_for("n")
        assert (await one.release(held)).status == "released"
        await until(lambda: other.told("granted", waiting))


async def test_closing_ends_every_connection(cluster: PrivateCluster, open_at: Open, namespace: str) -> None:
    peer = open_at(cluster.url)
    before = asyncio.all_tasks()
    for partition in range(CLUSTER_PARTITIONS):
        await peer.hold(name_in(peer.store, partition))
    links = list(links_of(peer)._links.values())
    for link in links:
        await link.ask("CLIENT", "SETNAME", namespace)
    await peer.store.close()
    await until(lambda: all(namespace not in node.tell("CLIENT", "LIST") for node in cluster.masters))
    await until(lambda: asyncio.all_tasks() == before)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # true: the loops ended before their app was closed
def test_a_loop_that_is_gone_leaves_no_connection_behind(cluster: PrivateCluster, namespace: str) -> None:
    store = RedisStore(cluster.url, f"host:1:{namespace}", namespace=namespace)

    async def use() -> None:
        await asyncio.gather(*(store.beat(partition, ()) for partition in range(store.partitions)))

    async def last() -> None:
        await use()
        assert len(store._links) == 1
        await store.close()

    for _ in range(2):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use())
        loop.close()
    asyncio.run(last())
    gc.collect()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis+cluster://", "names no server"),
        ("redis+cluster://a:7000,,b:7000", "an empty one"),
        ("redis+cluster://a:7000,b:seven", "host or port"),
        ("redis+cluster://a:7000/3", "database 0 only"),
        ("redis+cluster://a:7000?db=3", "database 0 only"),
        ("redis+cluster://user:topsecret@a:70000", "host or port"),
        ("redis+cluster://user:top/secret@a:7000", "%2F"),
        ("rediss+cluster://user:topsecret@a?ssl_cert_reqs=maybe", "required, optional or none"),
    ],
)
def test_a_bad_url_is_refused_with_what_to_do(url: str, says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        open_store(url, "h:1:x")
    assert says in str(refused.value)
    assert "top" not in str(refused.value)


def test_every_host_is_a_seed_with_the_same_way_in() -> None:
    seeds = seeds_of("rediss+cluster://us%40er:p%2Fw@a:7000,b,[::1]:7002/?ssl_cert_reqs=none")
    assert [str(seed) for seed in seeds] == ["rediss://a:7000/0", "rediss://b:6379/0", "rediss://::1:7002/0"]
    assert {(seed.username, seed.password) for seed in seeds} == {("us@er", "p/w")}
    assert all(seed.tls is not None for seed in seeds)


def test_nodes_are_read_however_the_cluster_names_them() -> None:
    asked = seeds_of("redis+cluster://user:secret@front:7000")[0]
    picture = [
        [0, 99, [b"10.0.0.1", 7001, b"id", []], [b"10.0.0.2", 7002, b"id", []]],
        [100, 199, [b"", 7003, b"id", []]],
        [200, 299, [None, 7004, b"id", []]],
        [300, 399, [b"?", 7005, b"id", [b"ip", b"10.0.0.5"]]],
        [400, 499, [b"?", 7006, b"id", {b"ip": b"10.0.0.6"}]],
    ]
    slots = Slots.read(picture, asked)
    named = [f"{at.host}:{at.port}" for at in slots.masters]
    assert named == ["10.0.0.1:7001", "front:7003", "front:7004", "10.0.0.5:7005", "10.0.0.6:7006"]
    assert len(slots.nodes) == 6
    assert (slots.masters[0].username, slots.masters[0].password) == ("user", "secret")
    assert slots.at(150) == slots.masters[1]
    assert slots.at(500) is None


async def test_a_cancelled_caller_does_not_stop_the_others_from_learning(
    cluster: PrivateCluster, open_at: Open
) -> None:
    peer = open_at(cluster.url)
    calls = [asyncio.create_task(peer.acquire(peer.ask(f"n{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    answers = await asyncio.gather(*calls[1::2])
    assert {answer.status for answer in answers} == {"granted"}
    for call in calls[::2]:
        with contextlib.suppress(asyncio.CancelledError):
            await call
