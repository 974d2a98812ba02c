"""A slot that moves to another node: calls wait for it or follow it, and so do the pushes. None is run by halves."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from inturn.errors import StoreUnavailable
from tests.servers import ClusterNode, PrivateCluster
from tests.store.redis.peers import Open, RedisPeer, started, warm_up
from tests.store.redis.topology.clusters import Move, name_in, slot_of_partition
from tests.store.stopwatch import Stopwatch
from tests.waiting import until


def errors(node: ClusterNode) -> set[str]:
    return set(node.facts("INFO", "errorstats"))


def move_of(cluster: PrivateCluster, peer: RedisPeer, partition: int) -> Move:
    for node in cluster.nodes:
        node.tell("CONFIG", "RESETSTAT")  # what is counted from here on is this test's
    return Move(cluster, slot_of_partition(peer.store, partition))


def empty_slot(cluster: PrivateCluster, namespace: str) -> tuple[str, Move]:
    """A tag whose slot has no key of another test."""
    for number in itertools.count():
        tag = f"{namespace}-{number}"
        move = Move(cluster, int(cluster.masters[0].tell("CLUSTER", "KEYSLOT", f"{{{tag}}}")))
        if move.source.tell("CLUSTER", "COUNTKEYSINSLOT", move.slot) == 0:
            return tag, move
    raise AssertionError("there are more slots than keys")


async def test_locks_and_waiters_go_along_and_the_push_comes_from_the_new_node(
    moving: PrivateCluster, open_at: Open
) -> None:
    one, other = open_at(moving.url, timeout_s=20), open_at(moving.url, timeout_s=20)
    name = name_in(one.store, 3)
    held = await one.hold(name)
    waiting = await other.wait_for(name)
    reopened: list[bool] = []
    other.store.listen(other.notices.append, lambda: reopened.append(True))
    move = move_of(moving, one, 3)
    move.all_at_once()
    await until(lambda: reopened)  # without a call of its own: the old node ended the subscription
    assert other.store._way(True, other.store._keys[3].prefix).server.address.port == move.target.port
    await other.store.beat(3, ())  # a place of which nothing was heard for three seconds is dropped
    assert (await one.release(held)).status == "released"
    await until(lambda: other.told("granted", waiting))
    assert (await other.acquire(waiting)).status == "granted"


async def test_while_a_slot_moves_its_calls_wait_and_those_of_other_partitions_do_not(
    moving: PrivateCluster, open_at: Open
) -> None:
    peer = open_at(moving.url, timeout_s=20)
    await peer.hold(name_in(peer.store, 5))
    move = move_of(moving, peer, 5)
    move.begin()
    move.move_keys(2)  # some are there, and some are not
    calls = [await started(peer.acquire(peer.ask(name_in(peer.store, 5, text)))) for text in "abc"]
    for partition in range(5):
        await peer.release(await peer.hold(name_in(peer.store, partition, "other")))
    await until(lambda: "errorstat_TRYAGAIN" in errors(move.source))
    assert not any(call.done() for call in calls)
    move.end()
    assert {answer.status for answer in await asyncio.gather(*calls)} == {"granted"}
    for node in (move.source, move.target):
        assert "errorstat_ERR" not in errors(node), "a script ran into a key that had gone"


async def test_a_release_whose_keys_are_all_here_still_waits_for_the_move_to_end(
    moving: PrivateCluster, open_at: Open
) -> None:
    """It would write to an inbox that does not exist yet, which the node would refuse when half of it was done."""
    one, other = open_at(moving.url, timeout_s=20), open_at(moving.url, timeout_s=20)
    name = name_in(one.store, 8)
    for peer in (one, other):
        await peer.store.beat(8, ())
    await one.hold(name_in(one.store, 8, "due"), life_ms=60_000)  # so that every key of the release is there
    held = await one.hold(name)
    for number, peer in enumerate((other, one, other)):
        await peer.wait_for(name, owner=f"o{number}")
    for key in one.store._keys[8].lock(name):
        assert moving.owner(slot_of_partition(one.store, 8)).tell("EXISTS", key) == 1, key
    move = move_of(moving, one, 8)
    move.begin()
    releasing = await started(one.release(held))
    await until(lambda: "errorstat_TRYAGAIN" in errors(move.source) or releasing.done())
    assert not releasing.done()
    move.end()
    assert (await releasing).status == "released"
    view = await one.store.inspect(name)
    assert view is not None
    assert (len(view.holders), len(view.waiters)) == (1, 2)


async def test_a_slot_whose_keys_have_all_gone_is_asked_for_at_its_new_node_and_waited_for(
    moving: PrivateCluster, open_at: Open
) -> None:
    peer = open_at(moving.url, timeout_s=20)
    await peer.hold(name_in(peer.store, 6))
    move = move_of(moving, peer, 6)
    move.begin()
    while move.move_keys():
        pass
    acquiring = await started(peer.acquire(peer.ask(name_in(peer.store, 6, "new"))))
    await until(lambda: "errorstat_ASK" in errors(move.source))
    await until(lambda: "errorstat_TRYAGAIN" in errors(move.target))
    assert not acquiring.done()
    move.end()
    assert (await acquiring).status == "granted"


async def test_a_plain_key_is_found_at_its_new_node_while_its_slot_still_moves(
    moving: PrivateCluster, open_at: Open, namespace: str
) -> None:
    store = open_at(moving.url, timeout_s=20).store
    tag, move = empty_slot(moving, namespace)
    gone, stays = (f"{{{tag}}}:{what}" for what in ("gone", "stays"))
    await store.command("SET", gone, "there")
    move.begin()
    assert move.move_keys() == 1
    await asyncio.gather(*(store.command("SET", f"elsewhere{number}", "x") for number in range(20)))  # connected to all
    replies = await asyncio.gather(*(store.command("GET", gone) for _ in range(20)))
    assert replies == [b"there"] * 20
    assert await store.command("SET", stays, "new") == b"OK"  # a new key is made there
    assert await store.command("EVAL", "return redis.call('GET', KEYS[1])", 1, stays) == b"new"
    assert move.source.tell("CLUSTER", "COUNTKEYSINSLOT", move.slot) == 0
    move.end()
    assert await store.command("GET", gone) == b"there"


@pytest.mark.timed
async def test_a_move_that_takes_too_long_is_given_up_in_time_and_leaves_nothing(
    moving: PrivateCluster, open_at: Open
) -> None:
    peer, patient = open_at(moving.url, timeout_s=2), open_at(moving.url, timeout_s=20)
    await patient.hold(name_in(peer.store, 7))
    await warm_up(peer)
    move = move_of(moving, peer, 7)
    move.begin()
    move.move_keys(1)
    name = name_in(peer.store, 7, "late")
    async with Stopwatch() as watch:
        with pytest.raises(StoreUnavailable, match="TRYAGAIN"):
            await peer.acquire(peer.ask(name))
    assert watch.took_s >= 2
    assert watch.own_s < 2.6
    move.end()
    assert await patient.store.inspect(name) is None


async def test_under_load_every_call_is_answered_while_the_slot_goes_round(
    moving: PrivateCluster, open_at: Open
) -> None:
    one, other = open_at(moving.url, timeout_s=20), open_at(moving.url, timeout_s=20)
    is_over = False
    counts = [0, 0]

    async def use(peer: RedisPeer, name: str, index: int) -> None:
        while not is_over:
            held = await peer.hold(name)
            assert (await peer.release(held)).status == "released"
            counts[index] += 1

    users = [
        asyncio.create_task(use(peer, name_in(peer.store, 9, f"{text}{index}"), index))
        for index, peer in enumerate((one, other))
        for text in "abcdef"
    ]
    for _ in range(4):
        await asyncio.to_thread(move_of(moving, one, 9).all_at_once)
        counts[:] = [0, 0]
        await until(lambda: all(counts))
    is_over = True
    await asyncio.gather(*users)
