"""The figures of reservations: both sides move the same sums, and a slow ledger misses the bar."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from benchmarks.plan import Plan
from benchmarks.tasks import reserve as benchmark
from benchmarks.tasks.reserve import ESTIMATE, LEDGER, SIDES, Reserve, bare, per_s, reservations, reserve
from inturn.database import Database
from inturn.errors import InTurnError
from inturn.tasks.ledger import User

pytestmark = pytest.mark.alone

ADA = User("bench", "ada")


def quiet(what: str) -> None:
    """Nobody reads the progress."""


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url)
    await database.migrate()
    yield database
    await database.close()


async def held(database: Database, now: float) -> int:
    return (await database.transaction(lambda at: LEDGER.budget(at, ADA, now))).held


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
async def test_each_side_holds_the_same_tokens_for_each_that_it_counts(side: Reserve, database: Database) -> None:
    now = time.time()
    counted = 0

    async def counting(database: Database, user: User, now: float) -> None:
        nonlocal counted
        await side(database, user, now)
        counted += 1

    await reserve(database, ADA, now)
    assert await per_s(counting, database, [ADA], now, 0.05) > 0
    assert counted > 0
    assert await held(database, now) == (1 + counted) * ESTIMATE


async def test_a_bare_loop_that_moves_nothing_gives_no_figure(database: Database) -> None:
    with pytest.raises(InTurnError, match="no figure"):
        await bare(database, ADA, time.time())


async def test_a_ledger_that_is_much_slower_than_the_bare_update_misses_the_bar(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(database: Database, user: User, now: float) -> None:
        await reserve(database, user, now)
        await asyncio.sleep(0.3)

    monkeypatch.setitem(SIDES, "inturn", slow)
    monkeypatch.setattr(benchmark, "SLICES", 1)
    figures = {figure.name: figure for figure in await reservations(postgres_url, Plan(1, 0.2, quiet))}
    assert figures["reserve_vs_bare"].is_reached is False
