"""Signals, and starts that fail: running jobs have time to finish, the rest is given back, and the exit code tells."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import aio_pika
import pytest

from inturn.jobs.transport import RABBITMQ_QUEUE_NAME
from tests.acceptance.jobs_books import Books, Reply
from tests.acceptance.jobs_command import Command, environment
from tests.servers.server import free_port, keep_port
from tests.waiting import until

Run = Callable[..., Command]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    started: list[Command] = []

    def start(*words: str, **environ: str) -> Command:
        started.append(Command(tmp_path, *words, **environ))
        return started[-1]

    yield start
    for command in started:
        command.end()


async def test_running_jobs_finish_within_the_grace_and_the_rest_is_done_by_another(books: Books, run: Run) -> None:
    await stops_in_good_order(books, run, signal.SIGTERM, "jobs", "worker", "--concurrency", "4")


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGUSR2])
async def test_every_signal_asks_for_a_stop_in_good_order(rabbit_books: Books, run: Run, which: signal.Signals) -> None:
    await stops_in_good_order(rabbit_books, run, which, "jobs", "worker", "--concurrency", "4")


async def test_a_server_stops_its_jobs_in_the_same_order(rabbit_books: Books, run: Run) -> None:
    await stops_in_good_order(rabbit_books, run, signal.SIGTERM, "serve", "--port", "0", INTURN_JOB_CONCURRENCY="4")


async def stops_in_good_order(books: Books, run: Run, which: signal.Signals, *words: str, **environ: str) -> None:
    go = asyncio.Event()
    books.desk.plan = lambda number, nth: Reply(holds=go)
    first = run(*words, **environment(books, "the-first-worker"), **environ)
    await first.writes("Starting capability worker")
    jobs = await books.post(12)
    await until(lambda: books.desk.busy["the-first-worker"] == 4, 60, "four jobs run")
    first.process.send_signal(which)
    await first.writes("Shutting down worker gracefully")
    assert first.process.poll() is None
    assert books.desk.busy["the-first-worker"] == 4, "they go on"
    go.set()
    assert await first.ends() == 0, first.log
    assert "Worker shutdown complete" in first.log
    assert "Traceback" not in first.log
    assert sum(books.desk.asked(job) for job in jobs) == 4, "no new one began"
    await books.hire()
    await books.close_books()
    assert [books.desk.asked(job) for job in jobs] == [1] * 12


async def test_a_second_signal_ends_the_grace(books: Books, run: Run) -> None:
    never = asyncio.Event()
    books.desk.plan = lambda number, nth: Reply(holds=never if nth == 1 else None)
    first = run("jobs", "worker", "--grace", "3600", **environment(books, "the-first-worker"))
    await first.writes("Starting capability worker")
    (job,) = await books.post()
    await books.desk.until_asked(job)
    first.process.send_signal(signal.SIGINT)
    await first.writes("Shutting down worker gracefully")
    assert first.process.poll() is None
    first.process.send_signal(signal.SIGINT)
    assert await first.ends() == 1, first.log
    assert "Traceback" not in first.log
    await books.hire()
    await books.close_books()
    assert [(ask.paid, ask.left) for ask in books.desk.asks[job]] == [(False, True), (True, False)]


@pytest.mark.parametrize("words", [("jobs", "worker"), ("serve", "--port", "0")], ids=["worker", "server"])
async def test_what_does_not_finish_in_time_is_given_back_and_the_exit_code_says_so(
    books: Books, run: Run, words: tuple[str, ...]
) -> None:
    never = asyncio.Event()
    books.desk.plan = lambda number, nth: Reply(holds=never if nth == 1 else None)
    first = run(*words, "--grace", "0.5", **environment(books, "the-first-worker"))
    await first.writes("inturn serves" if words[0] == "serve" else "Starting capability worker")
    jobs = await books.post(3)
    await books.desk.until_asked(*jobs)
    first.process.send_signal(signal.SIGTERM)
    assert await first.ends() == 1, first.log
    assert "Worker shutdown complete" in first.log
    await books.hire()
    await books.close_books()
    for job in jobs:
        assert [(ask.paid, ask.left) for ask in books.desk.asks[job]] == [(False, True), (True, False)]


async def test_a_process_does_not_start_without_its_broker(rabbit_books: Books, run: Run) -> None:
    port = free_port()
    kept = keep_port(port)
    environ = environment(rabbit_books) | {"RABBITMQ_URL": f"amqp://guest:a-secret@127.0.0.1:{port}/"}
    commands = [run("jobs", "worker", **environ), run("serve", "--port", "0", **environ)]
    commands.append(run("serve", "--port", "0", **environ, INTURN_JOB_CONCURRENCY="0"))
    for command in commands:
        assert await command.ends() == 1, command.log
        assert "inturn: RabbitMQ at amqp://guest:***@127.0.0.1" in command.log, command.log
        assert "a-secret" not in command.log
        assert "Traceback" not in command.log
        assert "inturn serves" not in command.log
    for command in commands[:2]:
        assert "Worker failed to start, AI service startup aborted" in command.log
    if kept is not None:
        kept.close()


async def test_a_process_does_not_start_with_a_queue_that_does_not_fit(rabbit_books: Books, run: Run) -> None:
    books = rabbit_books
    assert books.broker is not None
    books.broker.add_vhost(f"{books.vhost}-old")
    try:
        url = books.broker.url_of(f"{books.vhost}-old")
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            await channel.declare_queue(RABBITMQ_QUEUE_NAME, durable=True)
        environ = environment(books) | {"RABBITMQ_URL": url}
        for command in (run("jobs", "worker", **environ), run("serve", "--port", "0", **environ)):
            assert await command.ends() == 1, command.log
            assert "Worker failed to start, AI service startup aborted" in command.log
            assert f"inturn: the queue '{RABBITMQ_QUEUE_NAME}' exists on RabbitMQ with other arguments" in command.log
            assert f"rabbitmqctl delete_queue {RABBITMQ_QUEUE_NAME}" in command.log, "it says what to do"
            assert "Traceback" not in command.log
    finally:
        books.broker.delete_vhost(f"{books.vhost}-old")
