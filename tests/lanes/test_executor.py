"""A worker's turn: begin, handle, commit or fail. What a turn does becomes real as a whole, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import CommitUnknown, HandlerFailed, InTurn, Turn
from inturn.errors import OwnLane
from inturn.settings import Settings
from inturn.store import clock
from tests.conftest import MakeApp
from tests.lanes.workbench import OVER_S, until_open, working
from tests.servers import PrivateRedis
from tests.waiting import until, until_status

QUICK = (0.001, 0.01)


async def test_a_turn_knows_its_message_its_lane_and_its_fence(app: InTurn) -> None:
    seen: list[Any] = []

    @app.handler("h", key="k", message_id="{id}", ttl=20)
    async def h(turn: Turn[Any]) -> None:
        (message,) = turn.messages
        seen.append((turn.key, turn.handler, turn.id, turn.body, turn.attempt, message.id, turn.lost))
        assert message.waited_s >= 0.05
        assert 10 < turn.remaining() < 20
        seen.append(turn.fence)

    receipts = [await app.submit("h", {"id": n}) for n in (1, 2)]
    await asyncio.sleep(0.06)
    async with working(app):
        for receipt in receipts:
            await receipt.result(20)
    assert seen[0] == ("k", "h", "1", {"id": 1}, 1, "1", False)
    assert seen[3] > seen[1] > 0


async def test_a_handler_that_raises_leaves_nothing_behind(app: InTurn) -> None:
    @app.handler("h", key="k", state=list, attempts=1)
    async def h(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)
        turn.send("sink", turn.body)
        if turn.body == 2:
            raise ValueError("no")

    @app.handler("sink", state=list)
    async def sink(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)

    async with working(app):
        receipts = [await app.submit("h", n) for n in (1, 2, 3)]
        with pytest.raises(HandlerFailed, match="ValueError: no"):
            await receipts[1].result(20)
        await receipts[2].result(20)
        await until_status(app, "k>sink", "idle")
    assert (await app.lanes.inspect("k")).state == [1, 3]
    assert (await app.lanes.inspect("k>sink")).state == [1, 3]


@pytest.mark.parametrize(
    ("result", "says"),
    [(object(), "the result cannot be written as JSON"), ("x" * 300_000, "the result is .* at most 262144")],
)
async def test_a_result_that_cannot_be_written_fails_the_message_at_once(app: InTurn, result: Any, says: str) -> None:
    attempts: list[int] = []

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[int]]) -> Any:
        attempts.append(turn.attempt)
        turn.state.append(1)
        return result

    async with working(app):
        with pytest.raises(HandlerFailed, match=says):
            await (await app.submit("h", 1)).result(20)
    assert (await app.lanes.inspect("k")).state is None
    assert attempts == [1]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"x": object()}, "the state cannot be written as JSON"),
        ({"x": "y" * 1_100_000}, "the state is .* at most 1048576"),
    ],
)
@pytest.mark.parametrize("commits_itself", [False, True])
async def test_a_state_that_cannot_be_written_fails_the_message_at_once_and_the_old_one_stays(
    app: InTurn, state: Any, says: str, commits_itself: bool
) -> None:
    attempts: list[int] = []

    @app.handler("h", key="k", state=dict)
    async def h(turn: Turn[Any]) -> None:
        attempts.append(turn.attempt)
        turn.state = {"good": 1} if turn.body == "good" else state
        if commits_itself:
            await turn.commit()

    async with working(app):
        await (await app.submit("h", "good")).result(20)
        with pytest.raises(HandlerFailed, match=says):
            await (await app.submit("h", "bad")).result(20)
    assert (await app.lanes.inspect("k")).state == {"good": 1}
    assert attempts == [1, 1], "another attempt could not have written it either"


async def test_setting_the_state_to_none_removes_it(app: InTurn) -> None:
    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[Any]) -> Any:
        before = turn.state
        turn.state = None if turn.body == "forget" else [turn.body]
        return [before, turn.version]

    async with working(app):
        receipts = [await app.submit("h", body) for body in (1, "forget", 2, "forget")]
        assert [await receipt.result(20) for receipt in receipts] == [[[], 0], [[1], 1], [[], 0], [[2], 1]]
    lane = await app.lanes.inspect("k")
    assert (lane.state, lane.version, lane.status) == (None, 0, "idle")


async def test_a_handler_without_a_state_keeps_that_of_its_lane(app: InTurn) -> None:
    @app.handler("writes", key="k", state=list)
    async def writes(turn: Turn[list[int]]) -> list[int]:
        turn.state.append(turn.body)
        return turn.state

    @app.handler("looks", key="k")
    async def looks(turn: Turn[Any]) -> Any:
        assert turn.state is None

    async with working(app):
        for name in ("writes", "looks", "writes"):
            await (await app.submit(name, 1)).result(20)
    receipts = [await app.submit(name, 1) for name in ("writes", "looks", "writes")]
    async with working(app):  # one after the other, without another look at the state
        for receipt in receipts:
            await receipt.result(20)
    assert (await app.lanes.inspect("k")).state == [1, 1, 1, 1]


async def test_the_life_of_a_state_slides_with_every_commit_and_does_not_end_while_messages_wait(app: InTurn) -> None:
    life_s = 4.0

    @app.handler("h", key="k", state=list, state_ttl=life_s)
    async def h(turn: Turn[list[int]]) -> int:
        turn.state.append(1)
        return len(turn.state)

    async with working(app):
        for expected in range(1, 7):
            began_at = clock.now()
            assert await (await app.submit("h", 1)).result(20) == expected
            expires_in_s = (await until_status(app, "k", "idle")).state_expires_in_s
            assert expires_in_s is not None
            assert began_at + life_s - clock.now() - 0.01 < expires_in_s <= life_s, "it is counted from the commit"
            await asyncio.sleep(0.7)  # six of these are longer than it lives
    waiting = await app.submit("h", 1)
    assert (await app.lanes.inspect("k")).state_expires_in_s is None
    await asyncio.sleep(life_s + 0.1)
    async with working(app):
        assert await waiting.result(20) == 7

        async def is_gone() -> bool:
            return (await app.lanes.inspect("k")).state is None

        await until(is_gone)
        assert await (await app.submit("h", 1)).result(20) == 1


async def test_a_state_that_does_not_fit_parks_its_lane_alone_and_a_fixed_deploy_goes_on_with_the_message(
    make_app: MakeApp,
) -> None:
    old, bad, fixed = make_app(), make_app(), make_app()

    @old.handler("h", key="k:{k}", state=dict)
    async def write(turn: Turn[Any]) -> None:
        turn.state["count"] = "one" if turn.body["k"] == 1 else 1

    async with working(old):
        for k in (1, 2):
            await (await old.submit("h", {"k": k})).result(20)

    @bad.handler("h", key="k:{k}", state=dict[str, int], attempts=1)
    async def count(turn: Turn[dict[str, int]]) -> int:
        turn.state["count"] += 1
        return turn.state["count"]

    async with working(bad):
        waits = [await bad.submit("h", {"k": 1, "n": n}) for n in (1, 2)]
        info = await until_status(bad, "k:1", "parked")
        assert await (await bad.submit("h", {"k": 2})).result(20) == 2, "other lanes go on"
    assert "does not fit its schema: count" in info.why
    assert (info.state, info.version, info.waiting) == ({"count": "one"}, 1, 2)
    assert info.messages[0].attempts == 0, "a bad deploy costs no attempts"
    assert await bad.dead_letters.list() == []

    @fixed.handler("h", key="k:{k}", state=dict[str, Any], attempts=1)
    async def read(turn: Turn[dict[str, Any]]) -> Any:
        turn.state["count"] = 10 + turn.body["n"]
        return turn.attempt

    async with working(fixed):
        assert await fixed.lanes.resume("k:1")
        assert [await wait.result(20) for wait in waits] == [1, 1]
    assert (await fixed.lanes.inspect("k:1")).state == {"count": 12}


async def test_a_body_that_does_not_fit_the_handler_fails_the_message(make_app: MakeApp) -> None:
    one, two = make_app(), make_app()

    @one.handler("h", key="k")
    async def any_body(turn: Turn[Any]) -> None: ...

    @two.handler("h", key="k", body=dict[str, int], attempts=1)
    async def numbers(turn: Turn[Any]) -> None: ...

    receipt = await one.submit("h", {"x": "many"})
    async with working(two):
        with pytest.raises(HandlerFailed, match="BadMessage: the body does not fit the handler: x"):
            await receipt.result(20)


async def test_a_turn_must_not_wait_for_its_own_lane(app: InTurn) -> None:
    @app.handler("h", key="{k}", attempts=1)
    async def h(turn: Turn[Any]) -> str:
        mine = await app.submit("h", {"k": "a", "deep": True})
        if turn.body.get("deep"):
            return "deep"
        with pytest.raises(OwnLane, match="'a'"):
            await mine.result(20)
        with pytest.raises(OwnLane):
            async with app.turn("a"):
                raise AssertionError("unreachable")
        with pytest.raises(OwnLane):
            await asyncio.create_task(mine.result(20))
        async with app.turn("b"), app.turn("c"):
            with pytest.raises(OwnLane):
                await mine.result(20)
        return str(await (await app.submit("other", {})).result(20))

    @app.handler("other", key="b")
    async def other(turn: Turn[Any]) -> str:
        return "fine"

    async with working(app):
        assert await (await app.submit("h", {"k": "a"})).result(20) == "fine"


async def test_a_commit_by_the_handler_while_the_store_is_away_costs_no_attempt(
    fresh_redis: PrivateRedis, namespace: str
) -> None:
    """It has one attempt only. Whether it was committed is not known, and that is no failure of the handler."""
    attempts: list[int] = []
    is_back = asyncio.Event()
    app = InTurn(fresh_redis.url, namespace=namespace, settings=Settings(store_timeout=OVER_S))
    await until_open(app)
    async with app:

        @app.handler("h", key="k", attempts=1, ttl=30)
        async def h(turn: Turn[Any]) -> None:
            attempts.append(turn.attempt)
            if not is_back.is_set():
                fresh_redis.pause()
            try:
                await turn.commit("fine")
            except CommitUnknown:
                fresh_redis.resume()  # so that a failure could be told
                is_back.set()
                raise

        async with working(app):
            receipt = await app.submit("h", {})
            await is_back.wait()
            assert await receipt.result(20) == "fine"
    assert set(attempts) == {1}
