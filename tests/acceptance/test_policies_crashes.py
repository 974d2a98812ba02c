"""Bursts, plain keys, delays and streams when workers are killed and stores restart: real processes."""

from __future__ import annotations

import asyncio
import signal

import pytest
import redis.asyncio

from inturn import Event, HandlerFailed, InTurn, Superseded, Watch
from inturn.settings import Settings
from inturn.store import clock
from tests.acceptance.looks import stop, until_idle
from tests.acceptance.policies_worker import LONG_TTL, PLAIN, TTL, body, register, worker
from tests.acceptance.processes import SLACK, Processes, hears
from tests.servers import PrivateRedis


@pytest.fixture
def app(app: InTurn) -> InTurn:
    register(app)
    return app


async def test_of_a_burst_that_kills_its_worker_only_the_one_that_kills_becomes_a_dead_letter(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    receipts = {name: await app.submit("burst", body(name, kills=name == "b")) for name in "abc"}
    first = await worker(processes, app, namespace)
    assert (await hears(first, "begun", "a+b+c"))["attempt"] == 1
    assert await asyncio.to_thread(first.process.wait, 30) == 9
    second = await worker(processes, app, namespace)
    for name in "ab":
        assert (await hears(second, "begun", name, within=TTL + 20))["attempt"] == 2, "message by message"
    assert await asyncio.to_thread(second.process.wait, 30) == 9
    await worker(processes, app, namespace)
    with pytest.raises(HandlerFailed) as failed:
        await receipts["b"].result(TTL + 20)
    assert [error["type"] for error in failed.value.errors][-1] == "Exhausted"
    assert (await receipts["a"].result(20), await receipts["c"].result(20)) == ("a", "c")
    assert [letter.id for letter in await app.dead_letters.list()] == ["b"]
    assert (await until_idle(app, "k")).state == ["a", "c"]


async def test_a_delayed_message_outlives_every_process(processes: Processes, store_url: str, namespace: str) -> None:
    async with InTurn(store_url, namespace=namespace) as first:
        register(first)
        child = await worker(processes, first, namespace)
        replaced = await first.submit("later", body("a"), delay=60)
        submitted_at = clock.now()
        await asyncio.to_thread(stop, child, store_url, namespace)  # it must not live to see the next one due
        await first.submit("later", body("b"), delay=3)
        child.kill()
        with pytest.raises(Superseded):
            await replaced.result(20)
        cancelled = await first.submit("later", {"key": "k2", "id": "x"}, delay=2)
        assert await cancelled.cancel()
    async with InTurn(store_url, namespace=namespace) as second:
        register(second)
        other = await worker(processes, second, namespace)
        begun = await hears(other, "begun", "b")
        assert begun["at"] - submitted_at > 2.95
        assert (await until_idle(second, "k")).state == ["b"]
        assert (await second.submit("later", body("a"))).status == "superseded"
        assert (await second.submit("later", {"key": "k2", "id": "x"})).status == "cancelled"


async def test_a_delayed_message_outlives_a_redis_that_keeps_its_data(namespace: str) -> None:
    with PrivateRedis(appendonly=True) as server:
        async with InTurn(server.url, namespace=namespace, settings=Settings(store_timeout=15)) as app:
            seen: list[str] = []

            @app.handler("h", key="k")
            async def h(turn: object) -> str:
                seen.append("ran")
                return "ran"

            receipt = await app.submit("h", 1, delay=1.0)
            gone = await app.submit("h", 2, message_id="gone", delay=0.1)
            assert await gone.cancel()
            await asyncio.to_thread(server.restart, keep_data=True)
            running = asyncio.create_task(app.run())
            assert await receipt.result(30) == "ran"
            assert (await app.submit("h", 2, message_id="gone")).status == "cancelled"
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert seen == ["ran"]


async def test_the_plain_key_of_a_killed_worker_ends_with_its_life_and_the_turn_is_taken_over(
    processes: Processes, redis_url: str, namespace: str
) -> None:
    key = PLAIN.format(key=namespace)
    async with InTurn(redis_url, namespace=namespace) as app, redis.asyncio.Redis.from_url(redis_url) as client:
        register(app)
        doomed = await worker(processes, app, namespace)
        receipt = await app.submit("shared", {"key": namespace, "id": "a", "wait": True})
        await hears(doomed, "begun", "a")
        assert await client.get(key) is not None
        killed_at = clock.now()
        doomed.kill()
        while await client.set(key, "theirs", nx=True, px=600) is None:
            assert clock.now() - killed_at < TTL + 1 + SLACK, "the key is stuck"
            await asyncio.sleep(0.01)
        other = await worker(processes, app, namespace)
        begun = await hears(other, "begun", "a", within=TTL + 3 + SLACK)
        assert begun["attempt"] == 2
        assert await receipt.result(20) == 2
        assert await client.get(key) is None


async def read(watch: Watch, count: int, within: float = 20.0) -> list[Event]:
    async with asyncio.timeout(within):
        return [await anext(watch) for _ in range(count)]


async def test_watchers_of_another_process_drop_what_a_zombie_streams(
    processes: Processes, app: InTurn, store_url: str, namespace: str
) -> None:
    zombie = await worker(processes, app, namespace)
    async with app.watch("k") as watch:
        await app.submit("talk", body("a", wait=True, swallows="waits"))
        await hears(zombie, "begun", "a")
        begin, chunk = await read(watch, 2)
        assert (begin.what, begin.id, chunk.data, chunk.number) == ("begin", "a", "a begins", 1)
        other = await worker(processes, app, namespace)
        await asyncio.to_thread(stop, zombie, store_url, namespace)
        for number in range(5):
            zombie.tell("stream", name="a", chunk=f"zombie {number}")
        second = await app.submit("talk", body("b", wait=True))
        await hears(other, "begun", "a+b")
        assert LONG_TTL > 10, "the interrupt took the lane away, and not its time"
        zombie.signal(signal.SIGCONT)
        for _ in range(5):
            await hears(zombie, "streamed", "a")
        other.tell("stream", name="a+b", chunk="after the zombie")
        await hears(other, "streamed", "a+b")
        other.tell("go", name="a+b")
        await second.result(20)
        interrupt, again, *chunks, commit = await read(watch, 5)
    assert (interrupt.what, interrupt.id, interrupt.fence) == ("interrupt", "b", begin.fence)
    assert (again.what, commit.what) == ("begin", "commit")
    assert again.fence > begin.fence
    assert [(chunk.number, chunk.data) for chunk in chunks] == [(1, "a+b begins"), (2, "after the zombie")]
