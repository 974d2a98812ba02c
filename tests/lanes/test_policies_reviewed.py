"""Promises of turns, workers and watches that reviews of the policies found broken."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from inturn import CommitUnknown, InTurn, Turn
from inturn.lanes.watch import Watch
from inturn.services import PrivateRedis
from inturn.settings import Settings
from tests.lanes.conftest import Gate, MakeApp, until, working
from tests.lanes.test_interrupting import submit
from tests.lanes.test_streaming import events_until, told

PARTITIONS = 4
BACKLOG = 60
"""Lanes in each partition that wait for the handler which came first."""


async def test_a_commit_by_the_handler_while_the_store_is_away_costs_no_attempt(
    fresh_redis: PrivateRedis, namespace: str
) -> None:
    """It has one attempt only. Whether it was committed is not known, and that is no failure of the handler."""
    attempts: list[int] = []
    is_back = asyncio.Event()
    async with InTurn(fresh_redis.url, namespace=namespace, settings=Settings(store_timeout=2)) as app:

        @app.handler("h", key="k", attempts=1, ttl=30)
        async def h(turn: Turn[Any]) -> None:
            attempts.append(turn.attempt)
            if not is_back.is_set():
                fresh_redis.pause()
            try:
                await turn.commit("fine")
            except CommitUnknown:
                fresh_redis.resume()  # so that a failure could be told
                is_back.set()
                raise

        async with working(app):
            receipt = await app.submit("h", {})
            await is_back.wait()
            assert await receipt.result(20) == "fine"
    assert set(attempts) == {1}


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

    async def are_stopped() -> bool:
        gc.collect()
        return len(stopped) == 5

    async with working(app):
        for number in range(1, 6):
            watching = asyncio.create_task(watch_one())

            async def listens(count: int = number) -> bool:
                return len(subscribed) == count

            await until(listens)
            await submit(app, str(number))
            await watching
        del watching
        await until(are_stopped)
    assert not [found for found in gc.get_objects() if isinstance(found, Watch) and found._process is other.process]


async def test_what_an_interrupted_body_streams_before_the_next_turn_begins_is_dropped(
    app: InTurn, other: InTurn
) -> None:
    """No newer turn has begun yet: that the old one has ended is enough."""
    first = Gate()
    listening = asyncio.Event()

    @app.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> None:
        if len(turn.messages) > 1:
            turn.stream("new")
            return
        turn.stream("old")
        try:
            await first.pass_through()
        except asyncio.CancelledError:
            await listening.wait()
            for _ in range(3):
                turn.stream("zombie")
            raise

    async with other.watch("k") as watch, working(app):
        await submit(app, "a")
        await first.reached.wait()
        receipt = await submit(app, "b")
        seen = await events_until(watch, "interrupt")
        listening.set()
        await receipt.result(5)
        seen += await events_until(watch, "commit")
    assert told(seen) == ["begin", "old", "interrupt", "begin", "new", "commit"]


def keys_by_partition(app: InTurn, name: str, count: int) -> list[list[str]]:
    """So many keys in each partition."""
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    number = 0
    while any(len(keys) < count for keys in found):
        key = f"{name}{number}"
        keys = found[app.process.store.partition_of(key)]
        if len(keys) < count:
            keys.append(key)
        number += 1
    return found


async def test_no_handler_starves_in_any_partition(redis_url: str, namespace: str) -> None:
    ran: list[str] = []
    async with InTurn(redis_url, namespace=namespace, settings=Settings(partitions=PARTITIONS)) as app:

        @app.handler("first", key="{k}")
        async def first(turn: Turn[Any]) -> None:
            ran.append(turn.key)

        @app.handler("second", key="{k}")
        async def second(turn: Turn[Any]) -> None:
            ran.append(turn.key)

        many, few = keys_by_partition(app, "first", BACKLOG), keys_by_partition(app, "second", 1)
        await asyncio.gather(*(app.submit("first", {"k": key}) for keys in many for key in keys))
        receipts = [await app.submit("second", {"k": keys[0]}) for keys in few]

        async def all_ran() -> bool:
            return len(ran) == PARTITIONS * (BACKLOG + 1)

        async with working(app, concurrency=1):
            for receipt in receipts:
                await receipt.result(10)
            await until(all_ran, within_s=10)
    ahead = [ran.index(keys[0]) for keys in few]
    assert max(ahead) < BACKLOG, f"so many turns came first: {ahead}"
    assert len(set(ran)) == len(ran)


async def test_turns_that_are_claimed_in_several_partitions_have_tokens_of_their_own(make_app: MakeApp) -> None:
    app = make_app(partitions=PARTITIONS)
    tokens: list[str] = []

    @app.handler("h", key="{k}")
    async def h(turn: Turn[Any]) -> None:
        tokens.append(turn.lease.token)
        await asyncio.sleep(0)

    async with app:
        receipts = await asyncio.gather(*(app.submit("h", {"k": f"k{n}"}) for n in range(200)))
        async with working(app, concurrency=20):
            for receipt in receipts:
                await receipt.result(10)
    assert len(tokens) == len(set(tokens)) == 200
