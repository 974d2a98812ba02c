"""`app.turn`: one order with the submitted messages; the caller's own, and gone with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import (
    InTurn,
    LeaseLost,
    Retry,
    StoreUnavailable,
    Turn,
)
from inturn.store.lane import Begun, Opening
from inturn.store.limits import PLACE_LIVES_MS
from inturn.store.protocol import Beat
from tests.conftest import MakeApp
from tests.lanes.workbench import OVER_S, SLACK_S, Gate, apart, counted, put, until_open, working
from tests.waiting import until, until_status, until_waiting


async def test_a_turn_commits_its_state_at_the_end_of_the_block(app: InTurn, other: InTurn) -> None:
    for expected in range(3):
        async with (app, other)[expected % 2].turn("k", state=dict) as turn:
            assert (turn.state.get("n", 0), turn.version) == (expected, expected)
            turn.state["n"] = expected + 1
            assert (await app.lanes.inspect("k")).status == "running"
    lane = await app.lanes.inspect("k")
    assert (lane.state, lane.version, lane.status) == ({"n": 3}, 3, "idle")


async def test_inline_turns_of_one_key_run_one_at_a_time_in_order(app: InTurn, other: InTurn) -> None:
    order: list[int] = []
    inside = 0

    async def take(n: int) -> None:
        nonlocal inside
        async with (app, other)[n % 2].turn("k", state=list) as turn:
            inside += 1
            assert inside == 1
            order.append(n)
            await asyncio.sleep(0.001)
            turn.state.append(n)
            inside -= 1

    async with app.turn("k"):
        tasks = []
        for n in range(10):
            tasks.append(apart(take(n)))
            await until_waiting(app, "k", n + 1)
    await asyncio.gather(*tasks)
    assert order == list(range(10))
    assert (await app.lanes.inspect("k")).state == list(range(10))


async def test_inline_turns_and_submitted_messages_stand_in_one_order(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[str]]) -> None:
        turn.state.append(f"submitted {turn.body}")

    async def inline(n: int) -> None:
        async with other.turn("k", state=list) as turn:
            turn.state.append(f"inline {n}")

    tasks = []
    async with working(app):
        async with app.turn("k"):
            for n in range(6):
                if n % 2:
                    tasks.append(apart(inline(n)))
                else:
                    await app.submit("h", n)
                await until_waiting(app, "k", n + 1)
        await asyncio.gather(*tasks)
        await until_status(app, "k", "idle")
    assert (await app.lanes.inspect("k")).state == [
        "submitted 0", "inline 1", "submitted 2", "inline 3", "submitted 4", "inline 5",
    ]  # fmt: skip


@pytest.mark.usefixtures("nobody_looks")
async def test_the_commit_before_hands_the_lane_to_the_waiting_caller_at_once(app: InTurn, other: InTurn) -> None:
    loop = asyncio.get_running_loop()
    began_at = 0.0

    async def wait() -> None:
        nonlocal began_at
        async with other.turn("k"):
            began_at = loop.time()

    async with app.turn("k"):
        waiting = apart(wait())
        await until_waiting(app, "k", 1)
        ended_at = loop.time()
    await waiting
    assert began_at - ended_at < SLACK_S, "by push, not by the next beat"


async def test_a_body_that_raises_rolls_everything_back(app: InTurn, caplog: pytest.LogCaptureFixture) -> None:
    @app.handler("out")
    async def out(turn: Turn[Any]) -> None: ...

    await put(app, "k", {"n": 1})
    before = counted("inturn_turns_total", outcome="rolled back")
    with pytest.raises(ValueError, match="mine"):
        async with app.turn("k", state=dict, message_id="m") as turn:
            turn.state["n"] = 2
            turn.send("out", 1)
            turn.result = "x"
            raise ValueError("mine")
    async with working(app):  # and it is not given to a worker
        lane = await app.lanes.inspect("k")
        assert (lane.status, lane.state, lane.version, lane.waiting) == ("idle", {"n": 1}, 1, 0)
        assert (await app.lanes.inspect("k>out")).status == "idle"
    async with app.turn("k", message_id="m"):  # it left no mark
        pass
    assert counted("inturn_turns_total", outcome="rolled back") == before + 1
    assert "leave key=k fence=" in caplog.text
    assert await app.dead_letters.list() == []


async def test_a_rolled_back_turn_does_not_change_how_long_the_state_lives(app: InTurn) -> None:
    await put(app, "k", {"n": 1}, state_ttl=600)
    with pytest.raises(ValueError, match="mine"):
        async with app.turn("k", state_ttl=5):
            raise ValueError("mine")
    lane = await app.lanes.inspect("k")
    assert lane.state_expires_in_s is not None
    assert lane.state_expires_in_s > 500


async def test_a_turn_without_a_state_does_not_shorten_the_life_of_the_state(app: InTurn) -> None:
    await put(app, "k", {"n": 1}, state_ttl=7 * 86400)
    async with app.turn("k"):
        pass
    lane = await app.lanes.inspect("k")
    assert lane.state_expires_in_s is not None
    assert lane.state_expires_in_s > 6 * 86400


async def test_a_task_that_outlives_the_turn_in_which_it_was_made_may_wait_for_the_lane(app: InTurn) -> None:
    gate = Gate()

    async def later() -> str:
        await gate.pass_through()
        async with app.turn("k"):
            return "mine"

    async with app.turn("k"):
        task = asyncio.create_task(later())
    gate.opened.set()
    assert await asyncio.wait_for(task, 20) == "mine"


async def test_a_caller_that_stops_waiting_is_gone_from_the_mailbox(app: InTurn, make_app: MakeApp) -> None:
    other = make_app(store_timeout=OVER_S)
    await until_open(other)

    async def wait() -> None:
        async with other.turn("k"):
            raise AssertionError("unreachable")

    async with app.turn("k"):
        waiting = apart(wait())
        await until_waiting(app, "k", 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await until_waiting(app, "k", 0)

    async def is_quiet() -> bool:
        return other.process.registry.is_empty()

    await until(is_quiet, 30)


async def test_every_partition_has_its_own_lanes(make_app: MakeApp, store_url: str) -> None:
    app = make_app(partitions=4)
    await asyncio.gather(*(put(app, f"k{n}", {"n": n}) for n in range(20)))
    for n in range(20):
        async with app.turn(f"k{n}", state=dict) as turn:
            assert turn.state == {"n": n}


async def test_inline_callers_that_wait_in_a_lane_that_is_cleared_queue_anew(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    async def hold() -> None:
        async with app.turn("k"):
            await gate.pass_through()

    async def wait(n: int) -> int:
        async with other.turn("k", state=list) as turn:
            turn.state.append(n)
        return n

    holding = apart(hold())
    await gate.reached.wait()
    waiting = [apart(wait(n)) for n in range(2)]
    await until_waiting(app, "k", 2)
    assert await app.lanes.clear("k") == 2
    async with asyncio.timeout(20):
        assert await asyncio.gather(*waiting) == [0, 1]
    with pytest.raises(LeaseLost, match="cleared"):
        await holding
    assert sorted((await app.lanes.inspect("k")).state) == [0, 1]


async def test_a_caller_asks_again_when_its_beat_was_so_long_on_its_way_that_its_place_may_be_gone(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the caller's own clock the beats came in time: only the store has seen that one was late."""
    store = other.process.store
    really_beat, really_begin = store.beat, store.begin
    asked: list[str] = []

    async def beat(*arguments: Any) -> Beat:
        return (await really_beat(*arguments))._replace(away_ms=PLACE_LIVES_MS + 200)

    async def begin(opening: Opening) -> Begun:
        asked.append(opening.token)
        return await really_begin(opening)

    monkeypatch.setattr(store, "begin", begin)

    async def wait() -> None:
        async with other.turn("k"):
            pass

    async with app.turn("k"):
        waiting = apart(wait())
        await until_waiting(app, "k", 1)
        before = len(asked)
        monkeypatch.setattr(store, "beat", beat)

        async def has_asked_again() -> bool:
            return len(asked) > before

        await until(has_asked_again)
        assert len(set(asked[before - 1 :])) == 1, "for the same place"
    async with asyncio.timeout(20):
        await waiting


