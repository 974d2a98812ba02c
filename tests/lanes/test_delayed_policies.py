"""Delayed messages outlive processes, obey the policies of their handlers when due, and can be sent by turns."""

from __future__ import annotations

import time
from typing import Any

import pytest

from inturn import InTurn, Superseded, Turn
from inturn.store import clock
from tests.conftest import MakeApp
from tests.lanes.workbench import SLACK_S, Gate, Noted, Seen, results, submit, working
from tests.store.stopwatch import Stopwatch
from tests.waiting import until, until_status


async def test_it_outlives_every_process(make_app: MakeApp) -> None:
    noted = Noted()
    first = make_app()
    first.handler("h", key="k")(noted.run)
    async with working(first):
        receipt = await submit(first, "a", delay=6)
        taken_back = await submit(first, "b", delay=6)
        assert await taken_back.cancel()
    await first.close()
    second = make_app()
    second.handler("h", key="k")(noted.run)
    async with working(second):
        again = await submit(second, "a")
        assert (receipt.status, again.status) == ("delayed", "duplicate")
        assert await again.result(20) == "a"
        assert (await submit(second, "b")).status == "cancelled"
    assert noted.bursts == [["a"]]


async def test_what_was_due_while_nobody_worked_runs_when_someone_does(make_app: MakeApp) -> None:
    noted = Noted()
    first = make_app()
    first.handler("h", key="k")(noted.run)
    soon = time.time() + 3  # neither is due before both are submitted, however busy the machine is
    await submit(first, "b", not_before=soon + 1)
    await submit(first, "a", not_before=soon)
    await first.close()
    second = make_app()
    second.handler("h", key="k")(noted.run)

    async def are_due() -> bool:
        info = await second.lanes.inspect("k")
        return [message.due_in_s for message in info.delayed + info.messages] == [0, 0]

    await until(are_due)  # nobody is there
    async with working(second):
        last = await submit(second, "c")
        await last.result(20)
        await until_status(second, "k", "idle")
    assert sorted(noted.bursts) == [["a"], ["b"], ["c"]]
    assert noted.bursts.index(["a"]) < noted.bursts.index(["b"])


async def test_remind_me_but_only_once(app: InTurn) -> None:
    noted = Noted()
    app.handler("remind", key="k", busy="latest")(noted.run)
    async with working(app):
        first = await app.submit("remind", "in a minute", delay=60)
        second = await app.submit("remind", "in a while", delay=30)
        third = await app.submit("remind", "soon", delay=0.2)
        for replaced in (first, second):
            with pytest.raises(Superseded):
                await replaced.result(20)
        assert await third.result(20) == "soon"
    assert noted.bursts == [["soon"]]


async def test_a_reminder_that_comes_due_replaces_nothing_newer(app: InTurn) -> None:
    """It is accepted by its rule when it is due: only then it replaces what waits."""
    noted, gate = Noted(), Gate()

    @app.handler("h", key="k", busy="latest")
    async def h(turn: Turn[Any]) -> str:
        await gate.pass_through()
        return await noted.run(turn)

    async with working(app):
        running = await submit(app, "a")
        await gate.reached.wait()
        reminder = await submit(app, "reminder", delay=0.1)
        newest = await submit(app, "newest")
        with pytest.raises(Superseded):
            await reminder.result(20)
        gate.opened.set()
        assert await results([running, newest]) == ["a", "newest"]
    assert noted.bursts == [["a"], ["newest"]]


async def test_an_interrupt_that_is_delayed_interrupts_when_it_is_due(app: InTurn) -> None:
    seen, gate = Seen(), Gate()

    @app.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> list[Any]:
        burst = seen.note(turn)
        if len(burst) == 1:
            await gate.pass_through()
        return burst

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts.append(await submit(app, "b", delay=0.2))
        assert await results(receipts) == [["a", "b"]] * 2
    assert seen.bursts == [["a"], ["a", "b"]]


@pytest.mark.usefixtures("nobody_looks")
async def test_a_turn_can_send_for_later(app: InTurn) -> None:
    noted = Noted()
    own_s: dict[str, float] = {}

    @app.handler("remind", key="k", message_id="{id}")
    async def remind(turn: Turn[Any]) -> None:
        own_s[turn.id] = watch.own_s  # by the clock, a machine that stalls could make all of them due
        await noted.run(turn)

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        turn.send("remind", {"id": "later"}, delay=4)
        turn.send("remind", {"id": "at"}, key="elsewhere", not_before=time.time() + 4)
        turn.send("remind", {"id": "now"}, delay=0)

    async with working(app), Stopwatch() as watch:
        sent_at = clock.now()
        await (await submit(app, "a")).result(20)

        async def all_came() -> bool:
            return len(noted.at) == 3

        await until(all_came)
    assert own_s["now"] < 3.95
    for name in ("later", "at"):
        assert 3.95 <= noted.at[name] - sent_at < 4 + SLACK_S


async def test_a_turn_that_fails_sends_nothing_for_later_either(app: InTurn) -> None:
    noted = Noted()
    app.handler("remind", key="r")(noted.run)

    @app.handler("h", key="k", attempts=2, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> None:
        turn.send("remind", f"attempt {turn.attempt}", key="r", delay=0.1)
        if turn.attempt == 1:
            raise ValueError("no")

    async with working(app):
        await (await submit(app, "a")).result(20)

        async def came() -> bool:
            return bool(noted.bursts)

        await until(came)
        await until_status(app, "r", "idle")
    assert noted.bursts == [["attempt 2"]]


async def test_clearing_a_lane_clears_what_is_delayed_too(app: InTurn) -> None:
    noted = Noted()
    app.handler("h", key="k")(noted.run)
    async with working(app):
        due_at = time.time() + 4
        await submit(app, "a", not_before=due_at)
        await app.lanes.clear("k")
        await (await submit(app, "b", not_before=due_at + 0.1)).result(20)
    assert noted.bursts == [["b"]]
