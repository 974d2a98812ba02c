"""Commit unless newer: a commit that is refused, atomically, while newer messages wait, and hands them over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inturn import InTurn, LeaseLost, Turn
from inturn.lanes.turn import MAX_REFUSALS
from tests.lanes.workbench import Gate, Seen, apart, bodies, counted, results, submit, texts, working
from tests.waiting import until, until_status

At = Callable[[str], Awaitable[None]]
Responder = Callable[[Turn[list[str]]], Awaitable[None]]


async def test_an_explicit_commit_is_refused_while_newer_messages_wait_and_hands_them_over(app: InTurn) -> None:
    gate, refused = Gate(), []
    before = counted("inturn_turns_total", outcome="newer")

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[str]]) -> None:
        await gate.pass_through()
        while newer := await turn.commit(bodies(turn), unless_newer=True):
            refused.append(texts(newer))
            assert (await app.lanes.inspect("k")).state is None, "nothing of it is real"
            turn.state[:] = bodies(turn)

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts += [await submit(app, "b"), await submit(app, "c")]
        gate.opened.set()
        assert await results(receipts) == [["a", "b", "c"]] * 3
    assert refused == [["b", "c"]]
    assert (await app.lanes.inspect("k")).state == ["a", "b", "c"]
    assert counted("inturn_turns_total", outcome="newer") == before + 1


async def test_what_a_refused_run_wanted_told_is_not_told(app: InTurn) -> None:
    gate, told = Gate(), []

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[str]]) -> str:
        await gate.pass_through()
        seen, turn._is_unmarked = bodies(turn), len(turn.messages) == 1
        turn._after_commit.append(lambda: told.append(seen))
        if await turn.commit("early", unless_newer=True):
            seen_now = bodies(turn)
            assert not turn._is_unmarked
            turn._after_commit.append(lambda: told.append(seen_now))
        return "done"

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts.append(await submit(app, "b"))
        gate.opened.set()
        assert await results(receipts) == ["done"] * 2
    assert told == [["a", "b"]]


async def test_with_nothing_newer_it_commits_at_once_and_the_turn_is_over(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    @app.handler("out")
    async def out(turn: Turn[Any]) -> None: ...

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[str]]) -> str:
        turn.state.append("committed")
        turn.send("out", "before")
        assert await turn.commit("early", unless_newer=True) == []
        assert turn._is_over
        turn.state.append("never")
        with pytest.raises(RuntimeError, match="it can no longer stream"):
            turn.stream("x")
        with pytest.raises(RuntimeError, match="it can no longer send"):
            turn.send("out", "x")
        for late in (turn.commit, turn.new_messages):
            with pytest.raises(RuntimeError, match="is over"):
                await late()
        await gate.pass_through()
        return "never"

    async with working(app):
        receipt = await submit(app, "a")
        assert await receipt.result(20) == "early", "it does not wait for the handler's end"
        info = await other.lanes.inspect("k")
        assert (info.status, info.state) == ("idle", ["committed"])
        await gate.reached.wait()
        gate.opened.set()
    assert (await other.lanes.inspect("k")).state == ["committed"]


async def test_the_next_message_does_not_wait_for_a_handler_that_has_committed(app: InTurn) -> None:
    gate, seen = Gate(), Seen()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        seen.note(turn)
        if turn.body == "a":
            await turn.commit("first")
            await gate.pass_through()

    async with working(app):
        first, second = await submit(app, "a"), await submit(app, "b")
        assert await first.result(20) == "first"
        assert await second.result(20) is None
        gate.opened.set()
    assert seen.bursts == [["a"], ["b"]]


async def test_an_error_after_an_explicit_commit_is_logged_and_changes_nothing(
    app: InTurn, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()

    @app.handler("h", key="k", state=list, backoff=(0, 0))
    async def h(turn: Turn[list[str]]) -> None:
        seen.note(turn)
        turn.state.append(turn.body)
        await turn.commit("committed")
        raise ValueError("too late")

    async with working(app):
        assert await (await submit(app, "a")).result(20) == "committed"
        assert await (await submit(app, "b")).result(20) == "committed"
        await until_status(app, "k", "idle")
    assert seen.turns == [(["a"], 1), (["b"], 1)]
    assert (await app.lanes.inspect("k")).state == ["a", "b"]
    assert await app.dead_letters.list() == []
    assert "raised after it had committed" in caplog.text


async def test_a_plain_commit_does_not_look_for_newer_ones(app: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        await gate.pass_through()
        assert await turn.commit(bodies(turn)) == []

    async with working(app):
        first = await submit(app, "a")
        await gate.reached.wait()
        second = await submit(app, "b")
        gate.opened.set()
        assert await results([first, second]) == [["a"], ["b"]]


async def test_a_commit_gives_way_three_times_and_then_is_made(app: InTurn) -> None:
    """Someone types on and on."""
    number = 0
    refused: list[list[Any]] = []

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        nonlocal number
        while True:
            number += 1
            await apart(submit(app, f"m{number}"))
            newer = await turn.commit(bodies(turn), unless_newer=True)
            if not newer:
                return
            refused.append(texts(newer))

    await app.lanes.pause("k")
    first = await submit(app, "a")
    async with working(app):
        await app.lanes.resume("k")
        assert await first.result(20) == ["a", "m1", "m2", "m3"]
    assert refused[:MAX_REFUSALS] == [["m1"], ["m2"], ["m3"]]


async def test_as_an_option_the_handler_runs_again_over_all_of_them_from_the_state_as_it_was(app: InTurn) -> None:
    gate, seen = Gate(), Seen()
    delivered: list[Any] = []

    @app.handler("out")
    async def out(turn: Turn[Any]) -> None:
        delivered.append(turn.body)

    @app.handler("h", key="k", unless_newer=True, state=list)
    async def h(turn: Turn[list[str]]) -> str:
        burst = seen.note(turn)
        assert turn.state == []
        turn.state += burst
        turn.send("out", "+".join(burst))
        await gate.pass_through()
        return "+".join(burst)

    async with working(app):
        receipts = [await submit(app, "a")]
        await gate.reached.wait()
        receipts.append(await submit(app, "b"))
        gate.opened.set()
        assert await results(receipts) == ["a+b"] * 2
        await until_status(app, "k>out", "idle")
    assert seen.turns == [(["a"], 1), (["a", "b"], 1)]
    assert delivered == ["a+b"]
    info = await app.lanes.inspect("k")
    assert (info.state, info.version) == (["a", "b"], 1)


async def test_as_an_option_it_gives_way_three_times_too(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", unless_newer=True)
    async def h(turn: Turn[Any]) -> list[Any]:
        burst = seen.note(turn)
        if len(seen.turns) < 6:
            await apart(submit(app, f"m{len(seen.turns)}"))
        return burst

    async with working(app):
        first = await submit(app, "a")
        assert await first.result(20) == ["a", "m1", "m2", "m3"]
        await until_status(app, "k", "idle")
    assert seen.bursts[:4] == [["a"], ["a", "m1"], ["a", "m1", "m2"], ["a", "m1", "m2", "m3"]]
    assert seen.bursts[4][0] == "m4", "a new turn gives way anew"


async def test_a_commit_of_a_lost_turn_is_refused(app: InTurn, other: InTurn) -> None:
    gate, ended = Gate(), asyncio.Event()

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[str]]) -> None:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            with pytest.raises(LeaseLost):
                await turn.commit("zombie", unless_newer=True)
            assert not turn._is_over
            ended.set()
            raise

    async with working(app):
        await submit(app, "a")
        await gate.reached.wait()
        await other.lanes.clear("k")
        await ended.wait()
    assert (await other.lanes.inspect("k")).state is None


async def test_what_cannot_be_written_is_refused_and_the_turn_goes_on(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> str:
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            await turn.commit(object())
        return "mended"

    async with working(app):
        assert await (await submit(app, "a")).result(20) == "mended"


def check_then_send(app: InTurn, at: At) -> Responder:
    async def answer(turn: Turn[list[str]]) -> None:
        turn.state += bodies(turn)
        await at("thinking")
        if (await app.lanes.inspect("k")).waiting:
            return  # the turn of the newer one answers this one too
        await at("gap")
        turn.send("out", list(turn.state))
        turn.state.clear()

    return answer


def explicit(app: InTurn, at: At) -> Responder:
    async def answer(turn: Turn[list[str]]) -> None:
        while True:
            await at("thinking")
            turn._sends.clear()
            turn.send("out", bodies(turn))
            await at("gap")
            if not await turn.commit(unless_newer=True):
                return

    return answer


def by_option(app: InTurn, at: At) -> Responder:
    async def answer(turn: Turn[list[str]]) -> None:
        await at("thinking")
        turn.send("out", bodies(turn))
        await at("gap")

    return answer


async def delivered_when_b_arrives(app: InTurn, make: Callable[[InTurn, At], Responder], point: str) -> list[list[str]]:
    delivered: list[list[str]] = []
    arrived: list[Any] = []

    async def at(here: str) -> None:
        if here == point and not arrived:
            arrived.append(None)
            arrived[0] = await apart(submit(app, "b", "answer"))

    @app.handler("out")
    async def out(turn: Turn[Any]) -> None:
        delivered.append(turn.body)
        await at("sent")

    app.handler("answer", key="k", state=list, unless_newer=make is by_option)(make(app, at))
    async with working(app):
        first = await app.submit("answer", "a", message_id="a")
        await first.result(20)

        async def all_is_answered() -> bool:
            return "b" in [text for answer in delivered for text in answer]

        await until(all_is_answered)
    return delivered


@pytest.mark.parametrize(
    ("make", "point", "answers"),
    [
        (check_then_send, "thinking", [["a", "b"]]),
        (check_then_send, "gap", [["a"], ["b"]]),
        (check_then_send, "sent", [["a"], ["b"]]),
        (explicit, "thinking", [["a", "b"]]),
        (explicit, "gap", [["a", "b"]]),
        (explicit, "sent", [["a"], ["b"]]),
        (by_option, "thinking", [["a", "b"]]),
        (by_option, "gap", [["a", "b"]]),
        (by_option, "sent", [["a"], ["b"]]),
    ],
)
async def test_the_gap_between_a_check_and_a_send_is_closed(
    app: InTurn, make: Callable[[InTurn, At], Responder], point: str, answers: list[list[str]]
) -> None:
    delivered = await delivered_when_b_arrives(app, make, point)
    assert delivered == answers
    is_stale = point != "sent" and delivered[0] == ["a"]
    assert is_stale == (make is check_then_send and point == "gap")
