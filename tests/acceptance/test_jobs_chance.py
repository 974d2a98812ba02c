"""Everything at once, by chance: workers are killed or frozen, connections are cut, providers are slow or fail."""

from __future__ import annotations

import asyncio
import random
import signal

import hypothesis.core
import pytest

from tests.acceptance.jobs_books import Books, Reply
from tests.acceptance.processes import Child, hears

JOBS = 60
LASTS_S = 12.0
LEASE_S = 8.0
"""One who gets the processor late is not taken for dead: what it was paid for would be paid once more."""


@pytest.mark.random
async def test_whatever_happens_the_books_are_right_in_the_end(rabbit_books: Books) -> None:
    books = rabbit_books
    seed = vars(hypothesis.core)["global_force_seed"]
    chance = random.Random(seed)

    def plan(number: int, nth: int) -> Reply:
        drawn = random.Random(f"{seed} {number} {nth}")
        after_s = drawn.choice([0.0, 0.2, 1.5, 4.0])
        if number % 20 == 0:
            return Reply(500, after_s=after_s)
        if nth < 4 and drawn.random() < 0.25:
            return Reply(drawn.choice([429, 500, 503]), after_s=after_s, retry_after=drawn.choice(["", "1"]))
        return Reply(after_s=after_s)

    books.desk.plan = plan
    crew = await books.hire(3, lease=LEASE_S)
    troubles = asyncio.create_task(make_trouble(books, crew, chance))
    while books.numbers < JOBS:
        await books.post(chance.randint(1, 8))
        await asyncio.sleep(chance.uniform(0.0, 0.8))  # they come over some time, not all before the trouble begins
    await troubles
    await books.hire()  # each of the others may have lost its connection before it was ready
    assert len(books.accepted) > JOBS / 2
    await books.close_books(120)


async def make_trouble(books: Books, crew: list[Child], chance: random.Random) -> None:
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + LASTS_S
    assert books.broker is not None
    while loop.time() < ends_at:
        await asyncio.sleep(chance.uniform(0.3, 1.5))
        child = chance.choice(crew)
        match chance.choice(["kill", "kill", "stop", "freeze", "close one", "close all"]):
            case "kill":
                crew.remove(child)
                await asyncio.to_thread(books.kill, child)
                crew.append(books.begin_to_hire(lease=LEASE_S))
            case "stop":
                await hears(child, "starting")  # its signals are caught
                crew.remove(child)
                child.signal(signal.SIGTERM)
                crew.append(books.begin_to_hire(lease=LEASE_S))
            case "freeze":  # for longer than its lease: it wakes up as one whose turns are lost
                child.signal(signal.SIGSTOP)
                books.note_killed(child)  # for the others it is as dead as one
                loop.call_later(LEASE_S + 1.0, child.signal, signal.SIGCONT)
            case "close one":
                names = await asyncio.to_thread(books.broker.connections, books.vhost)
                if names:
                    await asyncio.to_thread(books.broker.close_connection, chance.choice(sorted(names)))
            case "close all":
                await asyncio.to_thread(books.broker.close_all_connections, books.vhost)
    await asyncio.sleep(LEASE_S + 1.5)  # until nobody is frozen any more
