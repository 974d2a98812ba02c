"""PostgreSQL and RabbitMQ that go away in the middle of it all: the whole split shape, with servers of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from inturn.jobs.rabbitmq.queues import all_queues
from tests.acceptance.tasks_shapes import Desk, Shape, desk_of, in_thread, whole_split
from tests.http.site import problem
from tests.servers import PrivatePostgres
from tests.split import Split
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)  # the first one starts servers and processes, on a busy machine


@pytest.fixture(scope="module")
def shape() -> Iterator[Shape]:
    with whole_split() as made:
        yield made


@pytest.fixture
def split(shape: Shape) -> Iterator[Split]:
    assert shape.split is not None
    yield shape.split
    shape.split.postgres.start()
    shape.split.rabbitmq.start()


@pytest.fixture
async def desk(shape: Shape) -> AsyncIterator[Desk]:
    async with desk_of(shape) as made:
        yield made


def kill_and_start(postgres: PrivatePostgres) -> None:
    postgres.kill()
    postgres.start()


def restart(postgres: PrivatePostgres) -> None:
    postgres.restart()


@pytest.mark.parametrize("how", [kill_and_start, restart])
async def test_settlements_that_postgresql_breaks_off_in_the_middle_are_done_once(
    split: Split, desk: Desk, how: Any
) -> None:
    users = [desk.user() for _ in range(3)]
    tickets = {user: [desk.ticket(is_held=True) for _ in range(2)] for user in users}
    for user in users:
        for ticket in tickets[user]:
            await desk.accepted(ticket, user)
    await desk.until_asked(*(ticket for made in tickets.values() for ticket in made))
    # somebody has the windows, so each settlement stands still when it has made its task and is about to charge
    blocking = await asyncpg.connect(desk.shape.database_url)
    standing = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%budget_windows%'"
    await blocking.execute("BEGIN; LOCK TABLE budget_windows")
    try:
        desk.let_go()

        async def all_stand() -> bool:
            return len(await desk.rows(standing)) >= 6

        await until(all_stand, 60, "six settlements are in the middle")
        assert await desk.rows("SELECT id FROM task_requests WHERE state = 'queued'")
        await in_thread(how, split.postgres)
    finally:
        blocking.terminate()
    await desk.close_books()
    for user in users:
        budget = await desk.budget(user)
        assert (budget["spent"], budget["held"]) == (2 * 120, 0)


async def test_an_outcome_and_a_request_that_come_while_postgresql_is_away_are_done_when_it_is_back(
    split: Split, desk: Desk
) -> None:
    user = desk.user()
    ticket, key = desk.ticket(is_held=True), "a-key-for-later"
    await desk.accepted(ticket, user)
    await desk.until_asked(ticket)
    await in_thread(split.postgres.kill)
    line = "Handle webhook callback - starting"
    before = split.tasks.log.count(line)
    desk.let_go()
    later = desk.ticket()
    asking = asyncio.create_task(desk.post(later, user, key))
    await until(lambda: split.tasks.log.count(line) > before, 60, "its outcome has come")
    await in_thread(split.postgres.start)
    assert (await asking).status_code in (202, 503), "it waits for the database for a while"
    await desk.repeated(later, user, key)
    await desk.close_books()
    assert (await desk.budget(user))["spent"] == 2 * 120


async def test_while_the_broker_is_away_requests_are_refused_and_what_it_has_is_done_when_it_is_back(
    split: Split, desk: Desk
) -> None:
    user = desk.user()
    queues = all_queues("quorum", 1)
    await until(
        lambda: all(split.rabbitmq.keeps(name) for name in queues), 60, "the broker has written its queues down"
    )
    held = [desk.ticket(is_held=True) for _ in range(12)]  # ten of them are asked for, and two wait in the broker
    for ticket in held:
        await desk.accepted(ticket, user)
    await until(lambda: sum(desk.shape.provider.asked[ticket] for ticket in held) == 10, 60, "the worker is full")
    await in_thread(split.rabbitmq.kill)
    refused = desk.ticket()
    problem(await desk.post(refused, user, "a-key-of-a-refusal"), 503, "ai-unavailable")
    (window,) = await desk.rows(f"SELECT held FROM budget_windows WHERE user_id = '{user}'")
    estimates = await desk.rows(f"SELECT estimate FROM budget_holds WHERE user_id = '{user}' AND state = 'active'")
    assert window["held"] == sum(row["estimate"] for row in estimates)
    assert len(estimates) == 12, "nothing is held for what was refused"
    await in_thread(split.rabbitmq.start)
    desk.let_go()

    async def is_accepting() -> bool:
        return (await desk.post(refused, user, "a-key-of-a-refusal")).status_code == 202

    await until(is_accepting, 60, "the AI has a broker again", pause_s=0.2)
    await desk.close_books()
    assert (await desk.budget(user))["spent"] == 13 * 120
    assert [desk.shape.provider.asked[ticket] for ticket in held] == [1] * 12
