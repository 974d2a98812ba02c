"""Publish and subscribe for a key: best effort, on connections of its own, and told of gaps."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from inturn.errors import StoreUnavailable
from inturn.store.redis.watch import MAX_PUBLISHED
from tests.servers import PrivateCluster, PrivateRedis
from tests.servers.cluster import NODE_TIMEOUT_MS
from tests.store.redis.conftest import have_patience
from tests.store.redis.peers import Open, RedisPeer, admin
from tests.store.redis.proxy import Proxy
from tests.store.redis.topology.clusters import Move, name_in, names_at, slot_of_partition
from tests.waiting import until


async def connected(peer: RedisPeer, key: str) -> None:
    """A publisher has a link already: it is in a turn of the key."""
    await peer.store._way(True, peer.store._keys[peer.store.partition_of(key)].prefix).open()


def watchers(server: PrivateRedis, peer: RedisPeer, key: str) -> int:
    channel = peer.store._keys[peer.store.partition_of(key)].watch(key)
    with admin(server) as owner:
        return int(owner.execute_command("PUBSUB", "SHARDNUMSUB", channel)[1])


def is_heard(heard: list[bytes], text: bytes, times: int) -> bool:
    return heard.count(text) == times


async def test_a_text_reaches_every_watcher_of_the_key_in_order_and_nobody_else(redis_url: str, open_at: Open) -> None:
    publisher, one, other = open_at(redis_url), open_at(redis_url), open_at(redis_url)
    heard: dict[str, list[bytes]] = {"one": [], "one too": [], "other": [], "elsewhere": []}
    await one.store.subscribe("k", heard["one"].append)
    await one.store.subscribe("k", heard["one too"].append)
    await other.store.subscribe("k", heard["other"].append)
    await other.store.subscribe("another key", heard["elsewhere"].append)
    await connected(publisher, "k")
    texts = [f"chunk {number} \0 é".encode() for number in range(500)]
    for text in texts:
        publisher.store.publish("k", text)
    await until(lambda: all(len(heard[who]) == 500 for who in ("one", "one too", "other")))
    assert heard == {"one": texts, "one too": texts, "other": texts, "elsewhere": []}


async def test_watchers_of_a_key_in_one_process_share_a_subscription_and_a_connection(
    redis_server: PrivateRedis, open_at: Open, namespace: str
) -> None:
    async with Proxy(redis_server.port) as proxy:
        peer = open_at(proxy.url)
        heard: list[bytes] = []
        ends = await asyncio.gather(*(peer.store.subscribe("k", heard.append) for _ in range(10)))
        ends += await asyncio.gather(*(peer.store.subscribe(f"k{number}", heard.append) for number in range(10)))
        assert proxy.connections == 1
        assert proxy.commands.count("SSUBSCRIBE") == 11
        assert watchers(redis_server, peer, "k") == 1
        for end in ends[1:]:
            await end()
        assert watchers(redis_server, peer, "k") == 1
        await connected(peer, "k")
        peer.store.publish("k", b"still")
        await until(lambda: heard == [b"still"])
        await ends[0]()
        await until(lambda: watchers(redis_server, peer, "k") == 0)
        watch = peer.store._watch()
        assert not watch._links  # closed after the last one
        await ends[0]()  # may be repeated
        end = await peer.store.subscribe("k", heard.append)  # and begun again
        peer.store.publish("k", b"again")
        await until(lambda: heard == [b"still", b"again"])
        await end()


async def test_who_stops_watching_hears_no_more_while_others_go_on(redis_url: str, open_at: Open) -> None:
    peer = open_at(redis_url)
    await connected(peer, "a")
    a: list[bytes] = []
    b: list[bytes] = []
    end = await peer.store.subscribe("a", a.append)
    await peer.store.subscribe("b", b.append)
    await end()
    peer.store.publish("a", b"1")
    peer.store.publish("b", b"2")
    await until(lambda: b == [b"2"])
    assert a == []


async def test_a_watcher_is_told_when_something_may_be_missing(redis_server: PrivateRedis, open_at: Open) -> None:
    async with Proxy(redis_server.port) as proxy:
        watcher, publisher = open_at(proxy.url), open_at(redis_server.url)
        heard: list[bytes] = []
        await watcher.store.subscribe("k", heard.append)
        await connected(publisher, "k")
        for number in range(3):
            proxy.cut(1)
            publisher.store.publish("k", b"lost")
            await until(partial(is_heard, heard, b"", number + 1))
            publisher.store.publish("k", b"kept")
            await until(partial(is_heard, heard, b"kept", number + 1))
    assert heard == [b"", b"kept"] * 3


async def test_a_watcher_that_the_server_disconnects_for_being_slow_holds_up_nobody(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    with admin(fresh_redis) as owner:
        owner.config_set("client-output-buffer-limit", "pubsub 100kb 100kb 1")
        async with Proxy(fresh_redis.port) as proxy:
            watcher, publisher = open_at(proxy.url), open_at(fresh_redis.url)
            heard: list[bytes] = []
            await watcher.store.subscribe("k", heard.append)
            await connected(publisher, "k")
            proxy.freeze("reply")  # it reads no more
            while watchers(fresh_redis, watcher, "k"):
                publisher.store.publish("k", b"x" * 50_000)
                await publisher.release(await publisher.hold("n"))
            proxy.thaw()
            await until(lambda: b"" in heard)
            publisher.store.publish("k", b"after")
            await until(lambda: heard[-1] == b"after")


async def test_what_cannot_be_sent_is_dropped_and_nothing_is_raised(
    redis_server: PrivateRedis, open_at: Open, unused_tcp_port: int
) -> None:
    away = open_at(f"redis://127.0.0.1:{unused_tcp_port}")
    away.store.publish("k", b"nobody is there")
    await asyncio.to_thread(away.store.publish, "k", b"no loop runs here")
    async with Proxy(redis_server.port) as proxy:
        publisher, watcher = open_at(proxy.url), open_at(redis_server.url)
        heard: list[bytes] = []
        await watcher.store.subscribe("k", heard.append)
        await connected(publisher, "k")
        for number in range(2 * MAX_PUBLISHED):
            publisher.store.publish("k", b"%d" % number)
        await publisher.release(await publisher.hold("n"))
        await until(lambda: len(heard) == MAX_PUBLISHED)
        assert heard == [b"%d" % number for number in range(MAX_PUBLISHED)]
        proxy.answer("SPUBLISH", "NOPERM not you")
        publisher.store.publish("k", b"refused")
        publisher.store.publish("k", b"last")
        await until(lambda: heard[-1] == b"last")
        await until(lambda: publisher.store._watch().published == 0)


async def test_a_server_that_is_away_is_said_in_time_and_nothing_is_left(open_at: Open, unused_tcp_port: int) -> None:
    peer = open_at(f"redis://127.0.0.1:{unused_tcp_port}", timeout_s=0.3)
    with pytest.raises(StoreUnavailable, match="watch at redis://127"):
        await peer.store.subscribe("k", lambda text: None)
    assert not peer.store._watch()._links


async def test_who_is_cancelled_while_subscribing_leaves_nothing(redis_server: PrivateRedis, open_at: Open) -> None:
    peer = open_at(redis_server.url)
    subscribing = asyncio.create_task(peer.store.subscribe("k", lambda text: None))
    await asyncio.sleep(0)
    subscribing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await subscribing
    await until(lambda: watchers(redis_server, peer, "k") == 0)


async def test_closing_ends_watching(redis_server: PrivateRedis, open_at: Open) -> None:
    before = asyncio.all_tasks()
    peer = open_at(redis_server.url)
    end = await peer.store.subscribe("k", lambda text: None)
    await peer.store.close()
    await until(lambda: watchers(redis_server, peer, "k") == 0)
    await until(lambda: asyncio.all_tasks() == before)
    await end()


async def test_over_a_cluster_every_key_is_heard_from_its_own_node(cluster: PrivateCluster, open_at: Open) -> None:
    watcher, publisher = open_at(cluster.url), open_at(cluster.url)
    keys = [name_in(watcher.store, partition) for partition in range(watcher.store.partitions)]
    heard: dict[str, list[bytes]] = {key: [] for key in keys}
    ends = [await watcher.store.subscribe(key, heard[key].append) for key in keys]
    assert len(watcher.store._watch()._links) == 3
    for key in keys:
        await connected(publisher, key)
        publisher.store.publish(key, key.encode())
    await until(lambda: all(heard[key] == [key.encode()] for key in keys))
    await asyncio.gather(*(end() for end in ends))
    assert not watcher.store._watch()._links


async def test_a_watcher_follows_its_slot_and_is_told(moving: PrivateCluster, open_at: Open) -> None:
    watcher, publisher = open_at(moving.url, timeout_s=5), open_at(moving.url, timeout_s=5)
    key, still = name_in(watcher.store, 2), name_in(watcher.store, 4)
    heard: list[bytes] = []
    not_moved: list[bytes] = []
    await watcher.store.subscribe(key, heard.append)
    await watcher.store.subscribe(still, not_moved.append)
    for number in range(2):
        Move(moving, slot_of_partition(watcher.store, 2)).all_at_once()
        await until(partial(is_heard, heard, b"", number + 1))
        await publisher.release(await publisher.hold(key))  # so it knows by now where the slot is
        publisher.store.publish(key, b"%d" % number)
        await until(partial(is_heard, heard, b"%d" % number, 1))
    assert heard == [b"", b"0", b"", b"1"]
    assert not_moved == []


async def test_a_watcher_goes_on_at_the_replica_of_a_killed_master(moving: PrivateCluster, open_at: Open) -> None:
    watcher, publisher = open_at(moving.url, timeout_s=30), open_at(moving.url, timeout_s=30)
    key = names_at(watcher.store, moving, moving.masters[0], 1)[0]
    heard: list[bytes] = []
    await watcher.store.subscribe(key, heard.append)
    have_patience(moving, NODE_TIMEOUT_MS)  # and now they have none
    moving.masters[0].kill()
    await until(lambda: b"" in heard, within_s=30)
    await publisher.release(await publisher.hold(key))
    publisher.store.publish(key, b"after")
    await until(lambda: heard[-1] == b"after")
