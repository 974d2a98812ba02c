"""Tasks, AI and worker killed at the worst of moments: what was accepted ends once, and nothing stays held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.acceptance.tasks_provider import Gate
from tests.acceptance.tasks_shapes import Desk, Shape, desk_of, embedded_shape, in_thread, shared_shape, url_of
from tests.http.site import problem
from tests.split import Split
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)  # the first one starts servers and processes, on a busy machine


@pytest.fixture
def shape(request: pytest.FixtureRequest) -> Shape:
    return shared_shape(request, "split")


@pytest.fixture
def split(shape: Shape) -> Iterator[Split]:
    assert shape.split is not None
    yield shape.split
    for part in shape.split.parts:  # what a test killed or changed is as it was for the next one
        if part.is_changed:
            part.kill()
        part.start()


@pytest.fixture
async def desk(shape: Shape) -> AsyncIterator[Desk]:
    async with desk_of(shape) as made:
        yield made


async def no_answer(asking: asyncio.Task[httpx.Response]) -> bool:
    """Whether the connection broke."""
    try:
        await asking
    except httpx.HTTPError:
        return True
    return False


async def test_tasks_that_is_killed_before_or_after_the_202_of_the_ai_makes_one_task_of_each_request(
    split: Split, desk: Desk
) -> None:
    user = desk.user()
    early, late, alone = desk.ticket(), desk.ticket(), desk.ticket()
    with Gate(split.ai_url) as gate:
        gate.at_request, gate.at_answer = {early}, {late, alone}
        await in_thread(split.tasks.restart, AI_SERVICE_BASE_URL=gate.url)
        asking = [
            asyncio.create_task(desk.post(ticket, user, f"key-{ticket}"))
            for ticket in (early, late, alone)
        ]  # fmt: skip
        await until(lambda: len(gate.held) == 3, 60, "the gate holds all of them")
        assert gate.statuses == {late: 202, alone: 202}
        assert (await desk.rows(f"SELECT held > 0 AS is_held FROM budget_windows WHERE user_id = '{user}'"))[0][
            "is_held"
        ]
        await in_thread(split.tasks.kill)
        gate.lose_all()
        assert [await no_answer(each) for each in asking] == [True, True, True]
    await in_thread(split.tasks.start)
    first = await desk.repeated(early, user, f"key-{early}")
    second = await desk.repeated(late, user, f"key-{late}")
    assert first != second
    (row,) = await desk.rows(f"SELECT id FROM task_requests WHERE natural_language LIKE '%{alone}%'")
    desk.shape.accepted[row["id"]] = 120  # nobody was told so, but the AI has it
    await desk.close_books()
    done = await desk.rows(f"SELECT id, state FROM task_requests WHERE user_id = '{user}'")
    assert [row["state"] for row in done] == ["done"] * 3, "one that nobody repeats is ended by its call-back"
    assert {first, second} < {row["id"] for row in done}
    assert [desk.shape.provider.asked[ticket] for ticket in (early, late, alone)] == [1, 1, 1]
    assert (await desk.budget(user))["spent"] == 3 * 120


async def test_after_an_answer_of_the_ai_that_was_lost_a_repeat_is_the_same_request(split: Split, desk: Desk) -> None:
    user = desk.user()
    ticket = desk.ticket(is_held=True)
    with Gate(split.ai_url) as gate:
        gate.at_answer = {ticket}
        await in_thread(split.tasks.restart, AI_SERVICE_BASE_URL=gate.url)
        gate.lose_all()
        lost = await desk.post(ticket, user, "a-key-of-mine")
        problem(lost, 503, "ai-unavailable")
        assert gate.statuses == {ticket: 202}
        assert (await desk.budget(user))["held"] > 0, "the job may run, and it does"
        await in_thread(split.tasks.restart)
    await desk.repeated(ticket, user, "a-key-of-mine")
    await desk.close_books()
    assert desk.shape.provider.asked[ticket] == 1
    assert (await desk.budget(user))["spent"] == 120


async def test_while_the_ai_is_away_requests_are_refused_and_nothing_is_held(split: Split, desk: Desk) -> None:
    user = desk.user()
    await in_thread(split.ai.kill)
    tickets = [desk.ticket() for _ in range(5)]
    refused = await asyncio.gather(*(desk.post(ticket, user, f"key-{ticket}") for ticket in tickets))
    for response in refused:
        problem(response, 503, "ai-unavailable")
    budget = await desk.budget(user)
    assert (budget["held"], budget["spent"]) == (0, 0)
    await in_thread(split.ai.start)
    again = [await desk.repeated(ticket, user, f"key-{ticket}") for ticket in tickets]
    assert len(set(again)) == 5
    await desk.close_books()
    assert (await desk.budget(user))["spent"] == 5 * 120


@pytest.mark.long
async def test_a_receiver_that_is_down_for_a_minute_is_told_when_it_is_back(split: Split, desk: Desk) -> None:
    user = desk.user()
    tickets = [desk.ticket(is_held=True) for _ in range(5)]
    accepted = [await desk.accepted(ticket, user) for ticket in tickets]
    await desk.until_asked(*tickets)
    await in_thread(split.tasks.kill)
    before = split.worker.log.count("failed: ConnectError")
    desk.let_go()
    # they wait for 1, 2, 4, 8, 16 and 32 s, so the seventh try of any comes after a minute
    await until(
        lambda: split.worker.log.count("failed: ConnectError") > before + 5 * 6, 300, "a minute has passed", pause_s=0.5
    )
    await in_thread(split.tasks.start)
    await desk.close_books(within_s=300)
    assert [(await desk.request(each, user))["status"] for each in accepted] == ["done"] * 5
    assert [desk.shape.provider.asked[ticket] for ticket in tickets] == [1] * 5, "no provider is asked again"


async def test_a_worker_that_is_killed_in_a_call_of_the_provider_costs_no_request(split: Split, desk: Desk) -> None:
    user = desk.user()
    tickets = [desk.ticket(is_held=True) for _ in range(3)]
    for ticket in tickets:
        await desk.accepted(ticket, user)
    await desk.until_asked(*tickets)
    await in_thread(split.worker.kill)
    more = await desk.accepted(desk.ticket(), user)
    desk.let_go()
    await in_thread(split.worker.start)
    await desk.close_books()
    assert (await desk.request(more, user))["status"] == "done"
    assert all(desk.shape.provider.asked[ticket] == 2 for ticket in tickets)
    assert (await desk.budget(user))["spent"] == 4 * 120, "the call that was cut off is not charged"


async def test_the_embedded_process_that_is_killed_goes_on_where_it_was() -> None:
    with embedded_shape() as shape:
        assert shape.embedded is not None
        async with desk_of(shape) as desk:
            user = desk.user()
            tickets = [desk.ticket(is_held=True) for _ in range(3)]
            accepted = [await desk.accepted(ticket, user) for ticket in tickets]
            await desk.until_asked(*tickets)
            await in_thread(shape.embedded.kill)
            desk.let_go()
            await in_thread(shape.embedded.start)
        shape.url = url_of(shape.embedded)
        async with desk_of(shape) as desk:
            await desk.close_books()
            assert [(await desk.request(each, user))["status"] for each in accepted] == ["done"] * 3
            assert (await desk.budget(user))["spent"] == 3 * 120
