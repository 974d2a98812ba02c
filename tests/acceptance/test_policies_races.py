"""Races by brute force: messages against the commits, crashes, expiries and starts of turns, with a seed for chance.

Whatever wins, every message that was accepted comes to exactly one end: committed once, superseded, cancelled or dead.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from inturn import InTurn
from inturn.store.lane import Commit, Ended
from tests.acceptance.looks import PATIENT, until_all_idle
from tests.acceptance.policy_races import Kind, Lane, judge, play, register, shake
from tests.acceptance.processes import Child, Processes
from tests.store.lane_life import process_of

SEED = 11
LANES = 800
"""In each race, each with an interleaving of its own."""
AT_ONCE = 60
"""Lanes that are played side by side."""


@pytest.fixture
async def apps(store_url: str, namespace: str) -> AsyncIterator[list[InTurn]]:
    """A client, and two that work too; all of their calls are shaken."""
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(InTurn(store_url, namespace=namespace, settings=PATIENT)) for _ in range(3)
        ]
        for number, app in enumerate(opened):
            register(app, SEED)
            shake(app, f"{SEED}/{number}")
        yield opened


async def play_all(app: InTurn, kinds: tuple[Kind, ...], number: int) -> Counter[str]:
    """So many lanes of each kind. Answers how their messages ended."""
    free, wrong, ends = asyncio.Semaphore(AT_ONCE), [], Counter[str]()

    async def one(lane: Lane) -> None:
        async with free:
            async with asyncio.timeout(100):
                await play(app, lane, SEED)
            wrong.extend(judge(lane, (await app.lanes.inspect(lane.key)).state))
            ends.update(lane.ended.values())

    lanes = [Lane(f"{kind}:{at}", kind) for at in range(number) for kind in kinds]
    async with asyncio.TaskGroup() as tasks:
        for lane in lanes:
            tasks.create_task(one(lane))
    assert not wrong, "\n".join(wrong)
    return ends


@pytest.mark.parametrize(
    ("kinds", "ends"),
    [
        pytest.param(("interrupt", "rollback"), {"committed", "superseded"}, id="interrupt against commit"),
        pytest.param(("steer", "newer"), {"committed"}, id="steer against commit"),
        pytest.param(("queue", "latest"), {"committed", "cancelled"}, id="cancel against start"),
        pytest.param(("merge",), {"committed"}, id="merge against more"),
    ],
)
async def test_whatever_wins_every_message_comes_to_exactly_one_end(
    apps: list[InTurn], kinds: tuple[Kind, ...], ends: set[str]
) -> None:
    client, *workers = apps
    working = [asyncio.create_task(app.run(concurrency=20, grace=1)) for app in workers]
    found = await play_all(client, kinds, LANES // len(kinds))
    await until_all_idle(client)
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    assert set(found) >= ends, "too little happened to prove anything"


async def test_workers_that_are_killed_at_any_time_lose_and_double_nothing(
    processes: Processes, store_url: str, namespace: str
) -> None:
    """Interrupt, steer, merge and rollback against crashes, and so against leases that expire."""
    chance = random.Random(SEED)

    async def start() -> Child:
        worker = processes.run("policy_racer", store_url, namespace, str(SEED))
        await asyncio.to_thread(worker.hears, "ready")
        return worker

    async def kill(workers: list[Child]) -> None:
        for _ in range(4):
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            victim = workers.pop(0)
            victim.kill()
            workers.append(await start())

    workers = [await start() for _ in range(2)]
    async with InTurn(store_url, namespace=namespace, settings=PATIENT) as client:
        register(client, SEED)
        killing = asyncio.create_task(kill(workers))
        kinds: tuple[Kind, ...] = ("interrupt", "steer", "merge", "rollback")
        found = await play_all(client, kinds, 60)
        await killing
        await until_all_idle(client)
    assert found["committed"] > 100


async def test_a_cancel_that_only_says_so_is_found_out(apps: list[InTurn]) -> None:
    """The races themselves are put to the test."""

    async def cancel(*arguments: Any) -> str:
        return "cancelled"

    await is_found_out(apps, "cancel", cancel, "queue", "was told to be cancelled, and was committed")


async def test_a_commit_that_forgets_what_came_into_its_turn_is_found_out(apps: list[InTurn]) -> None:
    honest = {app.process.store.process: app.process.store.commit for app in apps}

    async def commit(effects: Commit) -> Ended:
        return await honest[process_of(effects.token)](effects._replace(have=1))

    await is_found_out(apps, "commit", commit, "steer", "2 times in the state")


async def is_found_out(apps: list[InTurn], verb: str, broken: Any, kind: Kind, says: str) -> None:
    client, worker = apps[:2]
    for app in apps:
        setattr(app.process.store, verb, broken)
    working = asyncio.create_task(worker.run(concurrency=20, grace=1))
    with pytest.raises(AssertionError, match=says):
        await play_all(client, (kind,), 100)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
