"""The ledger of tokens, on each database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from inturn.database import Connection, Database
from inturn.errors import BudgetExhausted
from inturn.tasks import ledger
from inturn.tasks.ledger import Hold, Ledger, User
from inturn.tasks.tables import holds, windows

ADA, BOB = User("acme", "ada"), User("acme", "bob")
NOW = 1_700_000_000.0
BOOK = Ledger(limit=1000, window_s=3600, hold_ttl_s=60)


class Books:
    """Each step is a transaction of its own."""

    def __init__(self, database: Database, book: Ledger = BOOK) -> None:
        self._database = database
        self._book = book

    async def reserve(self, tokens: int, user: User = ADA, now: float = NOW) -> Hold:
        return await self._database.transaction(lambda at: self._book.reserve(at, user, tokens, now))

    async def reserve_again(self, hold: Hold, now: float = NOW) -> Hold:
        return await self._database.transaction(lambda at: self._book.reserve_again(at, hold.id, now))

    async def settle(self, hold: Hold, used: int) -> bool:
        return await self._database.transaction(lambda at: ledger.settle(at, hold.id, used))

    async def release(self, hold: Hold) -> bool:
        return await self._database.transaction(lambda at: ledger.release(at, hold.id))

    async def expire(self, now: float) -> int:
        return len(await self._database.transaction(lambda at: self._book.expire(at, now)))

    async def set_limit(self, tokens: int, user: User = ADA, now: float = NOW) -> None:
        await self._database.transaction(lambda at: self._book.set_limit(at, user, tokens, now))

    async def left(self, user: User = ADA, now: float = NOW) -> tuple[int, int, int]:
        """Spent, held, remaining."""
        budget = await self._database.transaction(lambda at: self._book.budget(at, user, now))
        return budget.spent, budget.held, budget.remaining


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database)


async def test_a_hold_is_settled_at_what_was_used_and_only_once(books: Books) -> None:
    hold = await books.reserve(300)
    assert await books.left() == (0, 300, 700)
    assert await books.settle(hold, 120)
    assert await books.left() == (120, 0, 880)
    assert not await books.settle(hold, 500)
    assert not await books.release(hold)
    assert await books.left() == (120, 0, 880)


async def test_what_does_not_fit_is_refused_and_says_when_to_come_back(books: Books) -> None:
    await books.reserve(600)
    with pytest.raises(BudgetExhausted) as refused:
        await books.reserve(401)
    assert (refused.value.remaining, refused.value.limit) == (400, 1000)
    assert NOW + refused.value.retry_after_s == refused.value.resets_at
    assert refused.value.resets_at % 3600 == 0
    await books.reserve(400)
    assert await books.left() == (0, 1000, 0)
    assert await books.left(BOB) == (0, 0, 1000)


async def test_a_hold_that_is_given_back_costs_nothing(books: Books) -> None:
    hold = await books.reserve(300)
    assert await books.release(hold)
    assert not await books.release(hold)
    assert await books.left() == (0, 0, 1000)


async def test_a_hold_that_nobody_settles_expires_and_is_charged_if_it_is_settled_late(books: Books) -> None:
    hold = await books.reserve(300)
    assert await books.expire(NOW + 59) == 0
    assert await books.expire(NOW + 60) == 1
    assert await books.expire(NOW + 60) == 0
    assert await books.left() == (0, 0, 1000)
    assert await books.settle(hold, 120)
    assert not await books.settle(hold, 120)
    assert await books.left() == (120, 0, 880)


async def test_a_reservation_takes_the_room_of_holds_that_have_expired(books: Books) -> None:
    await books.reserve(900)
    with pytest.raises(BudgetExhausted):
        await books.reserve(200, now=NOW + 59)
    await books.reserve(200, now=NOW + 60)
    assert await books.left(now=NOW + 60) == (0, 200, 800)


async def test_a_hold_is_charged_to_the_window_in_which_it_was_reserved(books: Books) -> None:
    edge = (NOW // 3600 + 1) * 3600
    before, after = await books.reserve(1000, now=edge - 1), await books.reserve(1000, now=edge)
    assert await books.settle(before, 700)
    assert await books.left(now=edge - 1) == (700, 0, 300)
    assert await books.left(now=edge) == (0, 1000, 0)
    assert await books.settle(after, 1)
    assert await books.left(now=edge) == (1, 0, 999)


async def test_a_user_may_have_a_limit_of_its_own_from_now_on(books: Books) -> None:
    await books.set_limit(50)
    with pytest.raises(BudgetExhausted):
        await books.reserve(51)
    await books.reserve(50)
    await books.set_limit(100)
    await books.reserve(50)
    await books.set_limit(10)
    assert await books.left() == (0, 100, 0)
    assert (await books.left(BOB))[2] == 1000


async def test_more_may_be_used_than_was_reserved_but_no_more_is_reserved_then(books: Books) -> None:
    hold = await books.reserve(1000)
    await books.settle(hold, 1500)
    assert await books.left() == (1500, 0, 0)
    with pytest.raises(BudgetExhausted):
        await books.reserve(1)


async def test_many_who_spend_at_once_never_go_over_the_limit(books: Books) -> None:
    async def spend(number: int) -> int:
        try:
            hold = await books.reserve(100, now=NOW)
        except BudgetExhausted:
            return 0
        await asyncio.gather(*(books.settle(hold, 90) for _ in range(3)), books.release(hold))
        return 1

    taken = sum(await asyncio.gather(*(spend(number) for number in range(40))))
    spent, held, _ = await books.left()
    assert held == 0
    assert taken >= 10
    assert spent <= 1000


async def test_expiring_and_settling_at_once_gives_back_once(database: Database, books: Books) -> None:
    made = [await books.reserve(10) for _ in range(20)]
    expiring = [books.expire(NOW + 100) for _ in range(4)]
    await asyncio.gather(*(books.settle(hold, 7) for hold in made), *expiring)
    assert await books.left() == (140, 0, 860)

    async def rows(at: Connection) -> list[Any]:
        return list((await at.execute(sa.select(holds.c.state))).scalars())

    assert set(await database.transaction(rows)) == {"settled"}


async def test_the_table_itself_refuses_what_is_negative(database: Database, books: Books) -> None:
    await books.reserve(10)
    with pytest.raises(sa.exc.IntegrityError):
        await database.transaction(lambda at: at.execute(sa.update(windows).values(held=-1)))


async def test_a_hold_that_was_given_back_is_reserved_again_in_the_window_that_runs(books: Books) -> None:
    hold = await books.reserve(600)
    assert await books.release(hold)
    again = await books.reserve_again(hold)
    assert again == hold
    assert await books.left() == (0, 600, 400)
    assert await books.release(hold)
    await books.reserve(500)
    with pytest.raises(BudgetExhausted):
        await books.reserve_again(hold)
    later = NOW + 3600
    moved = await books.reserve_again(hold, later)
    assert (moved.id, moved.window_start) == (hold.id, hold.window_start + 3600)
    assert (await books.left(), await books.left(now=later)) == ((0, 0, 1000), (0, 600, 400)), "the other has expired"
    assert await books.settle(hold, 700)
    assert (await books.left(), await books.left(now=later)) == ((0, 0, 1000), (700, 0, 300))


async def test_an_active_hold_that_is_reserved_again_has_all_of_its_time(books: Books) -> None:
    hold = await books.reserve(600)
    await books.reserve_again(hold, NOW + 50)
    assert await books.left() == (0, 600, 400)
    assert await books.expire(NOW + 70) == 0
    assert await books.expire(NOW + 110) == 1


async def test_what_may_exceed_the_limit_is_held_beyond_it(books: Books, database: Database) -> None:
    await books.reserve(900)
    hold = await database.transaction(lambda at: BOOK.reserve(at, ADA, 300, NOW, may_exceed=True))
    assert await books.left() == (0, 1200, 0)
    assert await books.settle(hold, 300)
    assert await books.left() == (300, 900, 0)


async def test_limits_that_are_set_at_once_and_beside_the_first_request_count(books: Books) -> None:
    for number in range(5):
        user = User("acme", f"new-{number}")
        done = await asyncio.gather(
            *(books.set_limit(500, user) for _ in range(8)), books.reserve(100, user), books.reserve(100, user)
        )
        assert len(done) == 10
        assert await books.left(user) == (0, 200, 300)
