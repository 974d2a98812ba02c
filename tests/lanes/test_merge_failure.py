"""A burst that fails: retried as it is, then message by message, so that only the poisonous one is set aside."""

from __future__ import annotations

import asyncio
from typing import Any

from inturn import InTurn, Retry, Stop, Turn
from inturn.errors import Apart
from inturn.store import clock
from tests.conftest import MakeApp
from tests.lanes.workbench import Gate, Seen, bodies, fates, results, submitted, working
from tests.waiting import until, until_status, until_waiting


async def test_a_failed_burst_is_retried_as_the_same_burst_and_nothing_joins_it(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", attempts=5, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> list[str]:
        burst = seen.note(turn)
        if turn.attempt < 3 and "a" in burst:
            if turn.attempt == 1:
                await submitted(app, "late")
            raise ValueError("not yet")
        return burst

    receipts = await submitted(app, "a", "b", "c")
    async with working(app):
        assert await results(receipts) == [["a", "b", "c"]] * 3
        (late,) = await submitted(app, "late")
        assert await late.result(20) == ["late"]
    assert seen.turns == [(["a", "b", "c"], 1), (["a", "b", "c"], 2), (["a", "b", "c"], 3), (["late"], 1)]


async def test_the_last_attempt_goes_message_by_message_and_only_the_poisonous_one_is_set_aside(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", attempts=3, backoff=(0, 0), state=list)
    async def h(turn: Turn[list[str]]) -> str:
        burst = seen.note(turn)
        turn.state += burst
        if "poison" in burst:
            raise ValueError("no")
        return "+".join(burst)

    receipts = await submitted(app, "a", "poison", "b")
    after = await submitted(app, "after")
    async with working(app):
        assert await fates(receipts) == ["a", "dead", "b"], "the others' results are their own"
        assert await fates(after) == ["after"]
    assert seen.turns[:2] == [(["a", "poison", "b", "after"], 1), (["a", "poison", "b", "after"], 2)]
    assert seen.turns[2:] == [(["a"], 3), (["poison"], 3), (["b"], 3), (["after"], 3)]
    (letter,) = await app.dead_letters.list()
    assert (letter.id, letter.body) == ("poison", "poison")
    assert [error["message"] for error in letter.errors] == ["no"] * 3
    assert (await app.lanes.inspect("k")).state == ["a", "b", "after"]


async def test_with_one_attempt_every_message_of_a_failed_burst_has_it_by_itself(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", attempts=1)
    async def h(turn: Turn[Any]) -> str:
        burst = seen.note(turn)
        if "poison" in burst:
            raise ValueError("no")
        return burst[0]

    receipts = await submitted(app, "a", "b", "poison")
    async with working(app):
        assert await fates(receipts) == ["a", "b", "dead"]
    assert seen.bursts == [["a", "b", "poison"], ["a"], ["b"], ["poison"]]


async def test_skip_sets_aside_only_the_one_at_fault(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", attempts=5, on_failure="skip")
    async def h(turn: Turn[Any]) -> str:
        burst = seen.note(turn)
        if "poison" in burst:
            raise ValueError("no")
        return burst[0]

    receipts = await submitted(app, "a", "poison", "b")
    async with working(app):
        assert await fates(receipts) == ["a", "dead", "b"]
    assert seen.bursts == [["a", "poison", "b"], ["a"], ["poison"], ["b"]]


async def test_park_stops_the_lane_at_the_one_at_fault_and_goes_on_when_it_is_resumed(app: InTurn) -> None:
    seen, is_mended = Seen(), asyncio.Event()

    @app.handler("h", key="k", busy="merge", attempts=2, backoff=(0, 0), on_failure="park")
    async def h(turn: Turn[Any]) -> str:
        burst = seen.note(turn)
        if "poison" in burst and not is_mended.is_set():
            raise ValueError("no")
        return burst[0]

    receipts = await submitted(app, "a", "poison", "b")
    async with working(app):
        assert await receipts[0].result(20) == "a"
        info = await until_status(app, "k", "parked")
        assert info.messages[0].id == "poison"
        assert "ValueError: no" in info.why
        is_mended.set()
        await app.lanes.resume("k")
        assert await fates(receipts) == ["a", "poison", "b"]
    assert seen.bursts == [["a", "poison", "b"], ["a"], ["poison"], ["poison"], ["b"]]
    assert await app.dead_letters.list() == []


async def test_stop_on_a_burst_gives_every_message_one_more_attempt_by_itself(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", attempts=5, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> str:
        burst = seen.note(turn)
        if "poison" in burst:
            raise Stop("never")
        return burst[0]

    receipts = await submitted(app, "poison", "a")
    async with working(app):
        assert await fates(receipts) == ["dead", "a"]
    assert seen.bursts == [["poison", "a"], ["poison"], ["a"]]


async def test_retry_on_a_burst_waits_as_it_says_and_keeps_the_burst(app: InTurn) -> None:
    seen = Seen()
    began: list[float] = []

    @app.handler("h", key="k", busy="merge", attempts=5)
    async def h(turn: Turn[Any]) -> int:
        began.append(clock.now())
        seen.note(turn)
        if turn.attempt == 1:
            raise Retry("soon", after=0.2)
        return turn.attempt

    receipts = await submitted(app, "a", "b")
    async with working(app):
        assert await results(receipts) == [2, 2]
    assert seen.bursts == [["a", "b"]] * 2
    assert began[1] - began[0] >= 0.19


async def test_a_dead_letter_of_a_burst_is_replayed_by_itself(app: InTurn) -> None:
    is_mended = asyncio.Event()

    @app.handler("h", key="k", busy="merge", attempts=1)
    async def h(turn: Turn[Any]) -> str:
        if "poison" in bodies(turn) and not is_mended.is_set():
            raise ValueError("no")
        return "+".join(bodies(turn))

    receipts = await submitted(app, "a", "poison", "b")
    async with working(app):
        assert await fates(receipts) == ["a", "dead", "b"]
        is_mended.set()
        assert await app.dead_letters.replay("k", "h", "poison")
        assert await receipts[1].result(20) == "poison"


async def test_a_body_that_does_not_fit_spoils_only_its_own_message(app: InTurn, make_app: MakeApp) -> None:
    """It was written by code that knew another shape."""
    older = make_app()
    older.handler("h", key="k", busy="merge", attempts=3, backoff=(0, 0))(lambda turn: None)
    receipts = [await older.submit("h", body) for body in ([1], {"not": "a list"}, [2])]

    @app.handler("h", key="k", busy="merge", attempts=3, backoff=(0, 0), body=list)
    async def h(turn: Turn[Any]) -> list[Any]:
        return bodies(turn)

    async with working(app):
        assert await fates(receipts) == [[[1]], "dead", [[2]]]


async def test_a_worker_that_stops_hands_a_burst_back_untouched(app: InTurn, other: InTurn) -> None:
    seen, gate = Seen(), Gate()

    async def h(turn: Turn[Any]) -> list[str]:
        burst = seen.note(turn)
        await gate.pass_through()
        return burst

    for each in (app, other):
        each.handler("h", key="k", busy="merge", attempts=1)(h)
    receipts = await submitted(app, "a", "b")
    async with working(app, grace=0):
        await gate.reached.wait()
    await until_waiting(other, "k", 1)
    await submitted(app, "c")
    gate.opened.set()
    async with working(other):
        first = await results(receipts)
    assert first[0][:2] == ["a", "b"]
    assert [attempt for _, attempt in seen.turns] == [1] * len(seen.turns), "being handed back costs no attempt"
    assert await app.dead_letters.list() == []


async def test_a_state_that_does_not_fit_parks_the_lane_and_costs_a_burst_nothing(
    app: InTurn, make_app: MakeApp
) -> None:
    async with app.turn("k", state=dict) as turn:
        turn.state["is"] = "a dict"

    @app.handler("h", key="k", busy="merge", attempts=1, state=list)
    async def h(turn: Turn[list[Any]]) -> None: ...

    receipts = await submitted(app, "a", "b")
    async with working(app):
        await until_status(app, "k", "parked")
    assert await app.dead_letters.list() == []
    mended = make_app()

    @mended.handler("h", key="k", busy="merge", attempts=1, state=dict)
    async def h2(turn: Turn[dict[str, Any]]) -> list[str]:
        return bodies(turn)

    await mended.lanes.resume("k")
    async with working(mended):
        assert await results(receipts) == [["a", "b"]] * 2


async def test_what_a_failed_burst_sent_and_wrote_never_was(app: InTurn) -> None:
    delivered: list[Any] = []

    @app.handler("out")
    async def out(turn: Turn[Any]) -> None:
        delivered.append(turn.body)

    @app.handler("h", key="k", busy="merge", attempts=3, backoff=(0, 0), state=list)
    async def h(turn: Turn[list[str]]) -> None:
        turn.state += bodies(turn)
        turn.send("out", f"attempt {turn.attempt}")
        if turn.attempt < 2:
            raise ValueError("no")

    receipts = await submitted(app, "a", "b")
    async with working(app):
        await results(receipts)

        async def is_delivered() -> bool:
            return bool(delivered)

        await until(is_delivered)
    assert delivered == ["attempt 2"]
    assert (await app.lanes.inspect("k")).state == ["a", "b"]


async def test_a_burst_that_is_told_apart_is_tried_message_by_message_at_once(app: InTurn) -> None:
    seen = Seen()

    @app.handler("h", key="k", busy="merge", attempts=5, backoff=(60, 60))
    async def h(turn: Turn[Any]) -> str:
        burst = seen.note(turn)
        if len(burst) > 1:
            raise Apart
        return burst[0]

    receipts = await submitted(app, "a", "b")
    async with working(app):
        assert await results(receipts) == ["a", "b"]
    assert seen.turns == [(["a", "b"], 1), (["a"], 2), (["b"], 2)]


async def test_a_message_alone_that_is_told_apart_is_retried(app: InTurn) -> None:
    @app.handler("h", key="k", busy="merge", attempts=2, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> str:
        if turn.attempt == 1:
            raise Apart
        return "done"

    receipts = await submitted(app, "a")
    async with working(app):
        assert await results(receipts) == ["done"]
