"""`rollback` and `latest`: what a newer message replaces will never run, its receipt says so, and it stays so."""

from __future__ import annotations

from typing import Any

import pytest

from inturn import InTurn, Superseded, Turn
from inturn.lanes.receipt import Receipt
from tests.conftest import MakeApp
from tests.lanes.workbench import NOT_TODAY, OVER_S, Bodies, Gate, Seen, apart, never, submit, until_open, working
from tests.waiting import until, until_status


async def superseded(*receipts: Receipt) -> None:
    for receipt in receipts:
        with pytest.raises(Superseded, match="superseded by a newer one, and will not run"):
            await receipt.result(20)


async def test_rollback_cancels_the_running_turn_and_goes_on_without_its_messages(app: InTurn, other: InTurn) -> None:
    body = Bodies()
    app.handler("h", key="k", busy="rollback", state=list)(body.run)
    other.handler("h", key="k", busy="rollback")(never)
    async with working(app):
        old = await submit(app, "a")
        await body.begun.get()
        waiting = apart(old.result(20))
        new = await submit(other, "b")
        assert await new.result(20) == ["b"]
        with pytest.raises(Superseded):
            await waiting
        await superseded(old)
    assert body.seen.turns == [(["a"], 1), (["b"], 1)]
    assert body.cancelled == 1


async def test_rollback_leaves_no_trace_of_the_old_turn(app: InTurn) -> None:
    delivered: list[Any] = []
    body = Bodies()

    @app.handler("out")
    async def out(turn: Turn[Any]) -> None:
        delivered.append(turn.body)

    @app.handler("h", key="k", busy="rollback", state=list)
    async def h(turn: Turn[list[str]]) -> list[Any]:
        turn.state.append(turn.body)
        turn.send("out", turn.body)
        return await body.run(turn)

    async with working(app):
        await submit(app, "a")
        await body.begun.get()
        await (await submit(app, "b")).result(20)
        await until_status(app, "k>out", "idle")
    assert delivered == ["b"]
    info = await app.lanes.inspect("k")
    assert (info.state, info.version) == (["b"], 1)


async def test_rollback_supersedes_what_waits_for_its_handler_and_nothing_else(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="rollback")
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    @app.handler("other", key="k")
    async def other(turn: Turn[Any]) -> None:
        seen.note(turn)

    one, between = await submit(app, "a"), await submit(app, "x", "other")
    two, three = await submit(app, "b"), await submit(app, "c")
    elsewhere = await submit(app, "d", key="k2")
    async with working(app):
        await superseded(one, two)
        for receipt in (between, three, elsewhere):
            await receipt.result(20)
    assert sorted(burst[0] for burst in seen.bursts) == ["c", "d", "x"]


async def test_latest_keeps_only_the_newest_that_waits_and_lets_the_running_one_finish(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k", busy="latest")
    async def h(turn: Turn[Any]) -> str:
        seen.note(turn)
        await gate.pass_through()
        return str(turn.body)

    async with working(app):
        running = await submit(app, "a")
        await gate.reached.wait()
        replaced = [await submit(app, text) for text in "bcd"]
        newest = await submit(app, "e")
        await superseded(*replaced)
        gate.opened.set()
        assert (await running.result(20), await newest.result(20)) == ("a", "e")
    assert seen.bursts == [["a"], ["e"]]


@pytest.mark.parametrize("busy", ["rollback", "latest"])
async def test_a_redelivered_webhook_does_not_come_back_to_life(app: InTurn, other: InTurn, busy: Any) -> None:
    seen = Seen()

    async def h(turn: Turn[Any]) -> str:
        seen.note(turn)
        return str(turn.body)

    for each in (app, other):
        each.handler("h", key="k", busy=busy)(h)
    old, new = await submit(app, "a"), await submit(app, "b")
    redelivered = await submit(other, "a")
    assert redelivered.status == "superseded"
    assert not redelivered.is_duplicate
    async with working(app):
        assert await new.result(20) == "b"
        again = await submit(other, "a")
        assert again.status == "superseded"
        await superseded(old, redelivered, again)
        assert (await submit(other, "b")).status == "duplicate"
        await (await submit(app, "c")).result(20)
    assert seen.bursts == [["b"], ["c"]]


async def test_what_was_superseded_may_come_again_after_the_duplicate_window(make_app: MakeApp) -> None:
    app, seen = make_app(store_timeout=OVER_S), Seen()
    await until_open(app)

    @app.handler("h", key="k", busy="latest", dedup_window=2 * OVER_S)
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)

    await submit(app, "a")
    newest = await submit(app, "b")
    async with working(app):
        await newest.result(20)

        async def is_accepted() -> bool:
            return (await submit(app, "a")).status == "accepted"

        await until(is_accepted)
        await until_status(app, "k", "idle")
    assert seen.bursts == [["b"], ["a"]]


async def test_rollback_supersedes_a_message_that_waits_for_its_retry(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="rollback", backoff=NOT_TODAY)
    async def h(turn: Turn[Any]) -> str:
        seen.note(turn)
        if turn.body == "a":
            raise ValueError("no")
        return str(turn.body)

    async with working(app):
        old = await submit(app, "a")
        await until_status(app, "k", "waiting")
        assert await (await submit(app, "b")).result(20) == "b"
        await superseded(old)


async def test_rollback_also_ends_after_three_in_a_row(app: InTurn) -> None:
    gates, seen = [Gate() for _ in range(6)], Seen()

    @app.handler("h", key="k", busy="rollback")
    async def h(turn: Turn[Any]) -> str:
        seen.note(turn)
        await gates[len(seen.turns) - 1].pass_through()
        return str(turn.body)

    async with working(app):
        receipts = [await submit(app, "a")]
        for number, text in enumerate("bcd"):
            await gates[number].reached.wait()
            receipts.append(await submit(app, text))
        await gates[3].reached.wait()
        last = await submit(app, "e")
        gates[3].opened.set()
        gates[4].opened.set()
        assert (await receipts[-1].result(20), await last.result(20)) == ("d", "e")
        await superseded(*receipts[:-1])
    assert seen.bursts == [["a"], ["b"], ["c"], ["d"], ["e"]]
