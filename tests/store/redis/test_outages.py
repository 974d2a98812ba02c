"""The server is away, stands still, comes back with or without its memory, or has lost a key."""

from __future__ import annotations

import asyncio

import pytest

from inturn import InTurn
from inturn.errors import StoreUnavailable
from inturn.store import clock
from inturn.store.redis import link as links
from inturn.store.redis.link import LinkLost
from tests.servers import PrivateRedis
from tests.store.redis.fake import GREETING, FakeServer
from tests.store.redis.peers import Open, admin, started, warm_up
from tests.store.redis.proxy import Proxy
from tests.store.stopwatch import Stopwatch
from tests.waiting import until, until_waiters


@pytest.mark.timed
async def test_an_absent_server_is_given_up_in_time_and_named(open_at: Open, unused_tcp_port: int) -> None:
    peer = open_at(f"redis://:topsecret@127.0.0.1:{unused_tcp_port}/0", timeout_s=0.5)
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable) as gone:
            await peer.acquire(peer.ask("n"))
    assert watch.took_s >= 0.5
    assert watch.own_s < 1.0
    assert "Connect call failed" in str(gone.value)
    assert f"127.0.0.1:{unused_tcp_port}" in str(gone.value)
    assert "topsecret" not in f"{gone.value} {gone.value.__cause__} {gone.value.__cause__.__cause__}"  # type: ignore[union-attr]
    assert isinstance(gone.value.__cause__, LinkLost)
    with pytest.raises(StoreUnavailable):
        await peer.store.check()
    with pytest.raises(StoreUnavailable):
        await peer.store.command("GET", "n")


@pytest.mark.timed
@pytest.mark.parametrize("url", ["redis://no-such-host.invalid", "redis://a..b", "unix:///no/such/socket"])
async def test_a_server_that_cannot_be_found_is_given_up_in_time(open_at: Open, url: str) -> None:
    peer = open_at(url, timeout_s=0.3)
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable, match="cannot connect") as gone:
            await peer.acquire(peer.ask("n"))
    assert watch.own_s < 1.0
    assert gone.value.__cause__ is not None


async def test_after_a_restart_with_its_data_all_goes_on(durable_redis: PrivateRedis, open_at: Open) -> None:
    peer = open_at(durable_redis.url, timeout_s=30)
    held = await peer.hold("held")
    durable_redis.kill()
    acquiring = await started(peer.acquire(peer.ask("n")))
    with pytest.raises(StoreUnavailable):
        await open_at(durable_redis.url, timeout_s=0.2).beat()
    assert not acquiring.done()
    await asyncio.to_thread(durable_redis.start)
    assert (await acquiring).status == "granted"
    view = await peer.store.inspect("held")
    assert view is not None
    assert view.holders[0].token == held.token
    assert (await peer.release(held)).status == "released"


