"""`app.turn(key, busy="interrupt")`: it ends the turn that runs, if that allows it, and waits for its own."""

from __future__ import annotations

import asyncio
import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import pytest

from inturn import Interrupted, InTurn, LaneTimeout, Turn
from inturn.settings import Settings
from inturn.store.lane import Begun, Opening
from tests.conftest import PATIENT_S
from tests.lanes.workbench import Gate, apart, counted, working
from tests.waiting import until_waiting


class Calls:
    """Inline turns of a list, each in a task of its own: who has begun waits until it may end."""

    def __init__(self) -> None:
        self.gates: dict[str, Gate] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, app: InTurn, name: str, **options: Any) -> Gate:
        self.gates[name] = Gate()
        self.tasks[name] = apart(self._run(app, name, options))
        return self.gates[name]

    async def _run(self, app: InTurn, name: str, options: dict[str, Any]) -> None:
        async with app.turn("k", state=list, **{"wait": 20, **options}) as turn:
            turn.state.append(name)
            await self.gates[name].pass_through()

    async def ends(self, name: str) -> None:
        self.gates[name].opened.set()
        await self.tasks[name]

    async def interrupted(self, name: str) -> bool:
        await asyncio.wait([self.tasks[name]], timeout=10)
        return isinstance(self.tasks[name].exception(), Interrupted)


async def state_of(app: InTurn) -> Any:
    return (await app.lanes.inspect("k")).state


async def test_it_ends_an_inline_turn_that_allows_it_and_has_the_next_one(app: InTurn, other: InTurn) -> None:
    calls, before = Calls(), counted("inturn_turns_total", outcome="interrupted")
    await calls.start(app, "first", interruptible=True).reached.wait()
    await calls.start(other, "second", busy="interrupt").reached.wait()
    assert await calls.interrupted("first")
    await calls.ends("second")
    assert await state_of(app) == ["second"], "nothing of the first one was committed"
    assert counted("inturn_turns_total", outcome="interrupted") == before + 1


async def test_the_block_is_left_by_interrupted_and_cannot_commit_if_it_swallows_that(
    app: InTurn, other: InTurn
) -> None:
    calls = Calls()
    with pytest.raises(Interrupted):
        async with app.turn("k", state=list, interruptible=True) as turn:
            turn.state.append("never")
            calls.start(other, "second", busy="interrupt")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert turn.lost
                turn.state.append("neither")
    await calls.gates["second"].reached.wait()
    await calls.ends("second")
    assert await state_of(app) == ["second"]


async def test_a_turn_that_does_not_allow_it_is_waited_for(app: InTurn, other: InTurn) -> None:
    calls = Calls()
    await calls.start(app, "first").reached.wait()
    calls.start(other, "second", busy="interrupt")
    await until_waiting(app, "k", 1)
    await calls.ends("first")
    await calls.ends("second")
    assert await state_of(app) == ["first", "second"]


async def test_wait_is_its_time_limit(app: InTurn, other: InTurn) -> None:
    calls = Calls()
    await calls.start(app, "first").reached.wait()
    with pytest.raises(LaneTimeout):
        async with other.turn("k", busy="interrupt", wait=0.05):
            raise AssertionError("unreachable")
    await calls.ends("first")
    assert await state_of(app) == ["first"]


async def test_a_handler_that_allows_it_runs_again_behind_the_caller(app: InTurn, other: InTurn) -> None:
    gate, calls, tries = Gate(), Calls(), 0

    @app.handler("report", key="k", state=list, interruptible=True)
    async def report(turn: Turn[Any]) -> int:
        nonlocal tries
        tries += 1
        turn.state.append("report")
        await gate.pass_through()
        return turn.attempt

    app.handler("later", key="k", state=list)(lambda turn: turn.state.append("later"))
    async with working(app):
        first = await app.submit("report", None)
        await gate.reached.wait()
        last = await app.submit("later", None)
        await calls.start(other, "caller", busy="interrupt").reached.wait()
        gate.opened.set()
        await calls.ends("caller")
        assert await first.result(20) == 1
        await last.result(20)
    assert tries == 2
    assert await state_of(app) == ["caller", "report", "later"]


async def test_a_handler_of_a_higher_priority_is_left_alone(app: InTurn, other: InTurn) -> None:
    gate, calls = Gate(), Calls()

    @app.handler("urgent", key="k", state=list, interruptible=True, priority=1)
    async def urgent(turn: Turn[Any]) -> None:
        turn.state.append("urgent")
        await gate.pass_through()

    async with working(app):
        receipt = await app.submit("urgent", None)
        await gate.reached.wait()
        calls.start(other, "caller", busy="interrupt")
        await until_waiting(app, "k", 1)
        gate.opened.set()
        await receipt.result(20)
        await calls.ends("caller")
    assert await state_of(app) == ["urgent", "caller"]


