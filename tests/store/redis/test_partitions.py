"""The number of partitions is recorded with the namespace: whoever divides it otherwise is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis

from inturn import InTurn, SettingsError, StoreUnavailable
from inturn.process import heartbeat
from inturn.settings import Settings
from inturn.store.redis.store import RedisStore
from tests.servers import PrivateCluster, PrivateRedis, PrivateSentinels
from tests.store.redis.peers import Open
from tests.store.redis.topology.clusters import names_at, slot_of_partition
from tests.waiting import until


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def an_app(url: str, namespace: str, partitions: int | None) -> InTurn:
    return InTurn(url, namespace=namespace, settings=Settings(partitions=partitions, store_timeout=5))


async def test_a_second_app_with_another_number_is_refused_and_told_what_to_do(redis_url: str, namespace: str) -> None:
    async with an_app(redis_url, namespace, 4):
        with pytest.raises(SettingsError) as refused:
            await an_app(redis_url, namespace, None).open()
        async with an_app(redis_url, namespace, 4), an_app(redis_url, f"{namespace}-other", 1):
            pass
    said = str(refused.value)
    assert "is divided into 4 partition(s), and this app into 1 (the default of its URL)" in said
    assert "Set INTURN_PARTITIONS=4" in said
    assert "redis:// has 1 by default, redis+cluster:// has 16" in said
    assert "INTURN_NAMESPACE" in said


async def test_no_turn_begins_before_the_number_was_checked(redis_url: str, namespace: str) -> None:
    app = an_app(redis_url, namespace, 2)
    async with an_app(redis_url, namespace, 1):
        for _ in range(2):
            with pytest.raises(SettingsError, match=r"and this app into 2 \(INTURN_PARTITIONS\)"):
                async with app.turn("k"):
                    pytest.fail("it must not run")


async def test_of_many_that_come_at_once_one_number_wins(redis_url: str, open_at: Open) -> None:
    peers = [open_at(redis_url, partitions=1 + number % 3) for number in range(30)]
    answers = await asyncio.gather(*(peer.store.check() for peer in peers), return_exceptions=True)
    winners = {
        peer.store.partitions for peer, answer in zip(peers, answers, strict=True) if not isinstance(answer, Exception)
    }
    assert len(winners) == 1
    assert sum(isinstance(answer, SettingsError) for answer in answers) == 20


async def test_a_namespace_from_before_the_record_gets_one_when_it_is_opened(
    redis_url: str, namespace: str, open_at: Open, client: redis.Redis
) -> None:
    peer = open_at(redis_url, partitions=3)
    await peer.put("k", "m")
    await peer.store.check()
    assert client.get(f"{namespace}:{{0}}:partitions") == b"3"
    with pytest.raises(SettingsError):
        await open_at(redis_url).store.check()


async def test_a_full_memory_does_not_hinder_the_check(owner: redis.Redis, fresh_redis: PrivateRedis) -> None:
    async with InTurn(fresh_redis.url):
        pass
    owner.config_set("maxmemory", "1mb")
    async with InTurn(fresh_redis.url):
        pass


async def test_a_process_that_beats_records_the_number_again_when_the_memory_was_lost(
    fresh_redis: PrivateRedis, owner: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.05)
    async with InTurn(fresh_redis.url, settings=Settings(partitions=2)) as app:
        holding = asyncio.create_task(_hold(app))
        await until(lambda: owner.exists("inturn:{0}:era"))
        owner.flushall()
        await until(lambda: owner.get("inturn:{0}:partitions") == b"2")
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


async def test_a_process_that_finds_another_number_after_the_memory_was_lost_stops(
    fresh_redis: PrivateRedis, owner: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.05)
    async with InTurn(fresh_redis.url, settings=Settings(partitions=2)) as app:

        @app.handler("h", key="k")
        async def h(turn: object) -> None: ...

        working = asyncio.create_task(app.run())
        await until(lambda: owner.exists("inturn:{0}:era"))
        owner.eval("redis.call('FLUSHALL') redis.call('SET', 'inturn:{0}:partitions', 1)", 0)
        with pytest.raises(SettingsError, match="is divided into 1"):
            await asyncio.wait_for(working, 20)
        with pytest.raises(SettingsError, match="is divided into 1"):
            await app.submit("h", 1)


async def test_a_process_that_has_connected_anew_looks_for_the_number(
    fresh_redis: PrivateRedis, owner: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover, or an older copy, may have lost the record and nothing else that is missed."""
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.05)
    async with InTurn(fresh_redis.url) as app:
        holding = asyncio.create_task(_hold(app))
        await until(lambda: app.process.heartbeat._eras[0])
        await until(lambda: not app.process.heartbeat._must_check)
        owner.delete("inturn:{0}:partitions")
        owner.client_kill_filter(_type="normal", skipme=True)
        await until(lambda: owner.get("inturn:{0}:partitions") == b"1")
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


async def _hold(app: InTurn) -> None:
    async with app.lock("held", ttl=60):
        await asyncio.Event().wait()


async def test_going_over_to_a_cluster_says_that_its_default_is_another(cluster: PrivateCluster, open_at: Open) -> None:
    """The data of a single server was brought there, and with it the record."""
    await open_at(cluster.url, partitions=1).store.check()
    with pytest.raises(SettingsError, match=r"into 1 partition\(s\), and this app into 16 \(the default of its URL\)"):
        await open_at(cluster.url).store.check()


async def test_sentinels_lead_to_the_record_of_their_master(sentinels: PrivateSentinels, open_at: Open) -> None:
    await open_at(sentinels.url, partitions=2).store.check()
    with pytest.raises(SettingsError, match="INTURN_PARTITIONS=2"):
        await open_at(sentinels.url).store.check()


async def test_a_record_that_is_away_at_the_start_is_looked_for_when_its_node_is_back(
    fresh_cluster: PrivateCluster,
) -> None:
    for node in fresh_cluster.nodes:
        node.tell("CONFIG", "SET", "cluster-require-full-coverage", "no")
    app = InTurn(fresh_cluster.url, settings=Settings(store_timeout=3))
    store = app.process.store
    assert isinstance(store, RedisStore)
    node = fresh_cluster.owner(slot_of_partition(store, 0))
    assert node is not fresh_cluster.masters[0], "or its replica would take its place"
    elsewhere = names_at(store, fresh_cluster, fresh_cluster.masters[0], 1)[0]

    async def is_recorded() -> bool:
        try:
            return bool(await store.command("GET", "inturn:{0}:partitions") == b"16")
        except StoreUnavailable:  # its node is not back yet
            return False

    node.kill()
    await until(lambda: fresh_cluster.masters[0].facts("CLUSTER", "INFO")["cluster_slots_fail"] != "0")
    async with app:
        assert app.process.is_ready
        async with app.lock(elsewhere):
            node.start()
            await until(is_recorded, within_s=60)
