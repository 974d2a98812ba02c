"""The gap of a responder that asks "is there anything newer?" and then sends, and that `unless_newer` has none.

Three responders run under the same interleavings: `b` arrives at one given point of the turn that answers `a`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inturn import InTurn, Turn
from tests.lanes.conftest import apart, until, working
from tests.lanes.test_interrupting import submit
from tests.lanes.test_merge import bodies

At = Callable[[str], Awaitable[None]]
Responder = Callable[[Turn[list[str]]], Awaitable[None]]


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
            turn.sends.clear()
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
        await first.result(5)

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
