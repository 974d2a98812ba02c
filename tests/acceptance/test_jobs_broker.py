"""A broker that is killed, stands still, or is full: what it has confirmed is done, and what was refused never runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from inturn.jobs.rabbitmq.queues import all_queues
from tests.acceptance.conftest import Carrier
from tests.acceptance.jobs_books import Books, Desk, Reply
from tests.acceptance.processes import Processes
from tests.jobs.world import PATIENT_S, world
from tests.servers import PrivateRabbitMQ
from tests.waiting import until


@pytest.fixture(params=[PATIENT_S])
async def fresh_books(
    request: pytest.FixtureRequest,
    fresh_rabbitmq: PrivateRabbitMQ,
    redis_url: str,
    namespace: str,
    processes: Processes,
) -> AsyncIterator[Books]:
    """The parameter is how long a broker may take to answer."""
    async with world(
        redis_url, namespace, rabbitmq_url=fresh_rabbitmq.url, works=False, rabbitmq_timeout=request.param
    ) as made:
        made.provider.script = desk = Desk()
        yield Books(made, desk, processes, fresh_rabbitmq.broker, "/")
        processes.end()


async def test_a_broker_that_is_killed_loses_no_job_and_a_call_under_way_is_paid_once(
    fresh_books: Books, fresh_rabbitmq: PrivateRabbitMQ
) -> None:
    books, go = fresh_books, asyncio.Event()
    books.desk.plan = lambda number, nth: Reply(503, retry_after="3") if (number, nth) == (1, 1) else Reply(holds=go)
    await books.hire(2, concurrency=2)
    queues = all_queues("quorum", 1)
    await until(
        lambda: all(fresh_rabbitmq.keeps(name) for name in queues), 60, "the broker has written its queues down"
    )
    (on_a_rung,) = await books.post()
    await books.world.until_status(books.accepted[on_a_rung], "attempt")
    jobs = await books.post(8)
    await until(lambda: sum(books.desk.busy.values()) == 4, 60, "four are asked for, and four wait")
    await asyncio.to_thread(fresh_rabbitmq.kill)
    refused = await books.post(3)
    assert sorted(books.refused) == refused, "the broker is away"
    asked = [job for job in jobs if books.desk.asked(job)]
    go.set()
    await until(lambda: all(books.world.receiver.of(books.accepted[job]) for job in asked), 60, "no broker is needed")
    await asyncio.to_thread(fresh_rabbitmq.start)
    await until(lambda: _is_accepting(books), 60, "the server has a broker again")
    await books.close_books(90)
    assert [books.desk.asked(job) for job in jobs] == [1] * 8
    assert books.desk.asked(on_a_rung) == 2


async def _is_accepting(books: Books) -> bool:
    (job,) = await books.post()
    return job in books.accepted


@pytest.mark.parametrize("fresh_books", [5.0], indirect=True)
async def test_what_a_broker_does_not_confirm_is_refused_and_never_runs_when_it_goes_on(
    fresh_books: Books, fresh_rabbitmq: PrivateRabbitMQ
) -> None:
    books, go = fresh_books, asyncio.Event()
    books.desk.plan = lambda number, nth: Reply(holds=go)
    await books.hire(concurrency=2)
    await until(lambda: _is_accepting(books), 60, "the broker answers in time")
    (running,) = books.accepted
    await books.desk.until_asked(running)
    before = len(books.refused)
    fresh_rabbitmq.pause()
    refused = await books.post(3)
    assert sorted(books.refused[before:]) == refused, "none was confirmed in time"
    go.set()
    await until(lambda: books.world.receiver.of(books.accepted[running]), 60, "its outcome needs no broker")
    fresh_rabbitmq.resume()
    await until(lambda: _is_accepting(books), 60, "the server has a broker again")
    await books.close_books(90)
    # the queue is in order: whatever the broker had of them came before what it has accepted since
    assert not any(books.desk.asked(job) for job in refused)
    assert books.desk.asked(running) == 1


async def test_a_full_queue_refuses_and_what_it_has_is_done(
    carrier: Carrier, namespace: str, processes: Processes
) -> None:
    limit = 3
    async with world(
        carrier.url, namespace, rabbitmq_url=carrier.rabbitmq_url, works=False, job_queue_limit=limit
    ) as made:
        made.provider.script = desk = Desk()
        books = Books(made, desk, processes, carrier.broker, carrier.vhost)
        for _ in range(10):
            await books.post()
        assert len(books.refused) >= 4
        assert len(books.accepted) >= limit
        await books.hire()
        await books.close_books()
        await until(lambda: _is_accepting(books), 30, "there is room again")
        await books.close_books()
        processes.end()
