"""Fifty users who spend at once at the limit, and the edge of two windows."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.acceptance.tasks_books import check_books, rows
from tests.acceptance.tasks_shapes import WINDOW_S, Desk, Shape, desk_of, shared_shape
from tests.http.site import problem
from tests.jobs.world import succeeds
from tests.tasks.world import ADA, world

pytestmark = pytest.mark.timeout(600)  # the first one starts servers and processes, on a busy machine

DAY_S = 86_400
LIMIT = 2000
"""Tokens: one request fits in, and two do not."""


@pytest.fixture(params=["split", "embedded"])
def shape(request: pytest.FixtureRequest) -> Shape:
    return shared_shape(request, request.param)


@pytest.fixture
async def desk(shape: Shape) -> AsyncIterator[Desk]:
    async with desk_of(shape) as made:
        yield made


async def estimate_of(desk: Desk) -> int:
    """What is reserved for a ticket: all of them are of one length."""
    user = desk.user()
    await desk.set_limit(user, 0)
    response = await desk.post(desk.ticket(), user)
    assert response.status_code == 429, response.text
    needed: int = response.json()["needed"]
    return needed


def check_refusal(response: httpx.Response, limit: int, estimate: int) -> None:
    told = problem(response, 429, "budget-exhausted")
    assert 1 <= int(response.headers["retry-after"]) <= WINDOW_S
    assert int(response.headers["x-budget-limit"]) == limit
    assert int(response.headers["x-budget-remaining"]) == told["remaining"] < estimate
    reset = int(response.headers["x-budget-reset"])
    assert reset % WINDOW_S == 0
    assert 0 < reset - time.time() <= WINDOW_S


async def test_fifty_users_who_spend_at_once_at_the_limit_never_pass_it(desk: Desk) -> None:
    estimate = await estimate_of(desk)
    users, limit = [desk.user() for _ in range(50)], 2 * estimate + estimate // 2
    await asyncio.gather(*(desk.set_limit(user, limit) for user in users))

    async def spend(nth: int, user: str) -> tuple[int, list[httpx.Response]]:
        # the uses of every second user pass what was reserved for them
        tokens = estimate + 500 if nth % 2 else 120
        made = [desk.ticket(tokens=tokens, is_held=True) for _ in range(3)]
        return tokens, await asyncio.gather(*(desk.post(ticket, user) for ticket in made))

    asked = await asyncio.gather(*(spend(nth, user) for nth, user in enumerate(users)))
    for _, responses in asked:
        assert sorted(response.status_code for response in responses) == [202, 202, 429]
        for response in responses:
            if response.status_code == 429:
                check_refusal(response, limit, estimate)
    held = await desk.rows("SELECT user_id, held, spent FROM budget_windows WHERE held > 0")
    assert {row["user_id"]: (row["held"], row["spent"]) for row in held} == dict.fromkeys(users, (2 * estimate, 0))
    await desk.close_books()
    budgets = await asyncio.gather(*(desk.budget(user) for user in users))
    for (tokens, _), budget in zip(asked, budgets, strict=True):
        assert (budget["spent"], budget["held"]) == (2 * tokens, 0)
        assert budget["remaining"] == max(0, limit - 2 * tokens)
    more = await asyncio.gather(*(desk.post(desk.ticket(), user) for user in users[:10]))
    assert [response.status_code for response in more] == [202, 429] * 5, "what was not used can be spent"
    await desk.close_books()


async def test_one_user_who_asks_forty_times_at_once_gets_what_fits(desk: Desk) -> None:
    estimate, user = await estimate_of(desk), desk.user()
    await desk.set_limit(user, 7 * estimate)
    answers = await asyncio.gather(*(desk.post(desk.ticket(is_held=True), user) for _ in range(40)))
    assert sorted(answer.status_code for answer in answers) == [202] * 7 + [429] * 33
    assert (await desk.budget(user))["held"] == 7 * estimate
    await desk.close_books()
    assert (await desk.budget(user))["spent"] == 7 * 120


async def test_at_the_edge_of_two_windows_each_request_is_charged_to_the_one_that_it_was_reserved_in(
    sqlite_url: str, namespace: str, database_url: str
) -> None:
    go, edge = asyncio.Event(), math.ceil(time.time() / DAY_S) * DAY_S
    clock = [edge - 0.5]
    async with world(sqlite_url, namespace, database_url, token_limit=LIMIT, token_window=DAY_S) as here:

        async def when_told(request: Any, wire: Any) -> None:
            await go.wait()
            await succeeds(request, wire)

        here.provider.script = when_told
        here.service.now = lambda: clock[0]
        before = await here.accepted()
        estimate = (await here.budget())["held"]
        assert LIMIT / 2 < estimate <= LIMIT, "one fits into a window, and two do not"
        refused = await here.post()
        problem(refused, 429, "budget-exhausted")
        assert (refused.headers["retry-after"], refused.headers["x-budget-reset"]) == ("1", str(edge))
        clock[0] = edge - 0.001
        assert (await here.post()).status_code == 429
        clock[0] = edge
        after = await here.accepted()
        budget = await here.budget()
        assert (budget["held"], budget["spent"], budget["window_start"]) == (estimate, 0, edge)
        go.set()
        for request_id in (before, after):
            assert (await here.ended(request_id))["status"] == "done"
        found = await rows(database_url, "SELECT * FROM budget_windows ORDER BY window_start")
        assert [(row["window_start"], row["spent"], row["held"]) for row in found] == [
            (edge - DAY_S, 120, 0), (edge, 120, 0),
        ]  # fmt: skip
        await check_books(database_url, {before: 120, after: 120})
        assert (await here.client.get("/api/v1/budget", headers=ADA)).json()["remaining"] == LIMIT - 120
