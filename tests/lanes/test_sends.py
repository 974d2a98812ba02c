"""Sends: messages to other lanes, in the commit and never refused."""

from __future__ import annotations

from typing import Any

import pytest

from inturn import BadMessage, InTurn, Turn
from inturn.errors import UnknownHandler
from tests.lanes.workbench import Gate, counted, working
from tests.waiting import until, until_status

QUICK = (0.001, 0.01)


async def test_sends_arrive_in_order_in_the_lane_of_this_key_and_their_handler(app: InTurn) -> None:
    @app.handler("h", key="user:{user}")
    async def h(turn: Turn[Any]) -> None:
        for n in range(5):
            turn.send("out", {"n": n})
        turn.send("out", "elsewhere", key="other")

    @app.handler("out", state=list)
    async def out(turn: Turn[list[Any]]) -> None:
        turn.state.append(turn.body)

    before = counted("inturn_sends_total")
    async with working(app):
        await (await app.submit("h", {"user": 1})).result(20)
        await until_status(app, "user:1>out", "idle")
        await until_status(app, "other", "idle")
    assert (await app.lanes.inspect("user:1>out")).state == [{"n": n} for n in range(5)]
    assert (await app.lanes.inspect("other")).state == ["elsewhere"]
    assert counted("inturn_sends_total") == before + 6


async def test_a_send_is_in_the_commit_and_not_before(app: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        turn.send("out", 1)
        await gate.pass_through()

    @app.handler("out")
    async def out(turn: Turn[Any]) -> None: ...

    async with working(app):
        receipt = await app.submit("h", 1)
        await gate.reached.wait()
        assert (await app.lanes.inspect("k>out")).status == "idle"
        await app.lanes.pause("k>out")
        gate.opened.set()
        await receipt.result(20)
        assert (await app.lanes.inspect("k>out")).waiting == 1


async def test_a_send_is_never_refused(app: InTurn) -> None:
    """Not by a full mailbox, not by a stopped lane, not by the policy of its handler."""

    @app.handler("out", key="out", max_waiting=1, busy="reject")
    async def out(turn: Turn[Any]) -> None: ...

    await app.submit("out", 0)
    await app.lanes.pause("out")
    async with app.turn("k") as turn:
        for n in (1, 2):
            turn.send("out", n, key="out")
    info = await app.lanes.inspect("out")
    assert (info.status, [message.body for message in info.messages]) == ("paused", [0, 1, 2])


async def test_a_send_with_an_id_that_was_there_before_is_not_sent_twice(app: InTurn) -> None:
    @app.handler("out", key="out", message_id="{id}", state=list)
    async def out(turn: Turn[list[Any]]) -> None:
        turn.state.append(turn.body["id"])

    for _ in range(2):
        async with app.turn("k") as turn:
            turn.send("out", {"id": 1}, key="out")
            turn.send("out", {"id": 2}, key="out")
    async with working(app):
        await until_status(app, "out", "idle")
        async with app.turn("k") as turn:
            turn.send("out", {"id": 1}, key="out")
            turn.send("out", {"id": 3}, key="out")
        await until_status(app, "out", "idle")
    assert (await app.lanes.inspect("out")).state == [1, 2, 3]


async def test_a_turn_may_send_to_its_own_lane(app: InTurn) -> None:
    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)
        if turn.body < 5:
            turn.send("h", turn.body + 1, key="k")

    async with working(app):
        await app.submit("h", 1)

        async def all_done() -> bool:
            return bool((await app.lanes.inspect("k")).state == [1, 2, 3, 4, 5])

        await until(all_done)
        await until_status(app, "k", "idle")


async def test_what_cannot_be_sent_raises_in_the_turn(app: InTurn) -> None:
    @app.handler("out", key="out:{user}")
    async def out(turn: Turn[Any]) -> None: ...

    async with app.turn("k") as turn:
        with pytest.raises(UnknownHandler, match="'nope'"):
            turn.send("nope", 1)
        with pytest.raises(BadMessage, match="the body cannot be written"):
            turn.send("out", object())
        with pytest.raises(BadMessage, match="key='a>b'"):
            turn.send("out", 1, key="a>b")
        with pytest.raises(TypeError, match=r"message_id=1\.5"):
            turn.send("out", 1, message_id=1.5)
    assert await app.lanes.list() == []


async def test_a_turn_may_send_a_thousand_messages(app: InTurn) -> None:
    @app.handler("out", state=list)
    async def out(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)

    async with app.turn("k") as turn:
        for n in range(1000):
            turn.send("out", n)
    assert (await app.lanes.inspect("k>out")).waiting == 1000
    async with working(app):
        await until_status(app, "k>out", "idle", within_s=40)
    assert (await app.lanes.inspect("k>out")).state == list(range(1000))


def note(app: InTurn) -> None:
    @app.handler("note")
    async def note(turn: Turn[Any]) -> None: ...


async def test_a_send_of_a_turn_that_is_over_is_refused(app: InTurn) -> None:
    note(app)
    async with app.turn("k") as turn:
        turn.send("note", 1)
    with pytest.raises(RuntimeError, match="turn of lane 'k' is over"):
        turn.send("note", 2)
    assert (await app.lanes.inspect("k>note")).waiting == 1


async def test_the_longest_key_has_room_for_the_lane_of_its_sends(app: InTurn) -> None:
    seen: list[str] = []

    @app.handler("h", key="{k}")
    async def h(turn: Turn[Any]) -> None:
        turn.send("o" * 64, 1)

    @app.handler("o" * 64)
    async def out(turn: Turn[Any]) -> None:
        seen.append(turn.key)
        if len(seen) < 7:
            turn.send("o" * 64, 1)

    key = "k" * 512
    lane = key + f">{'o' * 64}" * 7
    async with working(app):
        await (await app.submit("h", {"k": key})).result(20)
        await until(lambda: len(seen) == 7)
        await until_status(app, lane, "idle")
    assert seen[-1] == lane
    await app.lanes.pause(lane)
    assert (await app.lanes.inspect(lane)).status == "paused"
    assert await app.lanes.resume(lane)
    with pytest.raises(ValueError, match=r"key='k{40}…': is 513 bytes long; at most 512 are allowed"):
        await app.submit("h", {"k": key + "k"})


async def test_a_lane_of_sends_whose_key_would_be_too_long_is_refused_and_nothing_is_sent(app: InTurn) -> None:
    """After seven sends of sends, with the longest names; it is told to name a lane."""
    longest = "o" * 64
    note(app)

    @app.handler(longest, on_failure="skip")
    async def out(turn: Turn[Any]) -> None:
        turn.send("note", 1, key="notes")
        turn.send(longest, 1)

    async with app.turn("k" * 512) as turn:
        turn.send(longest, 1)
    await app.lanes.pause("notes")
    async with working(app):
        await until(app.dead_letters.list)
    (letter,) = await app.dead_letters.list()
    assert letter.key == "k" * 512 + f">{longest}" * 7
    said = "'<this key>><handler>', would be 1032 bytes long; at most 1024 are allowed: name a shorter one with key="
    assert said in letter.errors[-1]["message"]
    assert (await app.lanes.inspect("notes")).waiting == 6
