"""Passwords, and users who may do exactly what inturn needs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from inturn.errors import StoreUnavailable
from inturn.store import clock
from inturn.store.protocol import Wait
from inturn.store.redis.link import LinkRefused
from inturn.store.redis.server_checks import explain
from tests.servers import PrivateRedis
from tests.store.policies import INTERRUPT, LATEST, ROLLBACK, cancel, quiet, run, steer, turns
from tests.store.redis.peers import Open, RedisPeer, admin
from tests.store.redis.rights import CHANNELS, FOR_THE_CHECK, KEYS, RIGHTS
from tests.store.world import send_to
from tests.waiting import until


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateRedis]:
    with PrivateRedis() as server:
        yield server


@pytest.fixture
def owner(server: PrivateRedis) -> Iterator[redis.Redis]:
    with admin(server) as client:
        yield client


@pytest.fixture
def user(server: PrivateRedis, owner: redis.Redis, open_at: Open, namespace: str) -> Open:
    """`user(*rights)`: a process that comes as a user of these rights."""

    def make(*rights: str, password: str = "pw", url: str = "") -> RedisPeer:
        owner.flushall()
        owner.execute_command("ACL", "SETUSER", namespace, "reset", "on", ">pw", *rights)  # type: ignore[no-untyped-call]
        url = url or f"redis://{namespace}:{password}@127.0.0.1:{server.port}/0"
        return open_at(url, namespace="inturn", timeout_s=40)

    return make


async def do_everything(peer: RedisPeer, open_at: Open) -> None:
    """Every verb, and every path of the scripts that calls a command of its own."""
    other = open_at(peer.store.url, namespace="inturn")
    await use_locks(peer, other)
    await use_lanes(peer, other)
    await use_policies(peer)
    await send_between_partitions(open_at(peer.store.url, namespace="inturn", partitions=2))
    await peer.store.depart()


async def use_locks(peer: RedisPeer, other: RedisPeer) -> None:
    held = await peer.hold("n")
    waiting, leaving = await other.wait_for("n"), await other.wait_for("n")
    assert await other.store.edges([waiting.owner])
    assert await other.store.report(0, [Wait("turn", waiting.token, "n"), Wait("over")]) > 0
    assert [edge.name for edge in await other.store.edges(["turn"])] == ["n"]
    assert await other.store.names(10) == ["n"]
    assert await peer.store.inspect("n") is not None
    assert (await other.release(leaving)).status == "left"
    assert (await peer.release(held)).status == "released"
    await until(lambda: other.told("granted", waiting))
    assert (await other.acquire(waiting)).status == "granted"
    assert await other.beat() == []
    again = await peer.wait_for("n")
    assert await other.store.force_release("n") == 1
    assert (await other.release(waiting)).status == "lost"
    await until(lambda: peer.told("granted", again))
    assert (await peer.acquire(again)).status == "granted"
    short = await peer.hold("fixed", ttl_ms=0, life_ms=60_000)
    assert (await peer.store.extend("fixed", short.token, "add", 1000)).status == "extended"
    assert (await peer.release(short)).status == "released"
    assert (await peer.release(short)).status == "gone"
    notices = await other.beat()
    assert await other.beat(*notices) == []


async def use_lanes(peer: RedisPeer, other: RedisPeer) -> None:
    assert await other.claim() == []
    await peer.put("k", "m1", "m2")
    await until(other.told_ready)
    turn = await other.claim_one()
    waiting = await peer.queue_up("k", "i")
    assert (await peer.store.begin(waiting)).status == "waiting"
    assert (await peer.attend("k", turn.ident)).status == "pending"
    following = await other.done(turn, state=b"s", sends=[send_to("k", "s")], next_token=other.new_token())
    assert following is not None
    await until(lambda: peer.told_settled("k", turn.ident))
    assert (await other.fail(following, "dead")).status == "failed"
    await peer.done(await peer.offered(waiting))
    assert await peer.store.replay("k", following.ident)
    assert (await peer.store.lane("k", 10)).waiting == 2
    assert (await peer.store.lanes(10)).in_use == 1
    call = other.new_token()
    assert len(await other.claim(call=call)) == 1
    assert await other.store.unclaim(0, call) == 1
    helping = other.new_token()
    assert await other.store.claim_lane(helping, ("work",), "k") is not None
    assert await other.store.unclaim(0, helping) == 1
    assert await other.store.unclaim(0, other.new_token()) == 0, "it left no note"
    await peer.store.stop("k", "parked", "why")
    assert await peer.store.resume("k")
    assert await peer.store.clear("k") == 2
    inline = await peer.begin("k")
    assert await peer.store.confirm("k", inline.token)
    assert (await peer.leave(inline)).status == "released"
    assert await peer.store.dead(10) == []
    await other.store.unwork()


async def use_policies(peer: RedisPeer) -> None:
    turn = await run(peer, "p", "1", rule=INTERRUPT)
    assert (await steer(peer, turn)).status == "steered"
    await peer.put("p", "2", rule=INTERRUPT)
    assert (await peer.fail(turn, "back")).status == "lost"
    await peer.fail(await peer.claim_one(), "split", attempts=1)
    await peer.put("p", "3", rule=ROLLBACK)
    assert await turns(peer) == [["3"]]
    assert (await peer.submit("p", "4", rule=LATEST, delay_ms=60_000)).status == "delayed"
    assert await cancel(peer, "p", "4") == "cancelled"
    heard: list[bytes] = []
    stop = await peer.store.subscribe("p", heard.append)
    await peer.done(await run(peer, "p", "5", rule=quiet(0), shares="inturn:plain"))
    await until(lambda: any(text.startswith(b"commit") for text in heard))
    peer.store.publish("p", b"chunk")
    await until(lambda: b"chunk" in heard)
    await stop()


async def send_between_partitions(peer: RedisPeer) -> None:
    here, there = sorted((f"k{n}" for n in range(20)), key=peer.store.partition_of)[::19]
    await peer.done(await peer.begin(here), sends=[send_to(there, "s")])
    assert (await peer.store.beat(0, [])).forwards == (1,)
    assert await peer.store.forward(0, 1) == 0
    assert await peer.mailbox(there) == ["s"]


async def test_the_least_rights_are_enough_for_everything(user: Open, open_at: Open) -> None:
    peer = user(*RIGHTS, *FOR_THE_CHECK)
    assert not any("does not let us" in warning for warning in await peer.store.check())
    await do_everything(peer, open_at)


@pytest.mark.parametrize("missing", RIGHTS)
async def test_no_right_of_these_can_be_left_out(user: Open, open_at: Open, owner: redis.Redis, missing: str) -> None:
    if missing == "+eval":
        owner.script_flush()  # it is needed when the server does not know a script
    peer = user(*(right for right in RIGHTS if right != missing))
    sent_at = clock.now()
    with pytest.raises(StoreUnavailable, match="the ACL user may not do this") as refused:
        await do_everything(peer, open_at)
    assert clock.now() - sent_at < 30, "long before its deadline"
    assert refused.value.__cause__ is not None


async def test_the_rights_that_the_error_names_are_enough(user: Open, open_at: Open) -> None:
    named = re.findall(r"\+\S+?(?=[, ])", explain("NOPERM", "NOPERM"))
    assert "+@write" in named
    await do_everything(user(*named, KEYS, CHANNELS), open_at)


def test_the_documentation_lists_these_rights() -> None:
    text = Path("docs/locks.md").read_text("utf-8")
    _, _, listed = text.partition("The rights that an ACL user needs")
    assert sorted(listed.split("```")[1].removeprefix("text").split()) == sorted(RIGHTS)


async def test_a_link_that_may_not_ping_is_alive_all_the_same(user: Open) -> None:
    link = user(*RIGHTS).store._link()
    await link.open()
    assert "NOPERM" in str(await link.ask("PING"))
    assert link.is_up


async def test_a_right_that_is_missing_is_named(user: Open) -> None:
    peer = user(*(right for right in RIGHTS if right != "+evalsha"))
    await peer.hold("first")  # by its source
    with pytest.raises(StoreUnavailable, match=r"NOPERM.*'evalsha'"):
        await peer.acquire(peer.ask("n"))
    peer = user(*RIGHTS, "resetchannels")
    with pytest.raises(StoreUnavailable, match=r"NOPERM.*channels") as refused:
        await peer.acquire(peer.ask("n"))
    assert isinstance(refused.value.__cause__, LinkRefused)


async def test_a_database_needs_one_right_more(user: Open, server: PrivateRedis, namespace: str) -> None:
    url = f"redis://{namespace}:pw@127.0.0.1:{server.port}/3"
    peer = user(*RIGHTS, url=url)
    with pytest.raises(StoreUnavailable, match=r"NOPERM.*'select'"):
        await peer.acquire(peer.ask("n"))
    await user(*RIGHTS, "+select", url=url).hold("n")


@pytest.mark.parametrize(
    ("right", "says"), [("+info", "does not let us read CONFIG"), ("+config|get", "does not let us read INFO")]
)
async def test_a_check_that_may_not_look_warns_and_goes_on(user: Open, right: str, says: str) -> None:
    peer = user(*RIGHTS, right)
    (warning,) = await peer.store.check()
    assert says in warning
    await peer.hold("n")


@pytest.mark.parametrize("word", ["wrong", "", "%20"])
async def test_a_wrong_password_is_refused_at_once(user: Open, word: str, namespace: str) -> None:
    peer = user(*RIGHTS, password=word)
    sent_at = clock.now()
    with pytest.raises(StoreUnavailable, match=r"WRONGPASS.*the password in the URL is wrong") as refused:
        await peer.acquire(peer.ask("n"))
    assert clock.now() - sent_at < 30, "long before its deadline"
    assert isinstance(refused.value.__cause__, LinkRefused)
    with pytest.raises(StoreUnavailable, match="WRONGPASS"):
        await peer.store.check()
    with pytest.raises(StoreUnavailable, match="WRONGPASS"):
        await peer.store.command("GET", "inturn:n")


async def test_a_user_without_a_password_comes_in_by_name(user: Open, server: PrivateRedis, namespace: str) -> None:
    await user(*RIGHTS, "nopass", url=f"redis://{namespace}@127.0.0.1:{server.port}/0").hold("n")


async def test_a_server_with_one_password_for_all(open_at: Open) -> None:
    with PrivateRedis(extra=("--requirepass", "s3cr/t")) as server:
        where = f"127.0.0.1:{server.port}/0"
        await open_at(f"redis://:s3cr%2Ft@{where}").hold("n")
        await open_at(f"redis://default:s3cr%2Ft@{where}").hold("m")
        for url, says in ((f"redis://{where}", "put it in the URL"), (f"redis://:guess@{where}", "WRONGPASS")):
            peer = open_at(url, timeout_s=40)
            async with asyncio.timeout(10):
                with pytest.raises(StoreUnavailable, match=says) as refused:
                    await peer.acquire(peer.ask("n"))
            assert "guess" not in str(refused.value)
