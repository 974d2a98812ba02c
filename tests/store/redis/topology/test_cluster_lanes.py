"""Lanes over a cluster: every message runs once and in order, also while slots move and a master is killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from inturn import InTurn, StoreUnavailable
from inturn.lanes import worker as worker_module
from inturn.settings import Settings
from inturn.store.redis.store import RedisStore
from tests.lanes.workbench import working
from tests.servers import PrivateCluster
from tests.servers.cluster import NODE_TIMEOUT_MS
from tests.store.redis.conftest import have_patience
from tests.store.redis.topology.clusters import Move, name_in, names_at, slot_of_partition
from tests.waiting import until

MakeApp = Callable[..., InTurn]


@pytest.fixture
async def make_app(namespace: str) -> AsyncIterator[MakeApp]:
    apps: list[InTurn] = []

    def make(url: str, **settings: Any) -> InTurn:
        apps.append(InTurn(url, namespace=namespace, settings=Settings(**settings)))
        return apps[-1]

    yield make
    for app in apps:
        await app.close()


def store_of(app: InTurn) -> RedisStore:
    store = app.process.store
    assert isinstance(store, RedisStore)
    return store


class Ledger:
    """What ran, by lane. A handler that counts in its state, too: two at once, or one twice, would show."""

    def __init__(self, *apps: InTurn) -> None:
        self.ran: dict[str, list[int]] = {}
        for app in apps:
            app.handler("note", key="{lane}", message_id="{number}", state=dict, backoff=(0.05, 0.1))(self.note)

    def has_run(self, lane: str, count: int) -> bool:
        return len(self.ran.get(lane, [])) == count

    async def note(self, turn: Any) -> int:
        numbers = turn.state.setdefault("numbers", [])
        numbers.append(turn.body["number"])
        self.ran[turn.body["lane"]] = list(numbers)
        return len(numbers)


async def test_submitted_messages_inline_turns_and_sends_between_partitions(
    cluster: PrivateCluster, make_app: MakeApp
) -> None:
    app, worker = make_app(cluster.url, store_timeout=20), make_app(cluster.url, store_timeout=20)
    arrived: list[str] = []
    for each in (app, worker):

        @each.handler("greet", key="visitor:{name}", message_id="{name}")
        async def greet(turn: Any) -> str:
            turn.send("deliver", {"to": turn.body["name"]}, key=f"mail:{turn.body['name']}")
            return f"hello {turn.body['name']}"

        @each.handler("deliver", key="mail:{to}")
        async def deliver(turn: Any) -> None:
            arrived.append(turn.body["to"])

    names = [f"v{number}" for number in range(60)]
    async with working(worker):
        receipts = await asyncio.gather(*(app.submit("greet", {"name": name}) for name in names))
        results = await asyncio.gather(*(receipt.result(timeout=20) for receipt in receipts))
        assert results == [f"hello {name}" for name in names]
        again = await app.submit("greet", {"name": "v7"})
        assert await again.result(timeout=20) == "hello v7"
        for name in names[:10]:
            async with app.turn(f"visitor:{name}", state=dict) as turn:
                turn.state["seen"] = True
        await until(lambda: len(arrived) == len(names), within_s=20)
    assert sorted(arrived) == sorted(names)


async def test_a_slot_moves_while_its_lane_is_at_work(fresh_cluster: PrivateCluster, make_app: MakeApp) -> None:
    cluster = fresh_cluster
    have_patience(cluster)  # a replica that took a node's place would not have the very last messages
    app, worker = make_app(cluster.url, store_timeout=20), make_app(cluster.url, store_timeout=20)
    ledger = Ledger(app, worker)
    lane = "moving"
    slot = slot_of_partition(store_of(app), store_of(app).partition_of(lane))
    sent = 0
    async with working(worker):
        for _ in range(3):
            moving = asyncio.create_task(asyncio.to_thread(Move(cluster, slot).all_at_once))
            while not moving.done() or sent % 10:
                await app.submit("note", {"lane": lane, "number": sent})
                sent += 1
            await moving
            await until(partial(ledger.has_run, lane, sent), within_s=30)
    assert ledger.ran[lane] == list(range(sent))


async def test_a_master_is_killed_while_submitters_and_a_worker_are_at_work(
    fresh_cluster: PrivateCluster, make_app: MakeApp
) -> None:
    cluster, first = fresh_cluster, fresh_cluster.masters[0]
    have_patience(cluster)
    app, worker = make_app(cluster.url, store_timeout=8), make_app(cluster.url, store_timeout=8)
    ledger = Ledger(app, worker)
    await app.open()
    there = names_at(store_of(app), cluster, first, 3)
    elsewhere = names_at(store_of(app), cluster, cluster.masters[1], 3)
    acknowledged: dict[str, list[int]] = {lane: [] for lane in (*there, *elsewhere)}
    stops_at = 10_000

    async def submit_to(lane: str) -> None:
        for number in range(100_000):
            if number >= stops_at:
                return
            with contextlib.suppress(StoreUnavailable):
                await app.submit("note", {"lane": lane, "number": number})
                acknowledged[lane].append(number)
            await asyncio.sleep(0.01)

    submitters = [asyncio.create_task(submit_to(lane)) for lane in acknowledged]
    async with working(worker):
        await until(lambda: all(len(numbers) > 20 for numbers in acknowledged.values()), within_s=30)
        have_patience(cluster, NODE_TIMEOUT_MS)  # and now they have none
        first.kill()
        before = {lane: len(numbers) for lane, numbers in acknowledged.items()}
        await until(lambda: all(len(acknowledged[lane]) > before[lane] + 20 for lane in acknowledged), within_s=30)
        stops_at = 0
        await asyncio.gather(*submitters)
        last = {lane: numbers[-1] for lane, numbers in acknowledged.items()}
        await until(lambda: all(ledger.ran[lane][-1] == last[lane] for lane in acknowledged), within_s=20)
    for lane, numbers in acknowledged.items():
        ran = ledger.ran[lane]
        assert ran == sorted(set(ran)), f"{lane}: not once each, or not in order"
        lost = [number for number in numbers if number not in ran]
        if lane in elsewhere:
            assert lost == []
        # what the replica did not have yet when its master was killed: the very last before the kill, and no others
        assert all(before[lane] - 10 <= numbers.index(number) <= before[lane] for number in lost), (lane, lost)


async def test_while_a_slot_moves_the_lanes_of_other_partitions_run(
    moving: PrivateCluster, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even with room for one turn only: the worker does not wait for the partition that moves."""
    monkeypatch.setattr(worker_module, "LOOK_S", 0.05)
    app = make_app(moving.url, store_timeout=30)
    ledger = Ledger(app)
    store = store_of(app)
    lanes = [name_in(store, partition, "lane-") for partition in range(store.partitions)]
    async with working(app, concurrency=1):
        for lane in lanes:
            await (await app.submit("note", {"lane": lane, "number": 0})).result(20)
        move = Move(moving, slot_of_partition(store, 5))
        await app.submit("note", {"lane": lanes[5], "number": 1}, delay=3600)  # so that some of its keys stay
        move.begin()
        move.move_keys(2)
        move.source.tell("CONFIG", "RESETSTAT")
        await until(lambda: "errorstat_TRYAGAIN" in move.source.facts("INFO", "errorstats"))  # the worker has asked
        for number in range(1, 4):
            others = [lane for lane in lanes if lane != lanes[5]]
            receipts = [await app.submit("note", {"lane": lane, "number": number}) for lane in others]
            await asyncio.gather(*(receipt.result(20) for receipt in receipts))
        waiting = asyncio.create_task(app.submit("note", {"lane": lanes[5], "number": 2}))
        assert ledger.has_run(lanes[5], 1)
        move.end()
        await (await waiting).result(20)
    assert ledger.ran[lanes[5]] == [0, 2]
