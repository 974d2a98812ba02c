"""`app.lanes`: looking inside, and stopping, resuming and clearing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from inturn import InTurn, LaneBusy, Retry, Turn
from inturn.errors import StateMismatch
from tests.conftest import MakeApp
from tests.lanes.workbench import Gate, apart, put, working
from tests.waiting import until, until_status, until_waiting


async def test_a_lane_that_was_never_used_is_idle(app: InTurn) -> None:
    info = await app.lanes.inspect("nobody")
    assert (info.status, info.state, info.version, info.waiting, info.holder, info.running) == (
        "idle", None, 0, 0, None, None,
    )  # fmt: skip
    assert await app.lanes.list() == []


class Counter(pydantic.BaseModel):
    n: int


@dataclass
class Plain:
    n: int


@pytest.mark.parametrize("kind", [Counter, Plain])
async def test_a_state_is_read_as_a_model_or_a_dataclass_without_a_turn(app: InTurn, other: InTurn, kind: Any) -> None:
    assert await other.lanes.state("k", kind) is None
    await put(app, "k", {"n": 7})
    assert await other.lanes.state("k", kind) == kind(n=7)
    async with app.turn("k"):
        info = await other.lanes.inspect("k")
        assert (info.status, info.state_as(kind)) == ("running", kind(n=7))
    await put(app, "k", {"n": "many"})
    with pytest.raises(StateMismatch, match="lane 'k' does not fit its schema: n: ") as mismatch:
        await other.lanes.state("k", kind)
    assert mismatch.value.key == "k"
    assert (await other.lanes.inspect("k")).status == "idle", "reading parks nothing"


async def test_inspect_shows_what_runs_and_what_waits(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k", message_id="{id}")
    async def h(turn: Turn[Any]) -> None:
        await gate.pass_through()

    async with working(app):
        for n in range(4):
            await app.submit("h", {"id": n})
        await gate.reached.wait()
        waiting = apart(_enter(other))
        await until_waiting(other, "k", 4)
        info = await other.lanes.inspect("k", limit=2)
        assert info.status == "running"
        assert info.holder is not None
        assert info.fence > 0
        assert info.running is not None
        assert (info.running.handler, info.running.id, info.running.attempts, info.running.body) == (
            "h", "0", 1, {"id": 0},
        )  # fmt: skip
        assert info.waiting == 4
        assert [message.id for message in info.messages] == ["1", "2"]
        assert (await other.lanes.inspect("k")).messages[-1].is_inline
        (summary,) = await other.lanes.list()
        assert (summary.key, summary.status, summary.handler, summary.waiting) == ("k", "running", "h", 4)
        gate.opened.set()
        await waiting
        await until_status(app, "k", "idle")


async def _enter(app: InTurn) -> None:
    async with app.turn("k"):
        pass


async def test_an_inline_turn_shows_as_running(app: InTurn, other: InTurn) -> None:
    async with app.turn("k"):
        info = await other.lanes.inspect("k")
        assert (info.status, info.waiting) == ("running", 0)
        assert info.holder == "{}:{}".format(*app.process.store.process.rsplit(":", 2)[:2])
        (summary,) = await other.lanes.list()
        assert (summary.status, summary.handler, summary.is_unhandled) == ("running", "", False)


async def test_a_lane_that_waits_for_its_retry_says_so(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        raise Retry("later", after=60)

    async with working(app):
        await app.submit("h", 1)
        info = await until_status(app, "k", "waiting")
    (message,) = info.messages
    assert 50 < message.due_in_s <= 60
    assert (message.attempts, message.errors[0]["message"]) == (1, "later")
    (summary,) = await app.lanes.list()
    assert summary.status == "waiting"
    assert not summary.is_unhandled


async def test_a_paused_lane_takes_messages_and_begins_nothing_until_it_is_resumed(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="{k}", state=list)
    async def h(turn: Turn[list[int]]) -> int:
        await gate.pass_through()
        turn.state.append(1)
        return len(turn.state)

    async with working(app):
        first = await app.submit("h", {"k": "k"})
        await gate.reached.wait()
        await other.lanes.pause("k", "for repairs")
        second = await app.submit("h", {"k": "k"})
        gate.opened.set()
        assert await first.result(20) == 1, "what runs may finish"
        assert await (await app.submit("h", {"k": "another"})).result(20) == 1
        info = await app.lanes.inspect("k")
        assert (info.status, info.why, info.waiting) == ("paused", "for repairs", 1)
        with pytest.raises(LaneBusy, match="it is paused"):
            async with app.turn("k", busy="reject"):
                raise AssertionError("unreachable")
        assert await other.lanes.resume("k")
        assert await second.result(20) == 2
        assert not await other.lanes.resume("k")


async def test_an_idle_lane_can_be_paused_and_an_inline_caller_waits_for_its_resume(app: InTurn, other: InTurn) -> None:
    await app.lanes.pause("k")
    waiting = asyncio.create_task(_enter(other))
    await until_waiting(app, "k", 1)
    assert await app.lanes.resume("k")
    await asyncio.wait_for(waiting, 20)
    await until_status(app, "k", "idle")
    assert await app.lanes.list() == []


async def test_clear_removes_messages_state_and_stop(app: InTurn) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    async with app.turn("k", state=dict) as turn:
        turn.state["x"] = 1
    for n in range(3):
        await app.submit("h", n)
    await app.lanes.pause("k")
    assert await app.lanes.clear("k") == 3
    assert await app.lanes.list() == []
    info = await app.lanes.inspect("k")
    assert (info.status, info.state, info.waiting) == ("idle", None, 0)
    assert await app.lanes.clear("k") == 0


async def test_the_list_is_bounded_and_by_key(app: InTurn) -> None:
    @app.handler("h", key="k:{n}")
    async def h(turn: Turn[Any]) -> None: ...

    for n in range(5):
        await app.submit("h", {"n": n})
    assert [lane.key for lane in await app.lanes.list()] == [f"k:{n}" for n in range(5)]
    assert len(await app.lanes.list(limit=2)) == 2


async def test_lanes_of_every_partition_are_listed(make_app: MakeApp) -> None:
    app = make_app(partitions=4)

    @app.handler("h", key="k:{n}")
    async def h(turn: Turn[Any]) -> None: ...

    for n in range(9):
        await app.submit("h", {"n": n})
    assert [lane.key for lane in await app.lanes.list()] == [f"k:{n}" for n in range(9)]
    assert all(lane.is_unhandled for lane in await app.lanes.list())
    async with working(app):

        async def are_done() -> bool:
            return not await app.lanes.list()

        await until(are_done)


async def test_bad_input_is_named(app: InTurn) -> None:
    with pytest.raises(ValueError, match="limit=0"):
        await app.lanes.list(limit=0)
    with pytest.raises(ValueError, match="key=''"):
        await app.lanes.inspect("")
    with pytest.raises(TypeError, match="key=5"):
        await app.lanes.pause(5)  # type: ignore[arg-type]
