"""Steering that goes wrong: a turn that fails with what it took in, bad bodies among the new ones, lost turns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import BadMessage, HandlerFailed, InTurn, LeaseLost, Turn
from tests.conftest import MakeApp
from tests.lanes.workbench import Gate, Seen, apart, bodies, fates, results, submit, working
from tests.waiting import until_waiting


async def test_if_the_turn_fails_they_are_tried_again_together(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k", attempts=4, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> list[Any]:
        seen.note(turn)
        if turn.attempt == 1:
            await gate.pass_through()
            await turn.new_messages()
            raise ValueError("no")
        return bodies(turn)

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts.append(await submit(app, "b"))
        gate.opened.set()
        assert await results(receipts) == [["a", "b"]] * 2
    assert seen.turns == [(["a"], 1), (["a", "b"], 2)]


@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_a_bad_body_among_the_new_ones_spoils_only_its_own_message(
    app: InTurn, make_app: MakeApp, attempts: int
) -> None:
    older = make_app()
    older.handler("h", key="k", attempts=attempts)(lambda turn: None)
    gate = Gate()

    @app.handler("h", key="k", attempts=attempts, backoff=(0, 0), body=list)
    async def h(turn: Turn[Any]) -> list[Any]:
        if not gate.opened.is_set():
            await gate.pass_through()
        await turn.new_messages()
        return bodies(turn)

    async with working(app):
        first = await older.submit("h", ["a"])
        await gate.reached.wait()
        rest = [await older.submit("h", body) for body in (["b"], {"not": "a list"}, ["c"])]
        gate.opened.set()
        ended = await fates([first, *rest])
    assert ended[2] == "dead"
    assert "dead" not in (ended[0], ended[1], ended[3])
    (letter,) = await app.dead_letters.list()
    assert letter.body == {"not": "a list"}


async def test_a_bad_body_is_told_to_the_handler_that_asked(app: InTurn, make_app: MakeApp) -> None:
    older = make_app()
    older.handler("h", key="k")(lambda turn: None)
    gate = Gate()
    told: list[str] = []

    @app.handler("h", key="k", body=list, attempts=3, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> list[Any]:
        if not gate.opened.is_set():
            await gate.pass_through()
            try:
                await turn.new_messages()
            except BadMessage as error:
                told.append(str(error))
        return bodies(turn)

    async with working(app):
        first = await older.submit("h", ["a"])
        await gate.reached.wait()
        bad, good = await older.submit("h", {"not": "a list"}), await older.submit("h", ["b"])
        gate.opened.set()
        assert await first.result(20) == [["a"]], "it went on with what it had"
        assert await good.result(20) == [["b"]]
        with pytest.raises(HandlerFailed, match="does not fit"):
            await bad.result(20)
    assert "expected a list" in told[0]


async def test_a_turn_that_was_lost_takes_nothing(app: InTurn, other: InTurn) -> None:
    gate, refused = Gate(), asyncio.Event()

    async def h(turn: Turn[Any]) -> None:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            with pytest.raises(LeaseLost) as lost:
                await turn.new_messages()
            assert "was lost" in str(lost.value)
            refused.set()
            raise

    for each in (app, other):
        each.handler("h", key="k")(h)
    async with working(app):
        await submit(app, "a")
        await gate.reached.wait()
        await other.lanes.clear("k")
        await other.lanes.pause("k")
        await submit(other, "b")
        await until_waiting(other, "k", 1)
        await refused.wait()
        assert (await other.lanes.inspect("k")).waiting == 1


async def test_a_turn_that_is_over_takes_nothing(app: InTurn) -> None:
    kept: list[Turn[Any]] = []

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        kept.append(turn)

    async with working(app):
        await (await submit(app, "a")).result(20)
        with pytest.raises(RuntimeError, match="is over"):
            await kept[0].new_messages()


async def test_a_poisonous_message_that_steers_is_set_aside_although_new_ones_keep_coming(app: InTurn) -> None:
    """Every attempt takes in what came meanwhile, and fails with it. That must not give it one more each time."""
    tries = 0

    @app.handler("h", key="k", attempts=2, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> list[Any]:
        nonlocal tries
        if turn.body == "poison":
            tries += 1
            if tries < 12:
                await apart(submit(app, f"m{tries}"))
            await turn.new_messages()
            raise ValueError("no")
        return bodies(turn)

    async with working(app):
        poison = await submit(app, "poison")
        with pytest.raises(HandlerFailed):
            await poison.result(20)
    assert tries <= 4, "it has two attempts; one more by itself would be all right"
