"""A rolling deploy: an old worker and a new one, in processes of their own, on the lanes of one store."""

from __future__ import annotations

import asyncio
import signal

import pytest

from inturn import InTurn
from inturn.store import clock
from tests.acceptance.looks import until_idle
from tests.acceptance.policies_worker import body, register, worker
from tests.acceptance.processes import Processes, hears


@pytest.fixture
def old(app: InTurn) -> InTurn:
    register(app, 1)
    return app


@pytest.fixture
def new(other: InTurn) -> InTurn:
    register(other, 2)
    return other


async def until_unhandled(app: InTurn, within: float = 20.0) -> None:
    """The lane waits, and whoever looks sees that nobody is there to run it."""
    ends_at = clock.now() + within
    while [(lane.status, lane.is_unhandled) for lane in await app.lanes.list()] != [("ready", True)]:
        assert clock.now() < ends_at, await app.lanes.list()
        await asyncio.sleep(0.01)


async def test_what_is_of_the_new_version_is_only_run_by_the_new_worker(
    processes: Processes, old: InTurn, new: InTurn, namespace: str
) -> None:
    await worker(processes, old, namespace, 1)
    newer = await new.submit("versioned", body("a", words=["hi", "there"]))
    older = await old.submit("versioned", body("b", text="hello"))
    await until_unhandled(old)
    info = await old.lanes.inspect("k")
    assert (info.waiting, info.why, [message.attempts for message in info.messages]) == (2, "", [0, 0])
    young = await worker(processes, new, namespace, 2)
    assert (await newer.result(20), await older.result(20)) == (2, 2), "the state is the new one's, and so is the turn"
    for name in "ab":
        assert (await hears(young, "begun", name))["attempt"] == 1
    assert (await until_idle(new, "k")).state == {"a": ["hi", "there"], "b": ["hello"]}
    assert await new.dead_letters.list() == []


async def test_while_only_old_workers_run_the_lane_waits_and_nothing_is_parked_or_dead(
    processes: Processes, old: InTurn, new: InTurn, namespace: str
) -> None:
    young, _ = await asyncio.gather(worker(processes, new, namespace, 2), worker(processes, old, namespace, 1))
    assert await (await new.submit("versioned", body("a", words=["hi"]))).result(20) == 2
    young.signal(signal.SIGTERM)
    await hears(young, "stopped")
    receipt = await old.submit("versioned", body("b", text="hello"))
    await until_unhandled(old)
    with pytest.raises(TimeoutError):
        await receipt.result(0.3)
    info = await old.lanes.inspect("k")
    assert (info.status, info.state, info.messages[0].attempts) == ("ready", {"a": ["hi"]}, 0)
    assert await old.dead_letters.list() == []
    elsewhere = await old.submit("versioned", {"key": "other", "id": "c", "text": "hello"})
    assert await elsewhere.result(20) == 1, "other lanes go on"
