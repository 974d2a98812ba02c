"""An interrupt across processes: the body is cancelled there, leaves no trace, and what outlives it cannot commit."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from inturn import InTurn
from inturn.store import clock
from tests.acceptance.looks import stop, until_idle
from tests.acceptance.policies_worker import body, register, worker
from tests.acceptance.processes import SLACK, Processes, hears, until_ended

YIELD = 1.0
"""So long an interrupted turn may take to end."""


@pytest.fixture
def app(app: InTurn) -> InTurn:
    register(app)
    return app


async def traces(app: InTurn) -> tuple[Any, Any]:
    """The state, and what has been sent."""
    return (await until_idle(app, "k")).state, (await until_idle(app, "sink:k")).state


async def test_the_body_is_cancelled_in_the_other_process_and_leaves_no_trace(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    child = await worker(processes, app, namespace)
    first = await app.submit("talk", body("a", wait=True))
    begun = await hears(child, "begun", "a")
    arrived_at = clock.now()
    second = await app.submit("talk", body("b"))
    cancelled, again = await hears(child, "cancelled", "a"), await hears(child, "begun", "a+b")
    assert cancelled["at"] - arrived_at < 0.1 + SLACK
    assert cancelled["at"] <= again["at"] < arrived_at + SLACK, "it does not wait for a second: the old one has ended"
    assert (begun["attempt"], again["attempt"]) == (1, 1), "the attempt is given back"
    assert again["fence"] > begun["fence"]
    assert (await first.result(20), await second.result(20)) == ("a+b", "a+b")
    assert await traces(app) == (["a+b"], ["a+b"])


async def test_a_body_that_swallows_its_cancellation_cannot_commit(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    child = await worker(processes, app, namespace)
    await app.submit("talk", body("a", wait=True, swallows=True))
    await hears(child, "begun", "a")
    second = await app.submit("talk", body("b"))
    await hears(child, "cancelled", "a")
    await hears(child, "done", "a")
    assert await second.result(20) == "a+b"
    assert await traces(app) == (["a+b"], ["a+b"])


async def test_a_body_in_a_thread_goes_on_beside_nothing_for_a_second_and_cannot_commit(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    child = await worker(processes, app, namespace)
    await app.submit("block", body("a", wait=True))
    await hears(child, "begun", "a")
    arrived_at = clock.now()
    second = await app.submit("block", body("b"))
    again = await hears(child, "begun", "a+b")
    assert again["at"] - arrived_at < YIELD + SLACK
    assert await second.result(20) == "a+b"
    child.tell("go", name="a")
    await hears(child, "done", "a")
    third = await app.submit("block", body("c"))
    assert await third.result(20) == "c"
    assert await traces(app) == (["a+b", "c"], ["a+b", "c"])
    assert again["at"] - arrived_at > YIELD - 0.05, "two bodies of one lane ran side by side"


@pytest.mark.parametrize("wakes", ["before the next turn ends", "after it"])
async def test_a_paused_worker_holds_the_next_turn_up_for_a_second_and_cannot_commit_when_it_wakes(
    processes: Processes, app: InTurn, store_url: str, namespace: str, wakes: str
) -> None:
    paused = await worker(processes, app, namespace)
    await app.submit("talk", body("a", wait=True))
    await hears(paused, "begun", "a")
    other = await worker(processes, app, namespace)
    await asyncio.to_thread(stop, paused, store_url, namespace)
    paused.tell("go", name="a")  # the first thing that it reads when it goes on
    arrived_at = clock.now()
    is_slow = wakes == "before the next turn ends"
    second = await app.submit("talk", body("b", wait=is_slow))
    again = await hears(other, "begun", "a+b")
    assert YIELD - 0.05 < again["at"] - arrived_at < YIELD + SLACK
    assert again["attempt"] == 1
    if is_slow:
        paused.signal(signal.SIGCONT)
        await until_ended(paused, "a")
        info = await app.lanes.inspect("k")
        assert (info.status, info.state) == ("running", None)
        other.tell("go", name="a+b")
    assert await second.result(20) == "a+b"
    if not is_slow:
        paused.signal(signal.SIGCONT)
        await until_ended(paused, "a")
    assert await traces(app) == (["a+b"], ["a+b"])


async def test_a_worker_that_is_killed_after_the_interrupt_costs_a_second(
    processes: Processes, app: InTurn, store_url: str, namespace: str
) -> None:
    """Its lease is over since the interrupt: nobody waits for that."""
    doomed = await worker(processes, app, namespace)
    await app.submit("talk", body("a", wait=True))
    await hears(doomed, "begun", "a")
    other = await worker(processes, app, namespace)
    await asyncio.to_thread(stop, doomed, store_url, namespace)
    arrived_at = clock.now()
    second = await app.submit("talk", body("b"))
    doomed.kill()
    assert (await hears(other, "begun", "a+b"))["at"] - arrived_at < YIELD + SLACK
    assert await second.result(20) == "a+b"
    assert await traces(app) == (["a+b"], ["a+b"])
