"""Those who watch a lane: slow ones, late ones, a hundred of them, ones that leave, and ones whose store restarts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio

from inturn import InTurn, StoreUnavailable, Turn
from inturn.lanes.watch import Watch
from inturn.settings import Settings
from tests.conftest import PATIENT_S, MakeApp
from tests.lanes.workbench import Gate, add_talker, events_until, submit, told, working
from tests.servers import PrivateRedis
from tests.waiting import until, until_status


async def test_a_watcher_that_never_reads_slows_nobody_and_is_told_what_it_missed(app: InTurn, other: InTurn) -> None:
    number = 3000

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> str:
        for n in range(number):
            turn.stream(n)
            if n % 50 == 0:
                await asyncio.sleep(0)
        turn.stream("last")
        return "answer"

    async with other.watch("k") as slow, other.watch("k") as quick, working(app):
        reading = asyncio.create_task(events_until(quick, "commit"))
        assert await (await submit(app, "a")).result(30) == "answer"
        seen = await reading
        assert seen[-1].what == "commit"

        late = await events_until(slow, "commit")
        assert late[0].what == "missed", "it is told so before all else"
        assert len(late) <= 1002
        numbers = [event.number for event in late if event.what == "chunk"]
        assert numbers == sorted(numbers)
        assert late[-1].what == "commit", "what it has is the newest"


async def test_a_hundred_watchers_get_everything(app: InTurn, other: InTurn) -> None:
    add_talker(app, 20)
    watches = [(app, other)[n % 2].watch("k") for n in range(100)]
    for watch in watches:
        await watch.open()
    async with working(app):
        await (await submit(app, "a")).result(20)
        all_seen = await asyncio.gather(*(events_until(watch) for watch in watches))
    for seen in all_seen:
        assert told(seen) == ["begin", *({"text": f"a{n}"} for n in range(1, 21)), "commit"]
    for watch in watches:
        await watch.aclose()


async def test_who_stops_watching_hears_nothing_more(app: InTurn, other: InTurn) -> None:
    add_talker(app, 1)
    async with other.watch("k") as stays, working(app):
        async with other.watch("k") as leaves:
            await (await submit(app, "a")).result(20)
            await events_until(stays)
        await (await submit(app, "b")).result(20)
        assert len(await events_until(stays)) == 3
        rest = [event async for event in leaves]
        assert [event.data["text"] for event in rest if event.what == "chunk"] in ([], ["a1"])
        await leaves.aclose()


async def test_when_the_last_watcher_has_left_redis_has_no_channel_for_it(redis_url: str, namespace: str) -> None:
    patient = Settings(store_timeout=PATIENT_S)
    async with (
        redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as opened,
        InTurn(redis_url, namespace=namespace, settings=patient) as app,
    ):
        client: Any = opened

        async def channels() -> list[Any]:
            found = await client.execute_command("PUBSUB", "SHARDCHANNELS", "*watch:*")
            return [channel for channel in found if namespace.encode() in channel]

        async def is_gone() -> bool:
            return not await channels()

        async with app.watch("k"):
            async with app.watch("k"), app.watch("k2"):
                assert len(await channels()) == 2
            await until(lambda: _has(channels, 1))
        await until(is_gone)


async def _has(channels: Callable[[], Awaitable[list[Any]]], number: int) -> bool:
    return len(await channels()) == number


async def test_closing_a_watch_ends_the_waiting_for_its_next_event(app: InTurn) -> None:
    watch = app.watch("k")
    await watch.open()
    reading = asyncio.create_task(events_until(watch))
    await asyncio.sleep(0)
    await watch.aclose()
    with pytest.raises(AssertionError, match="the watch ended"):
        await asyncio.wait_for(reading, 20)


async def test_closing_the_app_ends_its_watches(store_url: str, namespace: str) -> None:
    app = InTurn(store_url, namespace=namespace, settings=Settings(store_timeout=PATIENT_S))
    watch = app.watch("k")
    await watch.open()
    reading = asyncio.create_task(events_until(watch))
    await asyncio.sleep(0)
    await app.close()
    with pytest.raises((AssertionError, StoreUnavailable)):
        await reading


async def test_a_watch_begins_without_a_block_too(app: InTurn, other: InTurn, make_app: MakeApp) -> None:
    gate = Gate()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        turn.stream(0)
        await gate.pass_through()

    watch = other.watch("k")
    # from a third process: a watcher in the process of the turn hears a chunk before it is out for the others
    async with make_app().watch("k") as earlier, working(app):
        receipt = await submit(app, "a")
        await events_until(earlier, "chunk")  # it is out, and nobody can hear it any more
        reading = asyncio.create_task(events_until(watch))

        async def is_heard() -> bool:
            return watch._stop is not None

        await until(is_heard)
        gate.opened.set()
        await receipt.result(20)
        assert told(await reading) == ["begin", "commit"]
    await watch.aclose()


async def test_nobody_has_to_watch(app: InTurn) -> None:
    add_talker(app, 100)
    async with working(app):
        assert await (await submit(app, "a")).result(20) == "answer"
    await until_status(app, "k", "idle")


async def test_a_watch_goes_on_after_the_store_was_restarted_and_says_that_it_missed_some(
    fresh_redis: PrivateRedis, namespace: str
) -> None:
    async with InTurn(fresh_redis.url, namespace=namespace, settings=Settings(store_timeout=5)) as app:
        add_talker(app, 1)
        async with app.watch("k") as watch, working(app):
            await (await submit(app, "a")).result(20)
            assert told(await events_until(watch)) == ["begin", {"text": "a1"}, "commit"]
            await asyncio.to_thread(fresh_redis.kill)
            await asyncio.to_thread(fresh_redis.start)
            assert told(await events_until(watch, "missed"))[-1] == "missed"
            await (await submit(app, "b")).result(20)
            assert told(await events_until(watch))[-3:] == ["begin", {"text": "b1"}, "commit"]


async def test_a_watch_that_is_left_without_a_word_is_unsubscribed_when_it_is_collected(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed, stopped = [], []
    subscribe = other.process.store.subscribe

    async def counting(key: str, listener: Any) -> Any:
        stop = await subscribe(key, listener)
        subscribed.append(key)

        async def stopping() -> None:
            await stop()
            stopped.append(key)

        return stopping

    monkeypatch.setattr(other.process.store, "subscribe", counting)

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    async def watch_one() -> None:
        async for event in other.watch("k"):
            if event.what == "commit":
                break

    async with working(app):
        for number in range(1, 6):
            watching = asyncio.create_task(watch_one())

            async def listens(count: int = number) -> bool:
                return len(subscribed) == count

            await until(listens)
            await submit(app, str(number))
            await watching
        del watching
        gc.collect()
        await until(lambda: len(stopped) == 5)
    assert not [found for found in gc.get_objects() if isinstance(found, Watch) and found._process is other.process]
