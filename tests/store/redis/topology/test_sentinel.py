"""redis+sentinel://: the master is where the sentinels say, and is asked for again when it is lost."""

from __future__ import annotations

import asyncio

import pytest

from inturn.errors import SettingsError, StoreUnavailable
from inturn.store.open import open_store
from inturn.store.redis.link import LinkRefused
from inturn.store.redis.topology.sentinel import SentinelAddress
from tests.servers import PrivateRedis, PrivateSentinels
from tests.store.redis.fake import GREETING, FakeServer
from tests.store.redis.peers import Open, admin, started
from tests.store.redis.rights import RIGHTS
from tests.waiting import until


def named(port: int) -> bytes:
    """What a sentinel answers that believes the master to be there."""
    return b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(port)), port)


def at(server: FakeServer) -> str:
    return server.url.removeprefix("redis://").removesuffix("/0")


async def hand_over(url: str, open_at: Open) -> None:
    one, other = open_at(url), open_at(url)
    held = await one.hold("n")
    waiting = await other.wait_for("n")
    assert (await one.release(held)).status == "released"
    await until(lambda: other.told("granted", waiting))
    assert (await other.release(waiting)).status == "released"


async def test_locks_and_pushes_work_at_the_master(sentinels: PrivateSentinels, open_at: Open, namespace: str) -> None:
    await hand_over(sentinels.url, open_at)
    with admin(sentinels.master) as owner:
        assert owner.keys(f"{namespace}:*")
    assert await open_at(sentinels.url).store.check()  # that nothing is kept on disk


async def test_a_sentinel_that_is_dead_is_passed_over_and_who_answered_is_asked_first_the_next_time(
    sentinels: PrivateSentinels, open_at: Open, unused_tcp_port: int
) -> None:
    alive = sentinels.sentinels[0].port
    peer = open_at(f"redis+sentinel://127.0.0.1:{unused_tcp_port},127.0.0.1:{alive}/inturn")
    await peer.release(await peer.hold("n"))
    address = peer.store._address
    assert isinstance(address, SentinelAddress)
    assert [at.port for at in address.sentinels] == [alive, unused_tcp_port]


async def test_a_sentinel_that_hangs_is_passed_over(sentinels: PrivateSentinels, open_at: Open) -> None:
    sentinels.sentinels[0].pause()
    try:
        peer = open_at(sentinels.url, timeout_s=5)
        await peer.release(await peer.hold("n"))
    finally:
        sentinels.sentinels[0].resume()


async def test_a_service_that_nobody_knows_is_said_at_once(sentinels: PrivateSentinels, open_at: Open) -> None:
    peer = open_at(sentinels.url.replace("/inturn", "/nonsense"), timeout_s=50)
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnavailable, match="knows no service 'nonsense'") as refused:
            await peer.hold("n")
    assert isinstance(refused.value.__cause__, LinkRefused)


async def test_a_master_that_is_none_is_not_taken(sentinels: PrivateSentinels, open_at: Open) -> None:
    """As a sentinel says that has not heard of the failover yet."""
    port = sentinels.replica.port
    async with FakeServer({**GREETING, b"SENTINEL": named(port)}) as sentinel:
        peer = open_at(f"redis+sentinel://{at(sentinel)}/inturn", timeout_s=2)
        with pytest.raises(StoreUnavailable, match="is a slave, not yet a master"):
            await peer.hold("n")


async def test_a_killed_master_is_replaced_and_its_locks_live_on(
    fresh_sentinels: PrivateSentinels, open_at: Open
) -> None:
    sentinels = fresh_sentinels
    one, other = open_at(sentinels.url, timeout_s=30), open_at(sentinels.url, timeout_s=30)
    held = await one.hold("n")
    waiting = await other.wait_for("n")
    reopened: list[bool] = []
    other.store.listen(other.notices.append, lambda: reopened.append(True))
    with admin(sentinels.replica) as copy:
        await until(lambda: copy.exists(one.store._keys[0].lock("n")[1]))
    sentinels.master.kill()
    acquiring = await started(one.acquire(one.ask("m")))
    assert (await acquiring).status == "granted"
    await until(lambda: reopened)
    assert (await other.acquire(waiting)).status == "waiting"
    assert (await one.release(held)).status == "released"
    await until(lambda: other.told("granted", waiting))
    transport = one.store._link()._transport
    assert transport is not None
    assert transport.get_extra_info("peername")[1] == sentinels.replica.port


