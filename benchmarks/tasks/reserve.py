"""Reservations of tokens, each in a transaction of its own, against the one UPDATE that no ledger can do without.

Ours reads nothing twice and writes down who holds what; the bare loop only moves the sum of a window. Both run over the
same `Database`, with as many tasks, for one user, whose row all of them want, and for many. PostgreSQL waits for the
disk at every commit, as SQLite does. The sides take turns in short slices, so that all of them see the same machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from benchmarks.figures import Figure, Rounds, median_ratio, rounded
from benchmarks.plan import Plan
from inturn.database import Connection, Database
from inturn.errors import InTurnError
from inturn.tasks.ledger import Ledger, User

AT_ONCE = 16
USERS = 64
SLICES = 2
SLICE_S = 0.25
ESTIMATE = 100
PATIENT_S = 60.0
"""A busy machine makes a figure small; it must not make it none."""
LEDGER = Ledger(limit=10**12)
BARE = sa.text(
    "UPDATE budget_windows SET held = held + :n WHERE tenant_id = :tenant_id AND user_id = :user_id"
    " AND window_start = :window_start AND spent + held + :n <= tokens"
)
POSTGRES, SQLITE = "PostgreSQL", "SQLite"
FIGURES = {
    (POSTGRES, 1): ("reserve_per_s", "reserve_vs_bare_1"),
    (POSTGRES, USERS): (f"reserve_per_s_{USERS}", f"reserve_vs_bare_{USERS}"),
    (SQLITE, 1): ("reserve_per_s_embedded", "reserve_vs_bare_1_embedded"),
    (SQLITE, USERS): (f"reserve_per_s_{USERS}_embedded", f"reserve_vs_bare_{USERS}_embedded"),
}
"""By database and number of users: how many a second, and how many for each one of the bare loop."""

Reserve = Callable[[Database, User, float], Awaitable[None]]


async def reserve(database: Database, user: User, now: float) -> None:
    await database.transaction(lambda at: LEDGER.reserve(at, user, ESTIMATE, now))


async def bare(database: Database, user: User, now: float) -> None:
    async def move(at: Connection) -> int:
        of_window = {"tenant_id": user.tenant_id, "user_id": user.user_id, "window_start": LEDGER.window_of(now)}
        return (await at.execute(BARE, {"n": ESTIMATE, **of_window})).rowcount

    if await database.transaction(move) != 1:
        raise InTurnError("the bare loop has moved no window, so there is no figure")


SIDES: dict[str, Reserve] = {"inturn": reserve, "bare UPDATE": bare}


async def reservations(database_url: str, plan: Plan) -> list[Figure]:
    """`database_url`: an empty PostgreSQL database."""
    rates: dict[tuple[str, int], Rounds] = {each: defaultdict(list) for each in FIGURES}
    now = time.time()  # all of a run is charged to one window, also at midnight
    users = {number: [User("bench", f"user-{each}") for each in range(number)] for number in (1, USERS)}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="inturn-bench-")))
        urls = {POSTGRES: database_url, SQLITE: f"sqlite:///{folder / 'tasks.db'}"}
        databases = {name: Database(url, timeout_s=PATIENT_S) for name, url in urls.items()}
        for database in databases.values():
            stack.push_async_callback(database.close)
            await database.migrate()
            for user in users[USERS]:  # the first one of a window makes it
                await reserve(database, user, now)
            for side in SIDES.values():
                await per_s(side, database, users[USERS], now, 0.05)
        for number in range(plan.rounds):
            plan.tell(f"reservations, {AT_ONCE} at once, round {number + 1} of {plan.rounds}")
            slices: dict[tuple[str, int], Rounds] = {each: defaultdict(list) for each in FIGURES}
            for _ in range(SLICES):
                for each in FIGURES:
                    for name, side in SIDES.items():
                        rate = await per_s(side, databases[each[0]], users[each[1]], now, plan.seconds(SLICE_S))
                        slices[each][name].append(rate)
            for each, by_side in slices.items():
                for name, values in by_side.items():
                    rates[each][name].append(median(values))
    return _figures(rates)


async def per_s(side: Reserve, database: Database, users: Sequence[User], now: float, seconds: float) -> float:
    """Some tasks, each of which reserves for the next user, one after the other."""

    async def work() -> int:
        done = 0
        while time.perf_counter() < ends_at:
            await side(database, users[next(numbers) % len(users)], now)
            done += 1
        return done

    numbers = count()
    began_at = time.perf_counter()
    ends_at = began_at + seconds
    done = sum(await asyncio.gather(*(work() for _ in range(AT_ONCE))))
    return done / (time.perf_counter() - began_at)


def _figures(rates: dict[tuple[str, int], Rounds]) -> list[Figure]:
    ours, bare = SIDES
    figures: list[Figure] = []
    ratios: dict[str, float] = {}
    all_rounds: Rounds = {}
    for (database, users), (rate, versus) in FIGURES.items():
        rounds = rates[database, users]
        told = f"{database}, {users} user{'s' * (users > 1)}"
        all_rounds |= {f"{name}, {told}": values for name, values in rounds.items()}
        ratios[versus] = rounded(median_ratio(rounds[ours], rounds[bare]))
        unit = f"reservations per second, {AT_ONCE} at once, {told}"
        figures.append(Figure(rate, rounded(median(rounds[ours])), unit, dict(rounds)))
        figures.append(Figure(versus, ratios[versus], unit, dict(rounds)))
    unit = "the smallest of the four ratios"
    smallest = min(ratios, key=lambda name: ratios[name])
    return [*figures, Figure("reserve_vs_bare", ratios[smallest], unit, all_rounds, {"smallest": smallest})]
