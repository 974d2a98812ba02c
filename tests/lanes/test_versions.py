"""Two versions of a handler during a rolling deploy, and two applications on one store."""

from __future__ import annotations

from typing import Any

import pytest

from inturn import InTurn, Turn
from inturn.errors import StateMismatch
from inturn.settings import Settings
from tests.conftest import PATIENT_S
from tests.lanes.workbench import Gate, events_until, submit, told, working
from tests.waiting import until, until_status


def add_old(app: InTurn) -> None:
    """Its state is a list, and its body a text."""

    @app.handler("h", key="k", state=list, attempts=2, backoff=(0, 0))
    async def h(turn: Turn[list[Any]]) -> str:
        turn.state.append(turn.body)
        return f"old {turn.body}"


def add_new(app: InTurn) -> None:
    """Its state is a dict, which it makes out of the old list; its body may be a dict."""

    @app.handler("h", key="k", state=dict | list, initial=dict, version=2, attempts=2, backoff=(0, 0))
    async def h(turn: Turn[Any]) -> str:
        if isinstance(turn.state, list):
            turn.state = {"texts": turn.state}
        text = turn.body["text"] if isinstance(turn.body, dict) else turn.body
        turn.state.setdefault("texts", []).append(text)
        return f"new {text}"


async def is_waiting_for_the_new_one(app: InTurn) -> bool:
    expected = ("k", "ready", "h@2", True)
    return expected in [(lane.key, lane.status, lane.handler, lane.is_unhandled) for lane in await app.lanes.list()]


async def test_messages_of_the_new_version_are_only_run_by_the_new_worker(app: InTurn, other: InTurn) -> None:
    add_old(app)
    add_new(other)
    async with working(app):
        assert await (await submit(app, "a")).result(20) == "old a"
        receipt = await other.submit("h", {"text": "b"})
        behind = await submit(app, "c")

        async def waits() -> bool:
            return await is_waiting_for_the_new_one(app)

        await until(waits)
        with pytest.raises(TimeoutError):
            await receipt.result(0.2)
        info = await app.lanes.inspect("k")
        assert (info.status, info.waiting, info.state) == ("ready", 2, ["a"])
        assert [message.attempts for message in info.messages] == [0, 0]
        assert info.why == ""
        async with working(other):
            assert await receipt.result(20) == "new b"
            assert await behind.result(20) == "new c", "its state is the new one's now"
    assert (await app.lanes.inspect("k")).state == {"texts": ["a", "b", "c"]}
    assert await app.dead_letters.list() == []


async def test_a_lane_whose_state_the_new_version_wrote_waits_for_it(app: InTurn, other: InTurn) -> None:
    add_old(app)
    add_new(other)
    async with working(other):
        assert await (await submit(other, "a")).result(20) == "new a"
    async with working(app):
        receipt = await submit(app, "b")

        async def waits() -> bool:
            return await is_waiting_for_the_new_one(app)

        await until(waits)
        with pytest.raises(TimeoutError):
            await receipt.result(0.2)
        info = await app.lanes.inspect("k")
        assert (info.status, info.messages[0].attempts, info.messages[0].errors) == ("ready", 0, ())
        assert await app.dead_letters.list() == []
    async with working(other):
        assert await receipt.result(20) == "new b"
    assert (await app.lanes.inspect("k")).state == {"texts": ["a", "b"]}


async def test_with_both_at_work_every_message_is_run_once_by_one_that_can(app: InTurn, other: InTurn) -> None:
    add_old(app)
    add_new(other)
    async with working(app), working(other):
        receipts = []
        for number in range(30):
            by = (app, other)[number % 2]
            receipts.append(await by.submit("h", f"m{number}", message_id=f"m{number}"))
        answers = [await receipt.result(20) for receipt in receipts]
    assert [answer.split()[1] for answer in answers] == [f"m{number}" for number in range(30)]
    assert (await app.lanes.inspect("k")).state == {"texts": [f"m{number}" for number in range(30)]}
    assert await app.dead_letters.list() == []


async def test_the_new_worker_runs_what_the_old_one_left(app: InTurn, other: InTurn) -> None:
    add_old(app)
    add_new(other)
    async with working(app):
        await (await submit(app, "a")).result(20)
    left = await submit(app, "b")
    async with working(other):
        assert await left.result(20) == "new b"
    assert (await app.lanes.inspect("k")).state == {"texts": ["a", "b"]}


async def test_an_inline_turn_of_the_old_version_is_refused_and_does_not_park_the_lane(app: InTurn) -> None:
    async with app.turn("k", state=dict, version=2) as turn:
        turn.state["by"] = "new"
    with pytest.raises(StateMismatch, match="version 2") as mismatch:
        async with app.turn("k", state=dict):
            raise AssertionError("it must not begin")
    assert mismatch.value.needs == 2
    assert (await until_status(app, "k", "idle")).state == {"by": "new"}
    async with app.turn("k", state=dict, version=3) as turn:
        assert turn.state == {"by": "new"}


async def test_a_burst_of_both_versions_waits_for_the_new_worker(app: InTurn, other: InTurn) -> None:
    for each, version in ((app, 1), (other, 2)):

        @each.handler("h", key="k", busy="merge", version=version)
        async def h(turn: Turn[Any], version: int = version) -> list[Any]:
            return [version, *(message.body for message in turn.messages)]

    receipts = [await submit(app, "a"), await submit(other, "b"), await submit(app, "c")]
    async with working(app):
        assert await receipts[0].result(20) == [1, "a"]

        async def waits() -> bool:
            return await is_waiting_for_the_new_one(app)

        await until(waits)
        async with working(other):
            assert (await receipts[1].result(20))[:2] == [2, "b"]
            assert "c" in await receipts[2].result(20)


