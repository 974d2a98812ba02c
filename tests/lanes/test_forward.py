"""Sends to lanes of another partition, which only Redis has: brought there in order, once, and by a beat if need be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from inturn import InTurn, StoreUnavailable, Turn
from inturn.process import heartbeat
from inturn.settings import Settings
from inturn.store.redis.store import RedisStore
from inturn.testing import drain
from tests.conftest import PATIENT_S
from tests.lanes.workbench import apart, working
from tests.redis_keys import keys_like
from tests.store.redis.peers import RedisPeer
from tests.store.world import send_to
from tests.waiting import until, until_waiting


@pytest.fixture
async def parted(redis_url: str, namespace: str) -> AsyncIterator[InTurn]:
    """An app whose lanes are in two partitions."""
    async with InTurn(redis_url, namespace=namespace, settings=Settings(partitions=2, store_timeout=PATIENT_S)) as app:
        note(app)
        yield app


def note(app: InTurn) -> None:
    @app.handler("note")
    async def note(turn: Turn[Any]) -> None: ...


def keys_in(app: InTurn, partition: int, count: int, name: str) -> list[str]:
    every = (f"{name}{n}" for n in range(1000))
    return [key for key in every if app.process.store.partition_of(key) == partition][:count]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_two_turns_of_two_partitions_with_one_fence_send_two_messages(
    parted: InTurn, redis_url: str, namespace: str, order: tuple[int, int]
) -> None:
    """The counters of two partitions may stand equal: the id that is made for a send must not."""
    (target,) = keys_in(parted, 0, 1, "t")
    fences = set()
    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        for count, partition in enumerate(order, 1):
            await client.set(f"{namespace}:{{{partition}}}:fence", 4_000_000_000_000_000)
            async with parted.turn(keys_in(parted, partition, 1, "s")[0]) as turn:
                fences.add(turn.fence)
                turn.send("note", partition, key=target)
            await until_waiting(parted, target, count)
    assert len(fences) == 1, "or the test shows nothing"
    info = await parted.lanes.inspect(target)
    assert [message.body for message in info.messages] == list(order)


class Copy:
    """Of one partition, to be put back: as if a replica took over that had not heard of what came after."""

    def __init__(self, client: redis.asyncio.Redis, namespace: str, partition: int) -> None:
        self._client = client
        self._pattern = f"{namespace}:{{{partition}}}:*"
        self._kept: dict[str, Any] = {}

    async def take(self) -> None:
        self._kept = {key: await self._client.dump(key) for key in await keys_like(self._client, self._pattern)}

    async def put_back(self) -> None:
        """All at once: a beat may come at any time."""
        found = await keys_like(self._client, self._pattern)
        async with self._client.pipeline(transaction=True) as pipeline:
            for key in found:
                pipeline.delete(key)
            for key, value in self._kept.items():
                pipeline.restore(key, 0, value, replace=True)
            await pipeline.execute()


@pytest.mark.parametrize("becomes", ["committed", "a dead letter", "waiting"])
async def test_what_a_message_sends_arrives_once_though_its_commit_was_lost_and_it_runs_again(
    parted: InTurn, redis_url: str, namespace: str, becomes: str
) -> None:
    ran: list[str] = []
    (source,), (target, other) = keys_in(parted, 0, 1, "s"), keys_in(parted, 1, 2, "t")

    @parted.handler("order", key=source)
    async def order(turn: Turn[Any]) -> None:
        ran.append("order")
        turn.send("mail", turn.body, key=target)
        turn.send("mail", turn.body, key=target, delay=3600)
        turn.send("mail", "mine", key=other, message_id="mine")
        turn.send("note", turn.body)

    @parted.handler("mail", on_failure="skip")
    async def mail(turn: Turn[Any]) -> None:
        ran.append("mail")
        if becomes == "a dead letter":
            raise ValueError

    async def ended() -> bool:
        lanes = [await parted.lanes.inspect(key) for key in (source, f"{source}>note", target, other)]
        is_brought = not await client.exists(f"{namespace}:{{0}}:forward:1")
        return is_brought and {lane.status for lane in lanes} <= {"idle", "paused"}

    async def arrived() -> list[list[str]]:
        lane = await parted.lanes.inspect(target)
        kept = lane.messages, lane.delayed, await parted.dead_letters.list()
        return [[message.id for message in messages] for messages in kept]

    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        copy = Copy(client, namespace, 0)
        if becomes == "waiting":
            await parted.lanes.pause(target)
        await parted.submit("order", 1)
        await copy.take()
        async with working(parted):
            await until(lambda: "order" in ran)
            await until(ended)
        waiting, delayed, dead = before = await arrived()
        expected = {"committed": (0, 1, 0, 2), "a dead letter": (0, 1, 2, 2), "waiting": (1, 1, 0, 1)}[becomes]
        assert (len(waiting), len(delayed), len(dead), ran.count("mail")) == expected
        await copy.put_back()
        async with working(parted):
            await until(lambda: ran.count("order") == 2)
            await until(ended)
        assert await arrived() == before
        assert ran.count("mail") == expected[-1] + (becomes == "a dead letter"), "only by an id of its own, anew"


async def test_a_message_that_is_submitted_again_after_its_window_sends_again(
    parted: InTurn, redis_url: str, namespace: str
) -> None:
    """Although what it sent is remembered for longer than it is."""
    sent: list[str] = []
    (source,), (target,) = keys_in(parted, 0, 1, "s"), keys_in(parted, 1, 1, "t")

    @parted.handler("order", key=source)
    async def order(turn: Turn[Any]) -> None:
        turn.send("mail", 1, key=target)
        turn.send("mail", 1, key=source)

    @parted.handler("mail", dedup_window=86400)
    async def mail(turn: Turn[Any]) -> None:
        sent.append(turn.id)

    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client, working(parted):
        await (await parted.submit("order", 1, message_id="o")).result(20)
        await until(lambda: len(sent) == 2)
        assert (await parted.submit("order", 1, message_id="o")).status == "duplicate"
        assert await client.delete(f"{namespace}:{{0}}:mark:{source}\0order\0o") == 1  # its window has passed
        await (await parted.submit("order", 1, message_id="o")).result(20)
        await until(lambda: len(sent) == 4)
    assert len(set(sent)) == 4


async def test_sends_of_many_turns_to_another_partition_are_brought_by_one_task_at_a_time(
    parted: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, here = parted.process.store, asyncio.get_running_loop()
    really_forward = store.forward
    running, most = 0, 0

    async def forward(source: int, target: int) -> int:
        nonlocal running, most
        if asyncio.get_running_loop() is not here:  # the heartbeat has its own
            return await really_forward(source, target)
        running += 1
        most = max(most, running)
        try:
            return await really_forward(source, target)
        finally:
            running -= 1

    monkeypatch.setattr(store, "forward", forward)
    (target,) = keys_in(parted, 1, 1, "t")

    async def send(key: str) -> None:
        for n in range(5):
            async with parted.turn(key) as turn:
                turn.send("note", n, key=target)

    await asyncio.gather(*(apart(send(key)) for key in keys_in(parted, 0, 20, "s")))
    await until_waiting(parted, target, 100)
    assert most == 1


async def test_one_forward_is_bounded_and_says_how_many_are_left(redis_url: str, namespace: str) -> None:
    """However fast new sends come, a call comes to an end."""
    peer = RedisPeer(RedisStore(redis_url, "host:1:0000", namespace=namespace, partitions=2))
    source, target = (next(k for k in "abcdefgh" if peer.store.partition_of(k) == partition) for partition in (0, 1))
    sends = [send_to(target, str(n), is_fresh=True) for n in range(1050)]
    await peer.done(await peer.begin(source), sends=sends)
    assert await peer.store.forward(0, 1) == 50
    assert (await peer.store.lane(target, 0)).waiting == 1000
    assert await peer.store.forward(0, 1) == 0
    assert await peer.mailbox(target) == [str(n) for n in range(1000)]
    assert (await peer.store.lane(target, 0)).waiting == 1050
    await peer.store.close()


async def test_the_heartbeat_does_not_wait_for_sends_that_it_brings(
    parted: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, here = parted.process.store, asyncio.get_running_loop()
    really_beat = store.beat
    brought: list[tuple[int, int]] = []
    beats = 0

    async def forward(source: int, target: int) -> int:
        if asyncio.get_running_loop() is here:
            raise StoreUnavailable("left to a beat")
        brought.append((source, target))
        return await asyncio.Event().wait()

    async def beat(*arguments: Any) -> Any:
        nonlocal beats
        beats += 1
        return await really_beat(*arguments)

    monkeypatch.setattr(store, "forward", forward)
    monkeypatch.setattr(store, "beat", beat)
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.2)
    (source,), (target,) = keys_in(parted, 0, 1, "s"), keys_in(parted, 1, 1, "t")
    async with parted.turn("beating"):
        async with parted.turn(source) as turn:
            turn.send("note", 1, key=target)

        async def is_under_way() -> bool:
            return bool(brought)

        await until(is_under_way)
        before = beats

        async def beats_go_on() -> bool:
            return beats >= before + 6  # of both partitions

        await until(beats_go_on)
    assert brought == [(0, 1)], "one at a time on each way"


async def test_what_a_dead_letter_sends_arrives_once_though_its_death_was_lost_and_it_dies_again(
    parted: InTurn, redis_url: str, namespace: str
) -> None:
    (source,), (target,) = keys_in(parted, 0, 1, "s"), keys_in(parted, 1, 1, "t")
    ran: list[str] = []

    def on_dead(turn: Turn[Any], error: Exception) -> None:
        turn.send("mail", f"{turn.body}: {error}", key=target)

    @parted.handler("order", key=source, attempts=1, on_dead=on_dead)
    async def order(turn: Turn[Any]) -> None:
        ran.append("order")
        raise ValueError("no")

    @parted.handler("mail")
    async def mail(turn: Turn[Any]) -> None:
        ran.append(turn.body)

    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        copy = Copy(client, namespace, 0)
        await parted.submit("order", "book", message_id="m")
        await copy.take()
        await drain(parted)
        assert ran == ["order", "book: no"]
        await copy.put_back()
        await drain(parted)
        assert ran == ["order", "book: no", "order"]
        assert len(await parted.dead_letters.list()) == 1
        assert await parted.dead_letters.replay(source, "order", "m")
        await drain(parted)
    assert ran == ["order", "book: no", "order", "order", "book: no"], "a replay is another life"


async def test_a_message_whose_death_was_lost_may_be_committed_and_what_it_sends_then_arrives_too(
    parted: InTurn, redis_url: str, namespace: str
) -> None:
    """The two are not the same message: one would be taken for the other, and be lost."""
    (source,), (target,) = keys_in(parted, 0, 1, "s"), keys_in(parted, 1, 1, "t")
    mails: list[str] = []

    def on_dead(turn: Turn[Any], error: Exception) -> None:
        turn.send("mail", "failed", key=target)

    @parted.handler("order", key=source, attempts=1, on_dead=on_dead)
    async def order(turn: Turn[Any]) -> None:
        if not mails:
            raise ValueError("no")
        turn.send("mail", "done", key=target)

    @parted.handler("mail")
    async def mail(turn: Turn[Any]) -> None:
        mails.append(turn.body)

    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        copy = Copy(client, namespace, 0)
        await parted.submit("order", 1)
        await copy.take()
        await drain(parted)
        assert mails == ["failed"]
        await copy.put_back()
        await drain(parted)
    assert mails == ["failed", "done"]