async def test_the_turn_of_a_lane_that_is_paused_is_left_alone(app: InTurn, other: InTurn) -> None:
    calls = Calls()
    await calls.start(app, "first", interruptible=True).reached.wait()
    await app.lanes.pause("k")
    calls.start(other, "second", busy="interrupt")
    await until_waiting(app, "k", 1)
    await calls.ends("first")
    await app.lanes.resume("k")
    await calls.ends("second")
    assert await state_of(app) == ["first", "second"]


async def test_the_fourth_in_a_row_waits(app: InTurn, other: InTurn) -> None:
    calls = Calls()
    for number, at in enumerate((app, other, app, other)):
        await calls.start(at, str(number), busy="interrupt", interruptible=True).reached.wait()
    assert [await calls.interrupted(name) for name in "012"] == [True] * 3
    calls.start(app, "4", busy="interrupt", interruptible=True)
    await until_waiting(app, "k", 1)
    await calls.ends("3")
    await calls.ends("4")
    assert await state_of(app) == ["3", "4"]


async def test_callers_who_wait_have_their_turns_before_the_one_that_interrupts(app: InTurn, other: InTurn) -> None:
    calls = Calls()
    await calls.start(app, "first", interruptible=True).reached.wait()
    calls.start(app, "patient")
    await until_waiting(app, "k", 1)
    calls.start(other, "hasty", busy="interrupt")
    assert await calls.interrupted("first")
    for name in ("patient", "hasty"):
        await calls.gates[name].reached.wait()
        await calls.ends(name)
    assert await state_of(app) == ["patient", "hasty"]


async def test_a_begin_whose_reply_was_lost_interrupts_once(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call is made again, and meanwhile another has its turn."""
    calls, honest, repeated = Calls(), other.process.store.begin, asyncio.Event()
    answers: list[Begun] = []
    await calls.start(app, "first", interruptible=True).reached.wait()
    calls.start(app, "second", interruptible=True)
    await until_waiting(app, "k", 1)

    async def begin(opening: Opening) -> Begun:
        if not answers:
            answers.append(await honest(opening))
            assert await calls.interrupted("first")
            await calls.gates["second"].reached.wait()
        answers.append(await honest(opening))
        repeated.set()
        return answers[-1]

    monkeypatch.setattr(other.process.store, "begin", begin)
    calls.start(other, "third", busy="interrupt")
    await repeated.wait()
    await calls.ends("second")
    await calls.ends("third")
    assert [answer.status for answer in answers[:2]] == ["waiting", "waiting"]
    assert await state_of(app) == ["second", "third"]


def hold(url: str, namespace: str, told: Connection) -> None:
    """Another process: it has an interruptible turn until that is taken from it."""

    async def main() -> None:
        async with InTurn(url, namespace=namespace, settings=Settings(store_timeout=PATIENT_S)) as app:
            try:
                async with app.turn("k", state=list, interruptible=True) as turn:
                    turn.state.append("never")
                    told.send("begun")
                    await asyncio.sleep(60)
            except Interrupted as error:
                told.send(type(error).__name__)

    asyncio.run(main())


async def test_it_ends_a_turn_of_another_process(app: InTurn, store_url: str, namespace: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=hold, args=(store_url, namespace, theirs))
    process.start()
    try:
        assert await asyncio.to_thread(ours.poll, 60)
        assert ours.recv() == "begun"
        async with app.turn("k", state=list, busy="interrupt", wait=30) as turn:
            assert turn.state == []
        assert await asyncio.to_thread(ours.poll, 30)
        assert ours.recv() == "Interrupted"
        await asyncio.to_thread(process.join, 30)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()
        ours.close()
        theirs.close()


async def test_it_begins_although_a_turn_that_it_ended_does_not_end(app: InTurn, other: InTurn) -> None:
    """Nobody works on either side: the heartbeats see to it."""
    calls, ends, swallowed = Calls(), asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        async with app.turn("k", interruptible=True):
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed.set()
                await ends.wait()
                raise

    begun = asyncio.Event()
    task = apart(stubborn())
    await begun.wait()
    gate = calls.start(other, "second", busy="interrupt")
    await swallowed.wait()
    await gate.reached.wait()
    ends.set()
    with pytest.raises(Interrupted):
        await task
    await calls.ends("second")
    assert await state_of(app) == ["second"]


@pytest.mark.parametrize("busy", ["rollback", "latest", "merge", "drop"])
async def test_an_inline_turn_supersedes_nobody(app: InTurn, busy: Any) -> None:
    with pytest.raises(ValueError, match=f"busy='{busy}': must be one of 'wait', 'queue', 'reject', 'interrupt'"):
        app.turn("k", busy=busy)


async def test_who_cannot_wait_cannot_interrupt(app: InTurn) -> None:
    with pytest.raises(ValueError, match="wait=0: must not be 0 with busy='interrupt'"):
        app.turn("k", busy="interrupt", wait=0)
