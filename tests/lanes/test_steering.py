"""`turn.new_messages()`: a handler takes what arrived meanwhile into its turn; nothing of it is lost on any way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import InTurn, Stop, Turn
from tests.lanes.workbench import NOT_TODAY, Gate, Seen, apart, bodies, fates, results, submit, texts, working
from tests.waiting import until_status


async def test_the_new_messages_are_answered_and_committed_with_this_turn(app: InTurn, other: InTurn) -> None:
    gate, seen = Gate(), Seen()
    taken: list[list[Any]] = []

    async def h(turn: Turn[list[str]]) -> list[Any]:
        seen.note(turn)
        await gate.pass_through()
        for _ in range(2):
            new = await turn.new_messages()
            taken.append(texts(new))
        turn.state += bodies(turn)
        assert all(message.waited_s >= 0 for message in turn.messages)
        return bodies(turn)

    for each in (app, other):
        each.handler("h", key="k", state=list)(h)
    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts += [await submit(app, "b"), await submit(other, "c")]
        gate.opened.set()
        assert await results(receipts) == [["a", "b", "c"]] * 3
        assert [receipt.status for receipt in [await submit(other, text) for text in "abc"]] == ["duplicate"] * 3
    assert taken == [["b", "c"], []]
    assert seen.bursts == [["a"]]
    info = await app.lanes.inspect("k")
    assert (info.state, info.version, info.waiting) == (["a", "b", "c"], 1, 0)


async def test_messages_of_other_handlers_are_not_taken(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> list[Any]:
        seen.note(turn)
        await gate.pass_through()
        return texts(await turn.new_messages())

    @app.handler("other", key="k")
    async def other(turn: Turn[Any]) -> None:
        seen.note(turn)

    async with working(app):
        first = await submit(app, "a")
        await gate.reached.wait()
        foreign, own = await submit(app, "x", "other"), await submit(app, "b")
        gate.opened.set()
        assert await results([first, own]) == [["b"]] * 2
        await foreign.result(20)
    assert seen.bursts == [["a"], ["x"]]


async def test_calls_side_by_side_answer_every_message_once(app: InTurn) -> None:
    gate = Gate()
    answers: list[list[Any]] = []

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> list[Any]:
        await gate.pass_through()
        answers.extend(texts(new) for new in await asyncio.gather(*(turn.new_messages() for _ in range(5))))
        return bodies(turn)

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts += [await submit(app, text) for text in "bcd"]
        gate.opened.set()
        assert await results(receipts) == [["a", "b", "c", "d"]] * 4
    assert sorted(text for answer in answers for text in answer) == ["b", "c", "d"]


async def steer_and_hear_nothing(turn: Turn[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has done it, and whoever asked is cancelled before the answer arrives."""
    store, is_done = turn._runtime.process.store, asyncio.Event()
    steer = store.steer

    async def steer_with_a_slow_answer(*arguments: Any) -> Any:
        await steer(*arguments)
        is_done.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(store, "steer", steer_with_a_slow_answer)
        asking = asyncio.create_task(turn.new_messages())
        await is_done.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_what_a_cancelled_call_took_and_nobody_saw_goes_back_to_the_mailbox(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, told = Gate(), Gate()
    seen = Seen()

    async def h(turn: Turn[Any]) -> list[Any]:
        burst = seen.note(turn)
        if burst == ["a"]:
            await gate.pass_through()
            await steer_and_hear_nothing(turn, monkeypatch)
            await told.pass_through()
        return bodies(turn)

    for each in (app, other):
        each.handler("h", key="k")(h)
    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts += [await submit(app, "b"), await submit(app, "c")]
        gate.opened.set()
        await told.reached.wait()
        assert (await other.lanes.inspect("k")).waiting == 0, "the store has given them to the turn"
        told.opened.set()
        assert await results(receipts) == [["a"], ["b"], ["c"]]
    assert seen.bursts == [["a"], ["b"], ["c"]]


async def test_a_call_inside_of_a_timeout_loses_nothing_either(app: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[Any]]) -> list[Any]:
        await gate.pass_through()
        for limit_s in (0, 0.0001, 0.001):
            try:
                async with asyncio.timeout(limit_s):
                    await turn.new_messages()
            except TimeoutError:
                continue
        turn.state += bodies(turn)
        return bodies(turn)

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts += [await submit(app, text) for text in "bcd"]
        gate.opened.set()
        for receipt, text in zip(receipts, "abcd", strict=True):
            assert text in await receipt.result(20)
    assert sorted((await app.lanes.inspect("k")).state) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("how", ["stop", "skip", "one attempt"])
async def test_what_nobody_saw_does_not_die_with_the_turn(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The turn fails for good, with messages that only the store knows to be in it."""
    gate = Gate()
    ways: dict[str, dict[str, Any]] = {"skip": {"on_failure": "skip"}, "one attempt": {"attempts": 1}}

    async def h(turn: Turn[Any]) -> list[Any]:
        if bodies(turn) == ["a"]:
            await gate.pass_through()
            await steer_and_hear_nothing(turn, monkeypatch)
            raise Stop("no") if how == "stop" else ValueError("no")
        return bodies(turn)

    for each in (app, other):
        each.handler("h", key="k", **ways.get(how, {}))(h)
    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts += [await submit(app, "b"), await submit(app, "c")]
        gate.opened.set()
        assert await fates(receipts) == ["dead", ["b"], ["c"]]
    assert [letter.id for letter in await app.dead_letters.list()] == ["a"]


async def test_delayed_and_retried_messages_are_not_new(app: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", backoff=NOT_TODAY)
    async def h(turn: Turn[Any]) -> list[Any]:
        if turn.body == "fails":
            raise ValueError("no")
        await gate.pass_through()
        return texts(await turn.new_messages())

    async with working(app):
        await submit(app, "fails")
        await until_status(app, "k", "waiting")
        first = await submit(app, "a", priority=1)
        await gate.reached.wait()
        await apart(submit(app, "later", delay=60))
        second = await submit(app, "b", priority=1)
        gate.opened.set()
        assert await results([first, second]) == [["b"]] * 2
        assert [message.id for message in (await app.lanes.inspect("k")).messages] == ["fails"]
