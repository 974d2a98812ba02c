"""SIGTERM and SIGINT: no new turns, time to finish, the rest handed back untouched, exit code 0."""

from __future__ import annotations

import asyncio
import signal

import pytest

from inturn import InTurn
from inturn.store import clock
from tests.acceptance.lane_worker import LONG_TTL, register, worker
from tests.acceptance.looks import until_idle
from tests.acceptance.processes import Child, Processes, hears


@pytest.fixture
def app(app: InTurn) -> InTurn:
    register(app, LONG_TTL)
    return app


async def exit_code(child: Child, within: float = 30) -> int:
    return await asyncio.to_thread(child.process.wait, within)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_worker_stops_at_once(
    processes: Processes, app: InTurn, namespace: str, which: signal.Signals
) -> None:
    child = worker(processes, app, namespace)
    await hears(child, "ready")
    assert await (await app.submit("note", {"key": "k", "n": 1})).result(20) == 1
    child.signal(which)
    await hears(child, "stopped")
    assert await exit_code(child) == 0


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_a_running_turn_has_time_to_finish_and_no_new_one_begins(
    processes: Processes, app: InTurn, namespace: str, which: signal.Signals
) -> None:
    child = worker(processes, app, namespace, grace=20)
    await hears(child, "ready")
    running = await app.submit("note", {"key": "k", "n": 1, "wait": True})
    await hears(child, "begun", "1")
    await app.submit("note", {"key": "k", "n": 2})
    child.signal(which)
    await hears(child, "stopping")
    await app.submit("note", {"key": "another", "n": 3})
    child.tell("go", name="1")
    assert await running.result(20) == 1
    await hears(child, "stopped")
    assert await exit_code(child) == 0
    for key, n in (("k", "2"), ("another", "3")):
        info = await app.lanes.inspect(key)
        assert [(message.id, message.attempts) for message in info.messages] == [(n, 0)], "nobody has touched it"


async def test_what_does_not_finish_in_time_is_handed_back_untouched(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    child = worker(processes, app, namespace, grace=0.3)
    await hears(child, "ready")
    receipt = await app.submit("note", {"key": "k", "n": 1, "wait": True})
    await hears(child, "begun", "1")
    child.signal(signal.SIGTERM)
    await hears(child, "cancelled", "1")
    await hears(child, "stopped")
    assert await exit_code(child) == 0
    info = await app.lanes.inspect("k")
    assert (info.status, info.state, info.messages[0].attempts) == ("ready", None, 0)
    other = worker(processes, app, namespace)
    assert (await hears(other, "begun", "1"))["attempt"] == 1, "the attempt that was cut off does not count"
    other.tell("go", name="1")
    assert await receipt.result(20) == 1
    assert (await until_idle(app, "k")).state == [1]


async def test_a_second_signal_does_not_wait(processes: Processes, app: InTurn, namespace: str) -> None:
    child = worker(processes, app, namespace, grace=60)
    await hears(child, "ready")
    await app.submit("note", {"key": "k", "n": 1, "wait": True})
    await hears(child, "begun", "1")
    signalled_at = clock.now()
    child.signal(signal.SIGTERM)
    await hears(child, "stopping")
    child.signal(signal.SIGTERM)
    await hears(child, "stopped")
    assert await exit_code(child) == 0
    assert clock.now() - signalled_at < 30
    assert (await app.lanes.inspect("k")).messages[0].attempts == 0


async def test_a_worker_that_leaves_signals_alone_hands_back_its_turns_when_ctrl_c_cancels_it(
    processes: Processes, app: InTurn, namespace: str
) -> None:
    child = worker(processes, app, namespace, grace=60, signals=False)
    await hears(child, "ready")
    await app.submit("note", {"key": "k", "n": 1, "wait": True})
    await hears(child, "begun", "1")
    child.signal(signal.SIGINT)
    await hears(child, "cancelled", "1")
    assert await exit_code(child) != 0, "it ends as Ctrl-C ends any program of asyncio"
    info = await app.lanes.inspect("k")
    assert (info.status, info.messages[0].attempts) == ("ready", 0)


async def test_another_worker_goes_on_where_one_stopped(processes: Processes, app: InTurn, namespace: str) -> None:
    first, second = worker(processes, app, namespace), worker(processes, app, namespace)
    for child in (first, second):
        await hears(child, "ready")
    receipts = [await app.submit("note", {"key": f"k{n % 5}", "n": n}) for n in range(100)]
    first.signal(signal.SIGTERM)
    assert [await receipt.result(20) for receipt in receipts] == [1] * 100
    assert await exit_code(first) == 0
    for k in range(5):
        assert (await until_idle(app, f"k{k}")).state == list(range(k, 100, 5))