async def test_after_a_restart_without_its_data_a_late_release_is_refused_and_fences_grow(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    peer = open_at(fresh_redis.url, timeout_s=30)
    request = peer.ask("held")
    before = await peer.acquire(request)
    await asyncio.to_thread(fresh_redis.restart, keep_data=False)
    assert (await peer.store.release("held", request.token, before.fence)).status == "lost"
    after = await peer.acquire(peer.ask("held"))
    assert (after.status, after.fence > before.fence) == ("granted", True)


async def test_a_link_that_nobody_uses_comes_back_by_itself_and_hears_pushes_again(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    holder, waiter = open_at(fresh_redis.url), open_at(fresh_redis.url)
    held = await holder.hold("n")
    waiting = await waiter.wait_for("n")
    reopened: list[bool] = []
    waiter.store.listen(waiter.notices.append, lambda: reopened.append(True))
    with admin(fresh_redis) as owner:
        owner.client_kill_filter(_type="pubsub")
        await until(lambda: reopened)
        await waiter.beat()  # a place of which nothing was heard for three seconds is dropped
        # the holder's call may find its own connection cut, too
        assert (await holder.release(held)).status == "released"
    await until(lambda: waiter.told("granted", waiting))
    assert len(reopened) == 1


@pytest.mark.timed
async def test_a_server_that_stands_still_ends_calls_in_time_and_serves_them_again(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    peer = open_at(fresh_redis.url, timeout_s=1)
    await warm_up(peer)
    fresh_redis.pause()
    async with Stopwatch() as watch:
        given_up = [peer.ask("n") for _ in range(20)]
        answers = await asyncio.gather(*map(peer.acquire, given_up), return_exceptions=True)
    assert watch.took_s >= 1.0
    assert watch.own_s < 1.6
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert "no reply within" in str(answers[0])
    fresh_redis.resume()
    await warm_up(peer)
    patient = open_at(fresh_redis.url)
    request = await patient.hold("n")  # so none of those that were given up holds it, or waits for it
    view = await patient.store.inspect("n")
    assert view is not None
    assert (len(view.holders), view.waiters) == (1, ())
    assert (await patient.release(request)).status == "released"


async def test_a_pause_that_is_shorter_than_the_deadline_is_waited_out(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    peer = open_at(fresh_redis.url, timeout_s=20)
    await peer.release(await peer.hold("warm"))
    fresh_redis.pause()
    acquiring = await started(peer.acquire(peer.ask("n")))
    await asyncio.sleep(0.3)
    fresh_redis.resume()
    assert (await acquiring).doubt_until == 0.0  # the first attempt was answered


async def test_the_first_use_has_as_much_time_as_any_other(fresh_redis: PrivateRedis, open_at: Open) -> None:
    """One attempt to connect has half of it."""
    peer = open_at(fresh_redis.url, timeout_s=10)
    fresh_redis.pause()
    checking = await started(peer.store.check())
    link = peer.store._link()
    await until(lambda: link._failures == 2)  # the first attempt is over, and the second has begun
    fresh_redis.resume()
    await checking


@pytest.mark.timed
async def test_an_idle_link_does_not_make_the_first_late_reply_take_longer(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    peer = open_at(fresh_redis.url, timeout_s=0.4)
    await warm_up(peer)
    await asyncio.sleep(0.3)  # the link has looked, found nothing in flight, and set its clock for the next look
    fresh_redis.pause()
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable):
            await peer.acquire(peer.ask("n"))
    assert watch.own_s < 0.8


@pytest.mark.timed
async def test_a_late_connection_does_not_give_its_call_more_time(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url, timeout_s=4.8)
    proxy.freeze()
    async with Stopwatch() as watch:
        acquiring = await started(peer.acquire(peer.ask("n")))
        await asyncio.sleep(3.6)
        assert not acquiring.done()
        proxy.freezes_at = "EVAL"
        proxy.thaw()
        with pytest.raises(StoreUnavailable, match="timed out"):
            await acquiring
    assert watch.took_s >= 4.8
    assert watch.own_s < 5.4  # the link itself would have had patience until 6.0
    assert "EVAL" in proxy.commands


async def test_bytes_that_arrive_after_the_deadline_change_nothing(redis_url: str, proxy: Proxy, open_at: Open) -> None:
    peer, patient = open_at(proxy.url, timeout_s=1.0), open_at(redis_url)
    await warm_up(peer)
    held = await patient.hold("held")
    proxy.freeze("request")
    given_up = await asyncio.gather(peer.acquire(peer.ask("n")), peer.release(held), return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) for answer in given_up)
    # our idea of the server's clock is off by half a round trip, and that took no longer than half of the timeout
    late_at = clock.now() + 0.3
    await until(lambda: clock.now() > late_at)
    proxy.thaw()
    await until(lambda: proxy.undelivered.count(b"stale") == 2)
    assert await patient.store.inspect("n") is None
    view = await patient.store.inspect("held")
    assert view is not None
    assert view.holders[0].token == held.token


@pytest.mark.timed
async def test_a_half_open_connection_is_found_by_the_calls_in_flight(proxy: Proxy, open_at: Open) -> None:
    peer = open_at(proxy.url, timeout_s=8)
    await peer.release(await peer.hold("warm"))
    proxy.freeze()
    async with Stopwatch() as watch:
        acquiring = [await started(peer.acquire(peer.ask(f"n{n}"))) for n in range(10)]
        await until(lambda: proxy.connections == 2)  # given up after half of the deadline, and connected anew
        assert watch.took_s > 3.9
        assert watch.own_s < 5.0
        proxy.thaw()
        answers = await asyncio.gather(*acquiring)
        assert {answer.status for answer in answers} == {"granted"}
        assert watch.own_s < 8.0


@pytest.mark.parametrize("way", ["request", "reply"])
async def test_a_half_open_connection_is_found_by_a_ping_while_only_a_push_is_waited_for(
    redis_server: PrivateRedis, proxy: Proxy, open_at: Open, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(links, "QUIET_S", 0.2)
    holder, waiter = open_at(redis_server.url), open_at(proxy.url, timeout_s=2)
    held = await holder.hold("n")
    waiting = waiter.ask("n")

    async def has_a_place() -> bool:
        try:
            return (await waiter.acquire(waiting)).status == "waiting"
        except StoreUnavailable:  # its calls have little time, and the machine may be busy
            return False

    await until(has_a_place)
    connections = proxy.connections
    proxy.freeze(way)
    await until(lambda: proxy.connections > connections)
    assert "PING" in proxy.commands or way == "request"
    proxy.thaw()
    reopened: list[bool] = []
    waiter.store.listen(waiter.notices.append, lambda: reopened.append(True))
    await until(lambda: reopened or waiter.store._link().is_up)
    # as its process does then: a place of which nothing was heard for three seconds is dropped
    await until(has_a_place)
    assert (await holder.release(held)).status == "released"
    await until(lambda: waiter.told("granted", waiting))


async def test_a_quiet_connection_that_lives_is_kept(
    proxy: Proxy, open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "QUIET_S", 0.05)
    for number in range(3):  # a machine that stalls may keep an answer until it is too late, but not every time
        peer = open_at(proxy.url, timeout_s=3)
        connections, pings = proxy.connections, proxy.commands.count("PING")
        await peer.release(await peer.hold(f"warm {number}"))
        await until(lambda pings=pings: proxy.commands.count("PING") >= pings + 3)  # type: ignore[misc]
        if proxy.connections == connections + 1:
            return
        await peer.store.close()
    raise AssertionError("it was connected anew, though every ping was answered")


async def test_a_server_that_greets_everyone_and_hangs_up_is_not_hammered(open_at: Open) -> None:
    async with FakeServer(GREETING, hangs_up_after=b"SSUBSCRIBE") as server:
        peer = open_at(server.url, timeout_s=3)
        with pytest.raises(StoreUnavailable, match="closed the connection"):
            await peer.acquire(peer.ask("n"))
        await peer.store.close()
    assert 3 < len(server.first_commands) < 30
    # a call that comes as the connection goes is not left over for the next one, ahead of its greeting
    assert set(server.first_commands) == {b"HELLO"}


async def test_a_server_that_does_not_let_us_in_any_more_is_not_hammered(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    with admin(fresh_redis) as owner:
        owner.acl_setuser("tenant", enabled=True, passwords=["+pw"], keys=["*"], channels=["*"], commands=["+@all"])
        peer = open_at(f"redis://tenant:pw@127.0.0.1:{fresh_redis.port}/0")
        await peer.release(await peer.hold("warm"))
        owner.acl_setuser("tenant", reset_passwords=True, enabled=True, passwords=["+other"])
        owner.client_kill_filter(_type="pubsub")
        with pytest.raises(StoreUnavailable, match="WRONGPASS"):
            await peer.acquire(peer.ask("n"))
        asked = owner.info("commandstats")["cmdstat_hello"]["calls"]
        await asyncio.sleep(0.5)
        assert owner.info("commandstats")["cmdstat_hello"]["calls"] - asked < 15
        owner.acl_setuser("tenant", enabled=True, passwords=["+pw"])
        await until(lambda: peer.store._link().is_up)  # it comes back without being called
        await peer.release(await peer.hold("n"))


async def test_who_waits_for_a_lock_that_vanished_asks_again(redis_url: str, namespace: str) -> None:
    """Keys that vanish from under us (an allowed eviction, a hand at the server) end waits, not the heartbeat."""
    async with InTurn(redis_url, namespace=namespace) as app, InTurn(redis_url, namespace=namespace) as other:
        lock = app.lock("a")
        await lock.acquire()
        waiting = asyncio.create_task(other.lock("a").take())
        await until_waiters(app, "a", 1)
        link = app.process.store._link()  # type: ignore[attr-defined]
        assert await link.ask("DEL", f"{namespace}:{{0}}:lock:a") == 1
        lease = await asyncio.wait_for(waiting, 20)
        assert not lease.lost
        await lease.release()
