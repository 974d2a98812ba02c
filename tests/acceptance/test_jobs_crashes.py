"""Workers that are killed: the job goes on elsewhere, its caller is told once, and a success is paid once.

The crash windows are those of `docs/jobs.md`. A worker stands still exactly in one of them when it is killed.
"""

from __future__ import annotations

import asyncio

from inturn.jobs.dead import DeadJobs
from inturn.jobs.transport import DELIVERY_LIMIT
from tests.acceptance.jobs_books import Books, Reply, text_of
from tests.acceptance.processes import Child, hears
from tests.waiting import until

LEASE_S = 3.0
"""Of a worker that is killed. Until then it is the only one, so nothing is lost if it gets the processor late."""


async def test_a_worker_that_is_killed_while_a_provider_is_asked_leaves_its_jobs_to_another(books: Books) -> None:
    never = asyncio.Event()
    books.desk.plan = lambda number, nth: Reply(holds=never) if nth == 1 else Reply()
    (first,) = await books.hire(lease=LEASE_S)
    jobs = await books.post(3)
    await books.desk.until_asked(*jobs)
    books.kill(first)
    await books.hire()
    await books.close_books()
    for job in jobs:
        assert [(ask.paid, ask.left) for ask in books.desk.asks[job]] == [(False, True), (True, False)]
        assert (await books.world.job(books.accepted[job]))["attempt"] == 1, "a crash is no failure of the provider"


async def test_what_was_committed_and_not_acknowledged_is_found_and_not_done_again(rabbit_books: Books) -> None:
    books = rabbit_books
    books.desk.plan = lambda number, nth: Reply(503 if (number, nth) == (2, 1) else 200)
    (first,) = await books.hire(stands_at="ack")
    done, failed = await books.post(2)
    for _ in range(2):
        await hears(first, "stands", "ack")
    assert (await books.world.job(books.accepted[done]))["status"] == "done"
    assert (await books.world.job(books.accepted[failed]))["status"] == "attempt"
    books.kill(first)
    await books.hire()
    await books.close_books()
    assert (books.desk.asked(done), books.desk.asked(failed)) == (1, 2)
    assert (await books.world.job(books.accepted[failed]))["attempt"] == 2


async def test_of_two_copies_that_a_crash_after_the_rung_makes_one_counts(books: Books) -> None:
    """Without a broker the next attempt is part of the commit: then there is one copy, and it is attempted again."""
    books.desk.plan = lambda number, nth: Reply(503 if nth == 1 else 200)
    (first,) = await books.hire(stands_at="rung", lease=LEASE_S)
    jobs = await books.post(3)
    for _ in jobs:
        await hears(first, "stands", "rung")
    books.kill(first)
    await books.hire()
    await books.close_books()
    for job in jobs:
        assert [ask.paid for ask in books.desk.asks[job]] == [False, True]


async def test_a_call_back_that_was_taken_and_not_noted_comes_again_under_the_same_id(books: Books) -> None:
    (first,) = await books.hire(stands_at="callback", lease=LEASE_S)
    (job,) = await books.post()
    await hears(first, "stands", "callback")
    books.kill(first)
    await books.hire()
    await until(lambda: len(books.world.receiver.of(books.accepted[job])) >= 2, 60, "it is told again")
    await books.close_books()
    assert books.desk.asked(job) == 1


async def test_a_job_whose_server_was_killed_before_it_could_say_202_is_whole_or_not_there(books: Books) -> None:
    """With a broker it was published, and runs. Without one it would have come with the commit, and never was."""
    server = books.begin_to_hire(stands_at="publish", works=False, lease=LEASE_S)
    await hears(server, "ready")
    server.tell("accept", text=text_of(900), job_id="ghost", callback_url=books.world.receiver.url)
    await hears(server, "stands", "publish")
    books.kill(server)
    await books.hire()
    if books.broker is not None:
        books.accepted[900] = "ghost"
    await books.post(3)
    await books.close_books()
    assert books.desk.asked(900) == (0 if books.broker is None else 1)


async def test_a_job_that_kills_its_workers_is_a_dead_letter_and_the_others_are_worked_on(books: Books) -> None:
    stopping, deaths = asyncio.Event(), list[Child]()

    async def supervise() -> None:
        stops = asyncio.create_task(stopping.wait())
        while True:
            child = books.begin_to_hire(lease=LEASE_S)  # not until it is ready: it may die before
            ended = asyncio.create_task(asyncio.to_thread(child.process.wait))
            await asyncio.wait({ended, stops}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.is_set():
                child.kill()
                await ended
                return
            books.note_killed(child)
            deaths.append(child)

    poison = {"natural_language": text_of(666), "callback_url": books.world.receiver.url, "user_id": "ada"}
    response = await books.world.client.post("/api/v1/capabilities/poison?pattern=async", json=poison)
    assert response.status_code == 404, "a server that does not know a capability does not accept it"
    supervising = asyncio.create_task(supervise())
    try:
        poisoned = await accept_poison(books)
        await books.post(10)
        await books.settle(120)
        (told,) = books.world.receiver.of(poisoned)
        assert told.content["error"]["type"] == "worker_died"
        assert told.content["natural_language"] == text_of(666)
        (dead,) = await DeadJobs(books.world.app).show(poisoned)
        assert dead.kind == "job"
        assert dead.payload["capability"] == "poison"
        assert len(deaths) == DELIVERY_LIMIT + (books.broker is not None), (
            "the first delivery, and what the queue counts"
        )
    finally:  # it would go on replacing whoever is ended
        stopping.set()
        await supervising
    await books.check()


async def accept_poison(books: Books) -> str:
    """As another server would that knows this capability."""
    server = books.begin_to_hire(works=False, lease=LEASE_S)  # a store keeps the lease with the message
    await hears(server, "ready")
    server.tell(
        "accept", capability="poison", text=text_of(666), job_id="poison", callback_url=books.world.receiver.url
    )
    await hears(server, "accepted", "poison")
    server.kill()
    books.accepted[666] = "poison"
    return "poison"