async def test_steering_takes_no_message_of_a_newer_version_and_nothing_past_it(app: InTurn, other: InTurn) -> None:
    gate = Gate()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> list[Any]:
        await gate.pass_through()
        return [message.body for message in await turn.new_messages()]

    @other.handler("h", key="k", version=2)
    async def h2(turn: Turn[Any]) -> str:
        return "new"

    async with working(app):
        first = await submit(app, "a")
        await gate.reached.wait()
        newer, same = await submit(other, "b"), await submit(app, "c")
        gate.opened.set()
        assert await first.result(20) == []
        async with working(other):
            assert await newer.result(20) == "new"
        assert await same.result(20) in ([], "new")  # both versions can read it


@pytest.mark.parametrize("busy", ["interrupt", "rollback"])
async def test_an_interrupt_of_the_new_version_is_not_given_to_the_old_worker(
    app: InTurn, other: InTurn, busy: Any
) -> None:
    gate = Gate()
    ran: list[tuple[int, list[Any]]] = []
    for each, version in ((app, 1), (other, 2)):

        @each.handler("h", key="k", busy=busy, version=version)
        async def h(turn: Turn[Any], version: int = version) -> int:
            ran.append((version, [message.body for message in turn.messages]))
            if turn.messages[-1].body == "a":
                await gate.pass_through()
            return version

    async with working(app):
        await submit(app, "a")
        await gate.reached.wait()
        newer = await submit(other, "b")

        async def waits() -> bool:
            return await is_waiting_for_the_new_one(app) or len(ran) > 1

        await until(waits)
        async with working(other):
            assert await newer.result(20) == 2
    assert ran == [(1, ["a"]), (2, ["a", "b"] if busy == "interrupt" else ["b"])]


async def test_a_burst_that_the_new_version_began_is_not_taken_over_by_the_old_worker(
    app: InTurn, other: InTurn
) -> None:
    """The old version's message leads it, and the new worker has taken a newer one along."""
    ran: list[tuple[int, list[Any]]] = []
    gate = Gate()
    for each, version in ((app, 1), (other, 2)):

        @each.handler("h", key="k", busy="merge", version=version)
        async def h(turn: Turn[Any], version: int = version) -> int:
            ran.append((version, [message.body for message in turn.messages]))
            if version == 2 and not gate.reached.is_set():
                await gate.pass_through()
            return version

    receipts = [await submit(app, "a"), await submit(other, "b")]
    async with working(other, grace=0):
        await gate.reached.wait()
    assert ran == [(2, ["a", "b"])]
    async with working(app):

        async def waits() -> bool:
            return await is_waiting_for_the_new_one(app) or len(ran) > 1

        await until(waits)
        async with working(other):
            assert [await receipt.result(20) for receipt in receipts][1] == 2
    assert all(version == 2 for version, burst in ran if "b" in burst)


# -- namespaces ------------------------------------------------------------------------------------------------------


async def test_two_applications_on_one_redis_do_not_see_each_other(redis_url: str, namespace: str) -> None:
    patient = Settings(store_timeout=PATIENT_S)
    apps = [InTurn(redis_url, namespace=f"{namespace}-{n}", settings=patient) for n in (1, 2)]
    one, two = apps
    gates = [Gate(), Gate()]
    for number, (each, gate) in enumerate(zip(apps, gates, strict=True), 1):

        @each.handler("h", key="k", state=list, attempts=1, busy="interrupt")
        async def h(turn: Turn[list[Any]], number: int = number, gate: Gate = gate) -> str:
            turn.state.append(number)
            turn.stream(f"from {number}")
            await gate.pass_through()
            if turn.body == "fails":
                raise ValueError("no")
            return f"by {number}"

    async with one, two, one.watch("k") as watch_one, two.watch("k") as watch_two, working(one), working(two):
        first = await submit(one, "a")
        await gates[0].reached.wait()
        second = await submit(two, "a")
        assert (first.status, second.status) == ("accepted", "accepted"), "no duplicate, no interrupt, no queue"
        await gates[1].reached.wait()
        async with one.lock("x"), two.lock("x", wait=0):
            pass
        for gate in gates:
            gate.opened.set()
        assert (await first.result(20), await second.result(20)) == ("by 1", "by 2")
        assert told(await events_until(watch_one)) == ["begin", "from 1", "commit"]
        assert told(await events_until(watch_two)) == ["begin", "from 2", "commit"]
        with pytest.raises(Exception, match="no"):
            await (await submit(one, "fails")).result(20)
        assert [letter.id for letter in await one.dead_letters.list()] == ["fails"]
        assert await two.dead_letters.list() == []
        assert (await two.lanes.inspect("k")).state == [2]
        delayed = await submit(one, "later", delay=60)
        assert (await submit(two, "later")).status == "accepted"
        assert await delayed.cancel()
        await one.lanes.pause("k")
        assert await two.lanes.list() == [] or (await two.lanes.inspect("k")).status != "paused"


async def test_a_worker_of_one_application_runs_nothing_of_the_other(redis_url: str, namespace: str) -> None:
    patient = Settings(store_timeout=PATIENT_S)
    async with (
        InTurn(redis_url, namespace=f"{namespace}-1", settings=patient) as one,
        InTurn(redis_url, namespace=f"{namespace}-2", settings=patient) as two,
    ):
        for each in (one, two):

            @each.handler("h", key="k")
            async def h(turn: Turn[Any]) -> None: ...

        async with working(one):
            receipt = await submit(two, "a")
            await (await submit(one, "a")).result(20)
            with pytest.raises(TimeoutError):
                await receipt.result(0.2)
            assert [lane.is_unhandled for lane in await two.lanes.list()] == [True]
