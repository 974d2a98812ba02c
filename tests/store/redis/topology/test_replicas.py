"""replicas=n: what was acknowledged is on n replicas, and what is not there in time is said not to be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from inturn import CommitUnknown, InTurn
from inturn.errors import NotReplicated, SettingsError, StoreUnavailable
from inturn.settings import Settings
from inturn.store.open import open_store
from inturn.store.redis.topology.replicas import _Rounds
from tests.servers import PrivateCluster, PrivateRedis, PrivateSentinels
from tests.servers.redis import facts, tell
from tests.store.redis.peers import Open, RedisPeer, admin, started
from tests.store.redis.proxy import Proxy
from tests.store.redis.rights import RIGHTS
from tests.store.redis.topology.clusters import name_in, names_at
from tests.store.stopwatch import Stopwatch
from tests.store.world import send_to
from tests.waiting import until

AT_ONCE = ("--repl-diskless-sync-delay", "0")


class Replicated:
    """A master and its replica."""

    def __init__(self, stack: ExitStack) -> None:
        self.master = stack.enter_context(PrivateRedis(extra=AT_ONCE))
        follows = ("--replicaof", f"127.0.0.1 {self.master.port}")
        self.replica = stack.enter_context(PrivateRedis(extra=(*AT_ONCE, *follows)))

    @property
    def is_one(self) -> bool:
        with admin(self.master) as owner:
            return str(owner.info("replication").get("slave0", {})).count("online") == 1


@pytest.fixture(scope="module")
def both() -> Iterator[Replicated]:
    with ExitStack() as stack:
        yield Replicated(stack)


@pytest.fixture
async def pair(both: Replicated) -> Replicated:
    await until(lambda: both.is_one, within_s=30)
    return both


def rounds_of(peer: RedisPeer) -> _Rounds:
    found = [beside for beside in peer.store._link().companions if isinstance(beside, _Rounds)]
    assert len(found) == 1
    return found[0]


def waits(server: PrivateRedis) -> int:
    with admin(server) as owner:
        return int(owner.info("commandstats").get("cmdstat_wait", {}).get("calls", 0))


async def test_a_message_is_acknowledged_when_the_replica_has_it(pair: Replicated, open_at: Open) -> None:
    peer = open_at(pair.master.url, replicas=1)
    with admin(pair.replica) as copy:
        for number in range(50):
            await peer.put("lane", f"m{number}")
            assert copy.hlen(peer.store._keys[0].lane("lane")[3]) == number + 1


async def test_a_commit_is_answered_when_the_replica_has_it(pair: Replicated, open_at: Open) -> None:
    peer = open_at(pair.master.url, replicas=1)
    await peer.put("lane", "m")
    turn = await peer.claim_one()
    await peer.done(turn, state=b'{"a":1}')
    with admin(pair.replica) as copy:
        assert copy.exists(peer.store._keys[0].lane("lane")[1])


async def test_callers_at_once_share_a_round_and_the_shared_link_is_not_held_up(
    pair: Replicated, open_at: Open
) -> None:
    peer = open_at(pair.master.url, replicas=1)
    await peer.put("lane", "first")
    before = waits(pair.master)
    await asyncio.gather(*(peer.put(f"lane{number}", "m") for number in range(500)))
    assert waits(pair.master) - before < 100


async def test_without_replicas_nothing_is_waited_for(pair: Replicated, open_at: Open) -> None:
    before = waits(pair.master)
    peer = open_at(pair.master.url)
    await peer.put("lane", "m")
    assert waits(pair.master) == before
    assert peer.store._link().companions == []


@pytest.mark.timed
async def test_what_too_few_replicas_have_is_not_acknowledged_while_other_calls_go_on(
    pair: Replicated, open_at: Open
) -> None:
    peer = open_at(pair.master.url, replicas=2, timeout_s=3)
    async with Stopwatch() as watch:
        putting = await started(peer.submit("lane", "m"))
        await peer.release(await peer.hold("n"))  # on the shared link, which does not wait
        assert not putting.done()
        with pytest.raises(NotReplicated, match=r"fewer than 2 replicas confirmed it within 3 s") as refused:
            await putting
    assert isinstance(refused.value, StoreUnavailable)
    assert watch.took_s >= 3
    assert watch.own_s < 3.6
    assert (await open_at(pair.master.url).submit("lane", "m")).status == "pending"  # the server has it all the same


async def test_a_replica_that_comes_back_in_time_is_waited_for(pair: Replicated, open_at: Open) -> None:
    peer = open_at(pair.master.url, replicas=1, timeout_s=20)
    await peer.put("lane", "first")
    pair.replica.pause()
    try:
        puts = [await started(peer.submit(f"lane{number}", "m")) for number in range(20)]
        await until(lambda: rounds_of(peer)._pending)
        late = await started(peer.submit("late", "m"))
        await asyncio.wait(puts, timeout=0.3)
        assert not any(put.done() for put in puts)
    finally:
        pair.replica.resume()
    assert {answer.status for answer in await asyncio.gather(*puts, late)} == {"accepted"}


async def test_a_cancelled_caller_leaves_the_others_their_round(pair: Replicated, open_at: Open) -> None:
    peer = open_at(pair.master.url, replicas=1, timeout_s=20)
    await peer.put("lane", "first")
    puts = [await started(peer.submit(f"lane{number}", "m")) for number in range(20)]
    await asyncio.sleep(0)
    for put in puts[::2]:
        put.cancel()
    assert {answer.status for answer in await asyncio.gather(*puts[1::2])} == {"accepted"}
    await asyncio.gather(*puts[::2], return_exceptions=True)


async def test_a_waiting_connection_that_is_cut_is_made_again_and_the_call_repeated(
    pair: Replicated, open_at: Open
) -> None:
    async with Proxy(pair.master.port) as proxy:
        peer = open_at(proxy.url, replicas=1, timeout_s=20)
        await peer.put("lane", "first")
        for number in range(10):
            proxy.answer("WAIT", "ERR something is odd")
            assert (await peer.submit("lane", f"m{number}")).status == "accepted"
        proxy.freezes_at = "WAIT"
        putting = await started(peer.submit("lane", "half-open"))
        await until(lambda: proxy.commands[-1] == "WAIT")
        await asyncio.sleep(0.05)
        proxy.freezes_at = ""
        proxy.thaw()
        assert (await putting).status == "accepted"
        assert len(await peer.mailbox("lane")) == 12


async def test_another_server_behind_the_same_address_does_not_answer_for_the_first(
    pair: Replicated, open_at: Open
) -> None:
    """As after a failover behind a proxy: one server has answered, and the other knows nothing of it."""
    async with Proxy(pair.master.port) as proxy:
        peer = open_at(proxy.url, replicas=1, timeout_s=20)
        await peer.put("lane", "first")
        connections, run_id = proxy.connections, peer.store._link().run_id
        peer.store._link().run_id = "f" * 40
        await peer.put("lane", "m")  # after both connections were made anew, and the call repeated
        assert peer.store._link().run_id == run_id
        assert proxy.connections == connections + 2
        assert await peer.mailbox("lane") == ["first", "m"]


async def test_a_server_that_tells_nobody_who_it_is_cannot_be_waited_for(pair: Replicated, open_at: Open) -> None:
    async with Proxy(pair.master.port) as proxy:
        proxy.answer("INFO", "NOPERM this user has no permissions to run the 'info' command")
        peer = open_at(proxy.url, replicas=1)
        with pytest.raises(StoreUnavailable, match="does not let us read INFO, which waiting for replicas needs"):
            await peer.submit("lane", "m")


async def test_the_rights_that_the_docs_list_are_enough(pair: Replicated, open_at: Open) -> None:
    with admin(pair.master) as owner:
        owner.execute_command("ACL", "SETUSER", "inturn", "on", ">secret", *RIGHTS, "+wait", "+info")
    peer = open_at(f"redis://inturn:secret@127.0.0.1:{pair.master.port}", namespace="inturn", replicas=1)
    await peer.put("lane", "m")


async def test_closing_ends_the_waiting_connection_and_who_waits(pair: Replicated, open_at: Open) -> None:
    before = asyncio.all_tasks()
    peer = open_at(pair.master.url, replicas=3, timeout_s=20)
    putting = await started(peer.submit("lane", "m"))
    await until(lambda: peer.store._link().companions and rounds_of(peer)._pending)
    await peer.store.close()
    with pytest.raises(StoreUnavailable):
        await putting
    await until(lambda: asyncio.all_tasks() == before)


async def test_sends_leave_their_partition_when_the_replica_has_the_commit(pair: Replicated, open_at: Open) -> None:
    """Whoever brings them: not the process that committed, but the beat of another one, say."""
    sender, another = (open_at(pair.master.url, replicas=1, timeout_s=2, partitions=2) for _ in range(2))
    patient = open_at(pair.master.url, replicas=1, timeout_s=20, partitions=2)
    source, target = name_in(sender.store, 0), name_in(sender.store, 1)
    await patient.put(source, "m")
    turn = await patient.claim_one()
    assert await patient.store.forward(0, 1) == 0
    pair.replica.pause()
    try:
        with pytest.raises(NotReplicated):
            await sender.commit(turn, sends=[send_to(target, "s")])
        with pytest.raises(NotReplicated):
            await another.store.forward(0, 1)
        assert (await patient.store.lane(target, 1)).waiting == 0
    finally:
        pair.replica.resume()
    assert await patient.store.forward(0, 1) == 0
    assert await patient.mailbox(target) == ["s"]


async def test_a_send_whose_commit_was_lost_with_its_master_has_not_left(
    fresh_cluster: PrivateCluster, open_at: Open
) -> None:
    """The master commits, its replica does not hear of it, a beat asks for the sends, and the master dies."""
    cluster, first = fresh_cluster, fresh_cluster.masters[0]
    sender, another = (open_at(cluster.url, replicas=1, timeout_s=3) for _ in range(2))
    store, reader = sender.store, open_at(cluster.url, timeout_s=30)
    (source,), (target,) = (names_at(store, cluster, node, 1) for node in cluster.masters[:2])
    way = store.partition_of(source), store.partition_of(target)
    await sender.put(source, "m")
    turn = await sender.claim_one()
    await another.store.forward(*way)  # it is connected
    cluster.replica.pause()
    first.tell("CLIENT", "KILL", "TYPE", "replica")  # what is written from here on stays here
    committing = await started(sender.commit(turn, sends=[send_to(target, "s", is_fresh=True)]))
    await until(lambda: first.tell("EXISTS", store._keys[way[0]].forward(way[1])))
    bringing = await started(another.store.forward(*way))
    assert (await asyncio.wait([bringing], timeout=1))[0] == set()
    first.kill()
    cluster.replica.resume()
    await asyncio.gather(committing, bringing, return_exceptions=True)
    assert await reader.mailbox(source) == ["m"], "the commit was lost, so it runs again"
    assert await reader.mailbox(target) == []


def in_order(acknowledged: list[str], there: list[str]) -> list[str]:
    """Those of the acknowledged messages that are there, as they stand there."""
    wanted = set(acknowledged)
    return [message_id for message_id in there if message_id in wanted]


async def test_nothing_acknowledged_is_lost_when_the_master_of_a_partition_is_killed(
    fresh_cluster: PrivateCluster, open_at: Open
) -> None:
    cluster, first = fresh_cluster, fresh_cluster.masters[0]
    peer = open_at(cluster.url, replicas=1, timeout_s=3)
    lanes = names_at(peer.store, cluster, first, 4)
    acknowledged: dict[str, list[str]] = {lane: [] for lane in lanes}

    async def submit_to(lane: str) -> None:
        for number in range(1_000_000):
            try:
                await peer.put(lane, f"m{number}")
            except StoreUnavailable:
                if not first.is_running:
                    return  # nobody answers; later the new master has no replica of its own
                continue  # the machine stalled: whether it is there is not known
            acknowledged[lane].append(f"m{number}")

    submitting = [asyncio.create_task(submit_to(lane)) for lane in lanes]
    await until(lambda: all(len(ids) > 50 for ids in acknowledged.values()))
    first.kill()
    await asyncio.gather(*submitting)
    reader = open_at(cluster.url, timeout_s=30)
    for lane in lanes:
        assert in_order(acknowledged[lane], await reader.mailbox(lane)) == acknowledged[lane]


async def test_nothing_acknowledged_is_lost_when_sentinels_replace_the_master(
    fresh_sentinels: PrivateSentinels, open_at: Open
) -> None:
    sentinels = fresh_sentinels
    peer = open_at(sentinels.url, replicas=1, timeout_s=3)
    acknowledged: list[str] = []

    async def submit() -> None:
        for number in range(1_000_000):
            try:
                await peer.put("lane", f"m{number}")
            except StoreUnavailable:
                if not sentinels.master.is_running:
                    return
                continue
            acknowledged.append(f"m{number}")

    submitting = asyncio.create_task(submit())
    await until(lambda: len(acknowledged) > 100)
    sentinels.master.kill()
    await submitting
    there = await open_at(sentinels.url, timeout_s=30).mailbox("lane")
    assert in_order(acknowledged, there) == acknowledged


def test_sqlite_has_no_replicas(sqlite_url: str) -> None:
    with pytest.raises(SettingsError, match="replicas 1: sqlite:// has none"):
        open_store(sqlite_url, "h:1:x", replicas=1)


@pytest.mark.parametrize("replicas", [-1, 101])
def test_a_bad_number_of_replicas_is_refused(replicas: int) -> None:
    with pytest.raises(SettingsError, match=f"replicas {replicas}: must be a whole number from 0 to 100"):
        open_store("redis://localhost", "h:1:x", replicas=replicas)


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
        await until(lambda: chain.has_replica(chain.first) and chain.has_replica(chain.second), within_s=30)
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
