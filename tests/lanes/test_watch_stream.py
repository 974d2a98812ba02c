"""`turn.stream` and `app.watch`: chunks reach whoever watches the lane, in any process, and slow nobody."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from inturn import BadMessage, InTurn, Turn
from inturn.errors import TooLarge
from tests.conftest import MakeApp
from tests.lanes.workbench import Gate, add_talker, bodies, events_until, submit, told, working

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


async def test_chunks_reach_watchers_in_this_and_in_another_process(app: InTurn, other: InTurn) -> None:
    add_talker(app)
    async with app.watch("k") as here, other.watch("k") as there, other.watch("another") as elsewhere, working(app):
        await (await submit(app, "a")).result(20)
        for watch in (here, there):
            begin, *chunks, commit = await events_until(watch)
            assert (begin.what, begin.handler, begin.id, begin.attempt) == ("begin", "h", "a", 1)
            assert [(chunk.what, chunk.number, chunk.data) for chunk in chunks] == [
                ("chunk", number, {"text": f"a{number}"}) for number in (1, 2, 3)
            ]
            assert (commit.what, commit.handler, commit.id) == ("commit", "h", "a")
            assert {event.fence for event in (begin, *chunks, commit)} == {watch.fence}
            assert {event.key for event in (begin, *chunks, commit)} == {"k"}
        with pytest.raises(TimeoutError):
            await events_until(elsewhere, within_s=0.05)


async def test_every_turn_begins_anew_under_a_larger_fence(app: InTurn, other: InTurn) -> None:
    add_talker(app, 2)
    async with other.watch("k") as watch, working(app):
        for text in "ab":
            await (await submit(app, text)).result(20)
        first, second = await events_until(watch), await events_until(watch)
    assert second[0].fence > first[0].fence
    assert [event.number for event in second if event.what == "chunk"] == [1, 2]
    assert told(second) == ["begin", {"text": "b1"}, {"text": "b2"}, "commit"]


async def test_who_comes_late_gets_a_begin_all_the_same(app: InTurn, other: InTurn, make_app: MakeApp) -> None:
    gate, again, third = Gate(), Gate(), make_app()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        turn.stream("before")
        await gate.pass_through()
        turn.stream("after")
        await again.pass_through()

    async with third.watch("k") as earlier, working(app):
        receipt = await submit(app, "a")
        # another process has heard it, so it is in the store; its own process may hear it before that
        await events_until(earlier, "chunk")
        async with other.watch("k") as watch:
            gate.opened.set()
            begin, chunk = await events_until(watch, "chunk")
            assert (begin.what, begin.fence) == ("begin", chunk.fence)
            assert (chunk.data, chunk.number) == ("after", 2)
        again.opened.set()
        await receipt.result(20)


async def test_what_an_interrupted_turn_still_streams_is_dropped(app: InTurn, other: InTurn) -> None:
    """A handler that swallows its cancellation talks on, after the next turn has begun."""
    first, second, talked = Gate(), Gate(), asyncio.Event()

    @app.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> None:
        if len(turn.messages) == 1:
            turn.stream("old")
            try:
                await first.pass_through()
            except asyncio.CancelledError:
                await second.reached.wait()
            for _ in range(3):
                turn.stream("zombie")
            talked.set()
        else:
            turn.stream("new")
            await second.pass_through()
            turn.stream("newer")

    async with other.watch("k") as watch, working(app):
        receipts = [await submit(app, "a")]
        await first.reached.wait()
        receipts.append(await submit(app, "b"))
        await talked.wait()
        second.opened.set()
        for receipt in receipts:
            await receipt.result(20)
        seen = await events_until(watch) + await events_until(watch)
    assert told(seen) == ["begin", "old", "interrupt", "begin", "new", "newer", "commit"]
    assert (seen[2].handler, seen[2].id) == ("h", "b"), "who interrupted it"
    assert seen[0].fence == seen[2].fence < seen[3].fence


async def test_failures_losses_and_hand_backs_are_seen(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", attempts=2, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> None:
        if turn.body == "fails" and turn.attempt == 1:
            raise ValueError("not yet")
        if turn.body == "waits":
            await gate.pass_through()

    async with other.watch("k") as watch:
        async with working(app, grace=0):
            await (await submit(app, "fails")).result(20)
            begin, fail = await events_until(watch)
            assert (begin.attempt, fail.what) == (1, "fail")
            assert "ValueError: not yet" in fail.why
            assert [(event.what, event.attempt) for event in await events_until(watch)] == [("begin", 2), ("commit", 0)]
            await submit(app, "waits")
            await gate.reached.wait()
        assert told(await events_until(watch)) == ["begin", "back"]
        gate.reached.clear()
        async with working(app, grace=0):
            await gate.reached.wait()
            await other.lanes.clear("k")
            assert told(await events_until(watch)) == ["begin", "lost"]


async def test_inline_turns_and_sends_can_be_watched_too(app: InTurn, other: InTurn) -> None:
    @app.handler("out")
    async def out(turn: Turn[Any]) -> None:
        turn.stream("delivering")

    async with other.watch("k") as watch, other.watch("k>out") as sends, working(app):
        async with app.turn("k", message_id="m1") as turn:
            turn.stream("inline")
            turn.send("out", 1)
        begin, chunk, commit = await events_until(watch)
        assert (begin.handler, begin.id, chunk.data, commit.id) == ("", "m1", "inline", "m1")
        assert told(await events_until(sends)) == ["begin", "delivering", "commit"]


async def test_a_plain_function_streams_from_its_thread(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k")
    def h(turn: Turn[Any]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        for number in range(5):
            turn.stream(number)

    async with other.watch("k") as watch, working(app):
        await (await submit(app, "a")).result(20)
        assert told(await events_until(watch)) == ["begin", 0, 1, 2, 3, 4, "commit"]


async def test_what_a_handler_run_again_streams_begins_again(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", unless_newer=True)
    async def h(turn: Turn[Any]) -> None:
        turn.stream("+".join(bodies(turn)))
        await gate.pass_through()

    async with other.watch("k") as watch, working(app):
        await submit(app, "a")
        await gate.reached.wait()
        last = await submit(app, "b")
        gate.opened.set()
        await last.result(20)
        seen = await events_until(watch)
    assert told(seen) == ["begin", "a", "begin", "a+b", "commit"]
    assert len({event.fence for event in seen}) == 1
    assert [event.number for event in seen if event.what == "chunk"] == [1, 1]


@pytest.mark.parametrize(("chunk", "error"), [("x" * 70_000, TooLarge), (object(), BadMessage), (ENDLESS, BadMessage)])
async def test_a_chunk_that_cannot_be_sent_is_refused_and_the_turn_goes_on(
    app: InTurn, chunk: Any, error: type[Exception]
) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> str:
        with pytest.raises(error, match="the chunk"):
            turn.stream(chunk)
        turn.stream("fine")
        return "committed"

    async with app.watch("k") as watch, working(app):
        assert await (await submit(app, "a")).result(20) == "committed"
        assert told(await events_until(watch)) == ["begin", "fine", "commit"]


@pytest.mark.parametrize("key", ["", 5, None, "a\0b"])
async def test_a_key_that_is_none_is_refused(app: InTurn, key: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^key="):
        app.watch(key)


async def test_what_an_interrupted_body_streams_before_the_next_turn_begins_is_dropped(
    app: InTurn, other: InTurn
) -> None:
    """No newer turn has begun yet: that the old one has ended is enough."""
    first = Gate()
    listening = asyncio.Event()

    @app.handler("h", key="k", busy="interrupt")
    async def h(turn: Turn[Any]) -> None:
        if len(turn.messages) > 1:
            turn.stream("new")
            return
        turn.stream("old")
        try:
            await first.pass_through()
        except asyncio.CancelledError:
            await listening.wait()
            for _ in range(3):
                turn.stream("zombie")
            raise

    async with other.watch("k") as watch, working(app):
        await submit(app, "a")
        await first.reached.wait()
        receipt = await submit(app, "b")
        seen = await events_until(watch, "interrupt")
        listening.set()
        await receipt.result(20)
        seen += await events_until(watch, "commit")
    assert told(seen) == ["begin", "old", "interrupt", "begin", "new", "commit"]
