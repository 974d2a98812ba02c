"""Providers that are slow, limit their callers, or never answer well; and workers that share what there is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from inturn.jobs.dead import DeadJobs
from inturn.jobs.processor import MAX_RETRIES
from tests.acceptance.conftest import Carrier
from tests.acceptance.jobs_books import Books, Desk, Reply
from tests.acceptance.processes import Processes, hears
from tests.jobs.world import world
from tests.servers import PrivateRedis
from tests.waiting import until, until_status

LEASE_S = 3.0
"""Of a worker that has no other beside it."""
SHARED_LEASE_S = 10.0
"""Where another one would take the job of a worker that gets the processor late."""


async def test_a_storm_of_429_ends_in_successes_and_what_never_succeeds_in_dead_letters(books: Books) -> None:
    """Thirty jobs are asked to come back twice; three more always fail, and one is refused."""

    def plan(number: int, nth: int) -> Reply:
        if number > 33:
            return Reply(400)
        if number > 30:
            return Reply(500)
        return Reply(429, retry_after="1") if nth <= 2 else Reply()

    books.desk.plan = plan
    await books.hire(2, concurrency=10)
    jobs = await books.post(34)
    await books.close_books(90)
    assert {books.desk.asked(job) for job in jobs[:30]} == {3}
    assert {books.desk.asked(job) for job in jobs[30:33]} == {1 + MAX_RETRIES}
    assert books.desk.asked(34) == 1, "a refusal is not worth another attempt"
    dead = {each.id: each for each in await DeadJobs(books.world.app).list()}
    assert set(dead) == {books.accepted[job] for job in jobs[30:]}
    for job in jobs[30:]:
        (told,) = books.world.receiver.of(books.accepted[job])
        assert told.content["error"]["type"] == ("agent_rejected" if job == 34 else "agent_unavailable")
        (shown,) = await DeadJobs(books.world.app).show(books.accepted[job])
        assert (shown.attempts, len(shown.errors)) == ((1, 1) if job == 34 else (4, 4))
        assert "execute_capability" in shown.errors[-1]["traceback"]


async def test_a_call_that_outlives_the_lease_and_its_channel_is_paid_once(rabbit_books: Books) -> None:
    books, go = rabbit_books, asyncio.Event()
    books.desk.plan = lambda number, nth: Reply(holds=go)
    assert books.broker is not None
    first, second = await books.hire(2, concurrency=2, lease=SHARED_LEASE_S)
    jobs = await books.post(4)
    await books.desk.until_asked(*jobs)
    before = await _consumers_gone(books)
    # both have lost their channels, and were given all jobs again: the lanes are taken, nobody asks twice
    await until(lambda: _has_new_consumers(books, before), 60, "they consume again")
    began = asyncio.get_running_loop().time()
    await until(lambda: asyncio.get_running_loop().time() > began + SHARED_LEASE_S + 1.0, 60)
    go.set()
    await books.close_books()
    assert [books.desk.asked(job) for job in jobs] == [1] * 4
    assert Counter(ask.worker for job in jobs for ask in books.desk.asks[job]) == dict.fromkeys(books.workers, 2), (
        "prefetch is concurrency: two workers share fairly"
    )
    for child in (first, second):
        assert child.process.poll() is None


async def _consumers_gone(books: Books) -> set[str]:
    """Closes the connections of the workers, once the broker knows them all: three of each, and one of the server."""
    assert books.broker is not None
    names = set[str]()

    async def are_known() -> bool:
        assert books.broker is not None
        names.update(await asyncio.to_thread(books.broker.connections, books.vhost))
        return len(names) >= 7

    await until(are_known, 60, "the broker knows all connections")
    await asyncio.to_thread(books.broker.close_all_connections, books.vhost)
    return names


async def _has_new_consumers(books: Books, before: set[str]) -> bool:
    assert books.broker is not None
    queues = await asyncio.to_thread(books.broker.queues, books.vhost)
    names = set(await asyncio.to_thread(books.broker.connections, books.vhost))
    return queues["ai-capability-jobs"]["consumers"] == 2 and len(names - before) >= 4


async def test_concurrency_one_means_one_at_a_time_and_two_workers_share(books: Books) -> None:
    """They are answered two by two: each of them has a job before either gets another one."""
    pairs = [asyncio.Event() for _ in range(6)]
    asked = 0

    def plan(number: int, nth: int) -> Reply:
        nonlocal asked
        asked += 1
        pair = pairs[(asked - 1) // 2]
        if asked % 2 == 0:
            pair.set()
        return Reply(holds=pair)

    books.desk.plan = plan
    await books.hire(2, concurrency=1)
    await books.post(12)
    await books.close_books()
    assert set(books.desk.busiest.values()) == {1}
    shares = Counter(ask.worker for asks in books.desk.asks.values() for ask in asks)
    assert shares == dict.fromkeys(books.workers, 6)


@pytest.fixture(params=["broker", "store alone"])
async def durable_books(
    request: pytest.FixtureRequest, durable_redis: PrivateRedis, rabbitmq: Carrier, namespace: str, processes: Processes
) -> AsyncIterator[Books]:
    has_broker = request.param == "broker"
    url = rabbitmq.rabbitmq_url if has_broker else None
    async with world(durable_redis.url, namespace, rabbitmq_url=url, works=False) as made:
        made.provider.script = desk = Desk()
        yield Books(made, desk, processes, rabbitmq.broker if has_broker else None, rabbitmq.vhost)
        processes.end()


async def test_a_store_that_is_away_for_longer_than_the_lease_costs_no_second_call(
    durable_books: Books, durable_redis: PrivateRedis
) -> None:
    """It stands still while two providers are asked, one of which answers meanwhile; then it is killed, and is back."""
    books, go = durable_books, asyncio.Event()
    books.desk.plan = lambda number, nth: Reply(holds=go if number == 1 else None, after_s=1.0)
    (worker,) = await books.hire(lease=LEASE_S)
    jobs = await books.post(2)
    await books.desk.until_asked(*jobs)
    durable_redis.pause()
    began = asyncio.get_running_loop().time()
    await until(lambda: books.desk.asks[2][0].paid, 30)
    await until(lambda: asyncio.get_running_loop().time() > began + LEASE_S + 1.5, 30)
    durable_redis.resume()
    await until(lambda: books.world.receiver.of(books.accepted[2]), 60, "the answer was kept")
    # and that is noted: it would be told once more otherwise
    await until_status(books.world.app, f"job:{books.accepted[2]}>webhook", "idle", within_s=60)
    await asyncio.to_thread(durable_redis.kill)
    go.set()
    await until(lambda: books.desk.asks[1][0].paid, 30)
    await asyncio.to_thread(durable_redis.start)
    await books.close_books()
    assert [books.desk.asked(job) for job in jobs] == [1, 1]
    assert worker.process.poll() is None
    await hears(worker, "starting")
