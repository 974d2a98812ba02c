"""What a worker that is killed, stopped or poisoned costs its lanes: both stores, real processes."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from inturn import HandlerFailed, InTurn
from inturn.store import clock
from tests.acceptance.lane_worker import ATTEMPTS, TTL, register, worker
from tests.acceptance.looks import stop, until_idle
from tests.acceptance.processes import SLACK, Child, Processes, hears, until_ended


@pytest.fixture
def app(app: InTurn) -> InTurn:
    register(app)
    return app


async def two_workers(processes: Processes, app: InTurn, namespace: str) -> tuple[Child, Child]:
    """Both are there before the turn begins: a lease is short here, and must not end while a process starts."""
    workers = worker(processes, app, namespace), worker(processes, app, namespace)
    for each in workers:
        await hears(each, "ready")
    return workers


async def until_it_stands(child: Child, app: InTurn, url: str, namespace: str) -> None:
    """It does nothing from here on, and gets no turn: what it has asked for was answered before we were."""
    await asyncio.to_thread(stop, child, url, namespace)
    await app.lanes.list()


async def test_the_turn_of_a_killed_worker_is_taken_over_within_a_lease_and_the_attempt_counts(
    processes: Processes, app: InTurn, store_url: str, namespace: str
) -> None:
    first, second = await two_workers(processes, app, namespace)
    await until_it_stands(second, app, store_url, namespace)
    one = await app.submit("note", {"key": "k", "n": 1, "wait": True})
    two = await app.submit("note", {"key": "k", "n": 2})
    begun = await hears(first, "begun", "1")
    second.signal(signal.SIGCONT)
    second.tell("go", name="1")
    killed_at = clock.now()
    first.kill()
    again = await hears(second, "begun", "1", within=TTL + 1 + SLACK)
    assert again["at"] - killed_at < TTL + 1 + SLACK
    assert again["attempt"] == 2
    assert again["fence"] > begun["fence"]
    assert (await one.result(20), await two.result(20)) == (2, 1)
    assert (await until_idle(app, "k")).state == [1, 2]
    assert (await until_idle(app, "sink:k")).state == [1, 2]


async def test_a_message_that_kills_its_worker_becomes_a_dead_letter_and_the_lane_goes_on_with_its_state(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    first = worker(processes, app, namespace)
    await hears(first, "ready")
    assert await (await app.submit("note", {"key": "k", "n": 1})).result(20) == 1
    poison = await app.submit("kill", {"key": "k", "n": 2})
    after = await app.submit("note", {"key": "k", "n": 3})
    for attempt in range(1, ATTEMPTS + 1):
        doomed = first if attempt == 1 else worker(processes, app, namespace)
        assert (await hears(doomed, "begun", "2"))["attempt"] == attempt
        assert await asyncio.to_thread(doomed.process.wait, 30) == 9
    last = worker(processes, app, namespace)
    await hears(last, "ready")
    with pytest.raises(HandlerFailed) as failed:
        await poison.result(TTL + 20)
    told = [(error["type"], error["attempt"]) for error in failed.value.errors]
    assert told == [("LeaseLost", 1), ("LeaseLost", 2), ("Exhausted", 2)]
    assert failed.value.attempts == ATTEMPTS, "the worker that only buried it did not try it"
    assert await after.result(20) == 1
    assert (await until_idle(app, "k")).state == [1, "without 2", 3], "the state survives the dead letter before it"
    assert (await until_idle(app, "sink:k")).state == [1, "2 died", 3], "it was told once, by the one that buried it"
    (letter,) = await app.dead_letters.list()
    assert (letter.handler, letter.id, letter.body) == ("kill", "2", {"key": "k", "n": 2})
    assert letter.attempts == ATTEMPTS


@pytest.mark.parametrize("commits_at_once", [False, True], ids=["waits", "commits"])
async def test_a_zombie_cannot_commit_and_the_state_is_written_once(
    processes: Processes, app: InTurn, store_url: str, namespace: str, commits_at_once: bool
) -> None:
    zombie, other = await two_workers(processes, app, namespace)
    await until_it_stands(other, app, store_url, namespace)
    receipt = await app.submit("note", {"key": "k", "n": 1, "wait": True})
    await hears(zombie, "begun", "1")
    await asyncio.to_thread(stop, zombie, store_url, namespace)
    if commits_at_once:
        zombie.tell("go", name="1")  # the first thing that it reads when it goes on
    other.tell("go", name="1")
    other.signal(signal.SIGCONT)
    assert (await hears(other, "begun", "1", within=TTL + 1 + SLACK))["attempt"] == 2
    assert await receipt.result(20) == 2
    zombie.signal(signal.SIGCONT)
    if not commits_at_once:
        await hears(zombie, "cancelled", "1", within=SLACK)
    later = await app.submit("note", {"key": "k", "n": 2})
    await later.result(20)
    assert (await until_idle(app, "k")).state == [1, 2]
    assert (await until_idle(app, "sink:k")).state == [1, 2], "what a zombie sends is not sent"


async def test_a_zombie_does_not_commit_while_another_is_in_the_turn(
    processes: Processes, other: InTurn, store_url: str, namespace: str
) -> None:
    app, ttl = other, TTL * 2  # the next one has to keep its turn until the zombie has tried
    register(app, ttl)
    zombie, heir = await two_workers(processes, app, namespace)
    await until_it_stands(heir, app, store_url, namespace)
    receipt = await app.submit("note", {"key": "k", "n": 1, "wait": True})
    await hears(zombie, "begun", "1")
    await asyncio.to_thread(stop, zombie, store_url, namespace)
    zombie.tell("go", name="1")
    heir.signal(signal.SIGCONT)
    await hears(heir, "begun", "1", within=ttl + 1 + SLACK)
    zombie.signal(signal.SIGCONT)
    await until_ended(zombie, "1")
    info = await app.lanes.inspect("k")
    assert (info.status, info.state) == ("running", None)
    heir.tell("go", name="1")
    assert await receipt.result(20) == 2
    assert (await until_idle(app, "k")).state == [1]


async def test_an_inline_caller_that_is_killed_costs_a_lease_and_its_message_is_gone(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    """As a worker's kill, with the difference that nobody gets the message."""
    holder = processes.run("lane_caller", app.process.store.url, namespace)
    await hears(holder, "held")
    waiting = asyncio.create_task(_take(app))
    killed_at = clock.now()
    holder.kill()
    assert await asyncio.wait_for(waiting, 30) == []
    assert clock.now() - killed_at < TTL + 1 + SLACK
    assert (await until_idle(app, "k")).waiting == 0


async def _take(app: InTurn) -> Any:
    async with app.turn("k", state=list) as turn:
        return turn.state


async def test_a_forked_child_shares_no_lease_with_its_parent(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    forking = processes.run("lane_forking", app.process.store.url, namespace)
    held, child = await hears(forking, "held"), await hears(forking, "child")
    assert child["process"] != held["process"]
    assert child["holds"] == 0
    assert await hears(forking, "busy")
    await hears(forking, "done")
    parent = await hears(forking, "parent")
    assert (parent["is_lost"], parent["status"]) == (False, 0)
    await hears(forking, "committed")
    assert (await until_idle(app, "mine")).state == ["parent"]
    assert (await until_idle(app, "other")).state == ["child"]