async def test_a_turn_that_is_over_when_it_arrives_does_not_find_its_own_message_there(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, answers = app.process.store, [10_000.0]
    really_begin = store.begin

    async def begin(opening: Opening) -> Begun:
        answer = await really_begin(opening)
        return answer._replace(sent_at=answer.sent_at - answers.pop()) if answers else answer

    monkeypatch.setattr(store, "begin", begin)
    async with asyncio.timeout(20), app.turn("k", state=list, message_id="m") as turn:
        turn.state.append(turn.id)
    info = await app.lanes.inspect("k")
    assert (info.state, info.status, answers) == (["m"], "idle", [])


async def test_a_turn_whose_time_is_shorter_than_the_way_to_the_store_is_given_up(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked = app.process.store, list[Opening]()
    really_begin = store.begin

    async def begin(opening: Opening) -> Begun:
        asked.append(opening)
        answer = await really_begin(opening)
        return answer._replace(sent_at=answer.sent_at - opening.limit_ms / 1000)

    monkeypatch.setattr(store, "begin", begin)
    with pytest.raises(StoreUnavailable, match=r"longer to answer than the turn of 'k' lives \(5 s\)"):
        async with asyncio.timeout(20), app.turn("k", message_id="m", time_limit=5):
            raise AssertionError("it must not begin")
    assert len(asked) == 3, "it may have been chance"
    assert (await app.lanes.inspect("k")).status == "idle"


async def test_an_inline_caller_waits_behind_a_message_that_waits_for_its_retry(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[str]]) -> None:
        if turn.attempt == 1:
            raise Retry(after=4)  # we see it wait, however busy the machine is
        turn.state.append("submitted")

    async with working(app):
        await app.submit("h", 1)
        await until_status(app, "k", "waiting")
        async with asyncio.timeout(20), other.turn("k", state=list) as turn:
            assert turn.state == ["submitted"]
