"""What a server answers instead of running a script is raised at once with what to do, or waited out in time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import hiredis
import pytest
import redis

from inturn.errors import StoreUnavailable
from inturn.store import clock
from tests.servers import PrivateRedis
from tests.store.redis.peers import AT_ONCE_S, Open, RedisPeer, admin, started, warm_up
from tests.store.redis.proxy import Proxy
from tests.store.stopwatch import Stopwatch
from tests.store.world import work
from tests.waiting import until


@pytest.fixture
async def peer(fresh_redis: PrivateRedis, open_at: Open) -> RedisPeer:
    peer = open_at(fresh_redis.url, timeout_s=50)
    await peer.store.check()
    return peer


async def refusal_of(call: Coroutine[Any, Any, object]) -> StoreUnavailable:
    """The call is refused, and not only after its deadline."""
    sent_at = clock.now()
    with pytest.raises(StoreUnavailable) as refused:
        await call
    assert clock.now() - sent_at < AT_ONCE_S
    assert isinstance(refused.value.__cause__, hiredis.ReplyError)
    return refused.value


async def test_a_full_memory_refuses_an_acquire_wholly_and_still_takes_a_release(
    peer: RedisPeer, owner: redis.Redis
) -> None:
    held = await peer.hold("held", life_ms=60_000)
    waiting = await peer.wait_for("held")
    keys = set(owner.keys())
    owner.config_set("maxmemory", 1)
    refused = await refusal_of(peer.acquire(peer.ask("n")))
    assert "OOM" in str(refused)
    assert "maxmemory" in str(refused)
    assert await peer.store.inspect("n") is None
    assert set(owner.keys()) == keys
    assert (await peer.store.extend("held", held.token, "add", 1000)).status == "extended"
    assert await peer.beat() == []
    assert (await peer.release(held)).status == "released"
    assert peer.told("granted", waiting)
    assert (await peer.release(waiting)).status == "released"
    owner.config_set("maxmemory", 0)
    await peer.hold("n")


async def test_a_full_memory_refuses_new_messages_and_lets_those_that_wait_be_done(
    peer: RedisPeer, owner: redis.Redis
) -> None:
    """Or nobody could ever free it."""
    await peer.put("k", "m1", "m2")
    owner.config_set("maxmemory", 1)
    assert "OOM" in str(await refusal_of(peer.submit("k", "m3")))
    following = await peer.done(await peer.claim_one(), next_token=peer.new_token())
    assert following is not None
    await peer.done(following)
    assert (await peer.attend("k", work("m2"))).status == "done"
    owner.config_set("maxmemory", 0)
    await peer.put("k", "m3")


async def test_too_few_replicas_refuse_at_once_and_change_nothing(peer: RedisPeer, owner: redis.Redis) -> None:
    held = await peer.hold("held")
    owner.config_set("min-replicas-to-write", 1)
    assert "min-replicas-to-write" in str(await refusal_of(peer.acquire(peer.ask("n"))))
    assert "NOREPLICAS" in str(await refusal_of(peer.release(held)))
    view = await peer.store.inspect("held")
    assert view is not None
    assert view.holders[0].token == held.token
    owner.config_set("min-replicas-to-write", 0)
    assert (await peer.release(held)).status == "released"


async def test_a_server_that_cannot_save_refuses_at_once(
    peer: RedisPeer, owner: redis.Redis, fresh_redis: PrivateRedis
) -> None:
    held = await peer.hold("held")
    (fresh_redis.folder / "dump.rdb" / "in the way").mkdir(parents=True)  # a snapshot cannot take the place of a folder
    owner.config_set("save", "3600 1")
    owner.bgsave()
    await until(lambda: owner.info("persistence")["rdb_last_bgsave_status"] == "err")
    assert "disk" in str(await refusal_of(peer.acquire(peer.ask("n"))))
    assert "MISCONF" in str(await refusal_of(peer.release(held)))
    owner.config_set("stop-writes-on-bgsave-error", "no")
    assert (await peer.release(held)).status == "released"
    await peer.hold("n")


async def test_a_key_of_another_kind_names_the_namespace(peer: RedisPeer, owner: redis.Redis, namespace: str) -> None:
    owner.set(f"{namespace}:{{0}}:names", "someone else's")
    assert "choose another namespace" in str(await refusal_of(peer.acquire(peer.ask("n"))))


@pytest.fixture
def busy_script(fresh_redis: PrivateRedis, owner: redis.Redis) -> Iterator[Callable[[], None]]:
    """Call it to make the server busy; SCRIPT KILL ends that."""
    owner.config_set("busy-reply-threshold", 30)
    ends: list[threading.Thread] = []

    def run() -> None:
        with admin(fresh_redis) as client, pytest.raises(redis.ResponseError):
            client.eval("while true do end", 0)

    def start() -> None:
        ends.append(threading.Thread(target=run))
        ends[0].start()
        give_up_at = time.monotonic() + 20
        while time.monotonic() < give_up_at:
            try:
                owner.ping()
            except redis.exceptions.ResponseError:  # BUSY
                return
            time.sleep(0.002)
        raise AssertionError("the script does not keep the server busy")

    yield start
    for thread in ends:
        _kill_script(owner)
        thread.join()


def _kill_script(owner: redis.Redis) -> None:
    with contextlib.suppress(redis.ResponseError):  # NOTBUSY: it has been ended before
        owner.script_kill()


async def test_a_call_waits_for_a_busy_server_and_goes_through_after_script_kill(
    peer: RedisPeer, owner: redis.Redis, busy_script: Callable[[], None]
) -> None:
    await peer.release(await peer.hold("warm"))
    await asyncio.to_thread(busy_script)
    acquiring = await started(peer.acquire(peer.ask("n")))
    await asyncio.sleep(0.2)
    assert not acquiring.done()
    _kill_script(owner)
    assert (await acquiring).status == "granted"


async def test_who_connects_to_a_busy_server_waits_as_well(
    fresh_redis: PrivateRedis, open_at: Open, owner: redis.Redis, busy_script: Callable[[], None]
) -> None:
    await asyncio.to_thread(busy_script)
    late = open_at(fresh_redis.url)
    acquiring = await started(late.acquire(late.ask("n")))
    await asyncio.sleep(0.2)
    assert not acquiring.done()
    _kill_script(owner)
    assert (await acquiring).status == "granted"


@pytest.mark.timed
async def test_a_server_that_stays_busy_is_given_up_in_time(
    fresh_redis: PrivateRedis, open_at: Open, busy_script: Callable[[], None]
) -> None:
    peer = open_at(fresh_redis.url, timeout_s=2)
    await warm_up(peer)
    await peer.store.check()
    await asyncio.to_thread(busy_script)
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable, match="BUSY") as refused:
            await peer.acquire(peer.ask("n"))
    assert watch.took_s >= 2
    assert watch.own_s < 2.5
    assert isinstance(refused.value.__cause__, hiredis.ReplyError)
    with pytest.raises(StoreUnavailable, match="BUSY"):  # nothing is said to be well that was not looked at
        await peer.store.check()


async def test_a_call_at_a_replica_waits_for_its_promotion(
    peer: RedisPeer, owner: redis.Redis, unused_tcp_port: int
) -> None:
    held = await peer.hold("held")
    owner.replicaof("127.0.0.1", unused_tcp_port)
    acquiring = await started(peer.acquire(peer.ask("n")))
    await asyncio.sleep(0.2)
    assert not acquiring.done()
    owner.replicaof("NO", "ONE")
    assert (await acquiring).status == "granted"
    assert (await peer.release(held)).status == "released"


@pytest.mark.timed
async def test_a_replica_that_stays_one_is_given_up_in_time(
    fresh_redis: PrivateRedis, open_at: Open, owner: redis.Redis, unused_tcp_port: int
) -> None:
    owner.replicaof("127.0.0.1", unused_tcp_port)
    peer = open_at(fresh_redis.url, timeout_s=2)
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable, match="READONLY"):
            await peer.acquire(peer.ask("n"))
    assert watch.took_s >= 2
    assert watch.own_s < 2.5


async def test_a_replica_without_its_master_is_waited_for(
    peer: RedisPeer, owner: redis.Redis, unused_tcp_port: int
) -> None:
    owner.config_set("replica-serve-stale-data", "no")
    owner.replicaof("127.0.0.1", unused_tcp_port)
    inspecting = await started(peer.store.inspect("n"))
    await asyncio.sleep(0.2)
    assert not inspecting.done()
    owner.replicaof("NO", "ONE")
    assert await inspecting is None


async def test_who_comes_to_a_full_server_waits_for_a_place(
    fresh_redis: PrivateRedis, open_at: Open, owner: redis.Redis
) -> None:
    owner.config_set("maxclients", owner.info("clients")["connected_clients"])
    peer = open_at(fresh_redis.url)
    acquiring = await started(peer.acquire(peer.ask("n")))
    await asyncio.sleep(0.2)
    assert not acquiring.done()
    owner.config_set("maxclients", 100)
    assert (await acquiring).status == "granted"


async def test_a_server_that_stays_full_says_so(fresh_redis: PrivateRedis, open_at: Open, owner: redis.Redis) -> None:
    owner.config_set("maxclients", owner.info("clients")["connected_clients"])
    peer = open_at(fresh_redis.url, timeout_s=2)
    with pytest.raises(StoreUnavailable, match="max number of clients") as refused:
        await peer.acquire(peer.ask("n"))
    assert refused.value.__cause__ is not None


NOT_NOW = [
    "LOADING Redis is loading the dataset in memory",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "ASK 13907 127.0.0.1:7001",
    "BUSY Redis is busy running a script.",
    "NOSCRIPT No matching script.",
    "READONLY You can't write against a read only replica.",
]


@pytest.mark.parametrize("answer", NOT_NOW, ids=lambda answer: answer.split()[0])
async def test_an_answer_that_means_not_now_is_asked_again(proxy: Proxy, open_at: Open, answer: str) -> None:
    peer = open_at(proxy.url)
    await peer.release(await peer.hold("warm"))
    proxy.answer("EVALSHA", *[answer] * (1 if answer.startswith("NOSCRIPT") else 3))
    request = await peer.hold("n")
    # what was answered did not run: that nothing is there is no sign of a first attempt
    proxy.answer("EVALSHA", answer)
    assert (await peer.store.release("n", f"{peer.store.process}#999")).status == "gone"
    proxy.answer("EVALSHA", answer)
    assert (await peer.release(request)).status == "released"


@pytest.mark.timed
@pytest.mark.parametrize("answer", NOT_NOW[:6], ids=lambda answer: answer.split()[0])
async def test_an_answer_that_stays_not_now_ends_with_the_deadline(proxy: Proxy, open_at: Open, answer: str) -> None:
    peer = open_at(proxy.url, timeout_s=1)
    await warm_up(peer)
    proxy.answer("EVALSHA", *[answer] * 100)
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable, match=answer.split()[0]) as refused:
            await peer.acquire(peer.ask("n"))
    assert watch.took_s >= 1
    assert watch.own_s < 1.5
    assert str(refused.value.__cause__) == answer


async def test_no_call_is_overtaken_because_the_server_does_not_know_its_script(
    fresh_redis: PrivateRedis, open_at: Open, owner: redis.Redis
) -> None:
    peer = open_at(fresh_redis.url)
    await peer.release(await peer.hold("n"))
    assert "errorstat_NOSCRIPT" not in owner.info("errorstats")


async def test_scripts_that_are_flushed_in_the_middle_of_the_load_are_loaded_again(
    peer: RedisPeer, owner: redis.Redis, namespace: str
) -> None:
    is_over, rounds = False, [0] * 100

    async def work(number: int) -> None:
        while not is_over:
            request = await peer.hold(f"lock-{number}")
            assert (await peer.release(request)).status == "released"
            rounds[number] += 1

    working = [asyncio.create_task(work(number)) for number in range(100)]
    await until(lambda: min(rounds) > 0)
    assert "errorstat_NOSCRIPT" not in owner.info("errorstats")
    for _ in range(20):
        await asyncio.to_thread(owner.script_flush)
    is_over = True
    await asyncio.gather(*working)
    assert owner.info("errorstats")["errorstat_NOSCRIPT"]["count"] > 0  # the scripts were missed
    assert owner.exists(f"{namespace}:{{0}}:names") == 0


async def test_a_clock_that_runs_ahead_is_read_again(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url)
    await peer.release(await peer.hold("warm"))
    peer.store._link().skew_s -= 3600  # as if the server's clock had been set forward by an hour
    assert (await peer.acquire(peer.ask("n"))).doubt_until == 0.0
    assert proxy.commands.count("TIME") == 2


async def test_a_connection_that_is_lost_while_the_clock_is_read_again_is_no_end(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url)
    await peer.release(await peer.hold("warm"))
    peer.store._link().skew_s -= 3600
    stale = len(b"*1\r\n$5\r\nstale\r\n")
    proxy.cut(stale + 1)
    await peer.hold("n")
    assert proxy.connections == 2