async def test_a_master_that_was_made_a_replica_is_left_for_the_one_that_the_sentinels_name_then(
    fresh_redis: PrivateRedis, open_at: Open
) -> None:
    with PrivateRedis() as new:
        answers = {**GREETING, b"SENTINEL": named(fresh_redis.port)}
        async with FakeServer(answers) as sentinel:
            peer = open_at(f"redis+sentinel://{at(sentinel)}/inturn", timeout_s=20)
            await peer.hold("before")
            with admin(fresh_redis) as old:
                old.replicaof("127.0.0.1", new.port)
            answers[b"SENTINEL"] = named(new.port)
            await peer.hold("after")
            with admin(new) as owner:
                assert owner.exists(peer.store._keys[0].lock("after")[0])


async def test_user_and_password_of_master_and_sentinels_are_two(open_at: Open) -> None:
    with PrivateRedis(extra=("--requirepass", "forredis")) as master:
        async with FakeServer({**GREETING, b"SENTINEL": named(master.port)}) as sentinel:
            url = f"redis+sentinel://:forredis@{at(sentinel)}/inturn/2?sentinel_password=forsentinels"
            peer = open_at(url)
            await peer.hold("n")
            with admin(master, password="forredis", db=2) as owner:
                assert owner.dbsize()
    address = SentinelAddress.from_url(url)
    assert (address.password, address.sentinels[0].password) == ("forredis", "forsentinels")
    assert "for" not in f"{address} {address!r}"


async def test_the_rights_that_the_docs_list_are_enough(sentinels: PrivateSentinels, open_at: Open) -> None:
    with admin(sentinels.master) as owner:
        owner.execute_command("ACL", "SETUSER", "inturn", "on", ">forredis", *RIGHTS, "+role")
    for sentinel in sentinels.sentinels:
        sentinel.tell("ACL", "SETUSER", "asker", "on", ">forsentinels", "+sentinel|get-master-addr-by-name")
    url = sentinels.url.replace("://", "://inturn:forredis@")
    peer = open_at(f"{url}?sentinel_username=asker&sentinel_password=forsentinels", namespace="inturn")
    await peer.release(await peer.hold("n"))
    with admin(sentinels.master) as owner:
        owner.execute_command("ACL", "SETUSER", "inturn", "-role")
    with pytest.raises(StoreUnavailable, match="does not tell its role"):
        await open_at(url, namespace="inturn").hold("n")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis+sentinel://a:26379", "names no service"),
        ("redis+sentinel:///mymaster", "names no server"),
        ("redis+sentinel://a,,b/mymaster", "an empty one"),
        ("redis+sentinel://a:port/mymaster", "host or port"),
        ("redis+sentinel://a/mymaster/three", "number of a database"),
        ("redis+sentinel://user:top/secret@a/mymaster", "%2F"),
        ("rediss+sentinel://:topsecret@a/mymaster?ssl_cert_reqs=maybe", "required, optional or none"),
    ],
)
def test_a_bad_url_is_refused_with_what_to_do(url: str, says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        open_store(url, "h:1:x")
    assert says in str(refused.value)
    assert "top" not in str(refused.value)


def test_a_url_names_sentinels_and_service() -> None:
    address = SentinelAddress.from_url("redis+sentinel://user:pw@s1,s2:26380/mymaster/3")
    assert str(address) == "redis+sentinel://s1:26379,s2:26380/mymaster"
    assert (address.service, address.db, address.username, address.password) == ("mymaster", 3, "user", "pw")
    assert {(at.username, at.password, at.db) for at in address.sentinels} == {(None, None, 0)}


async def test_one_silent_sentinel_does_not_keep_a_new_process_out(sentinels: PrivateSentinels, open_at: Open) -> None:
    """Also if a call may not take much longer than a sentinel that is asked."""
    sentinels.sentinels[0].pause()
    try:
        peer = open_at(sentinels.url, timeout_s=0.9)
        await peer.release(await peer.hold("n"))
    finally:
        sentinels.sentinels[0].resume()
