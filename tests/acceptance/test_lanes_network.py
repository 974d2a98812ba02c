"""Answers that never come, and a server that comes back: what was accepted is there, and once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn import CommitUnknown, InTurn, Turn
from inturn.settings import Settings
from tests.acceptance.looks import until_all_idle
from tests.chaos.proxy import Proxy
from tests.lanes.workbench import working
from tests.servers import PrivateRedis
from tests.waiting import until


def noting(app: InTurn, **options: Any) -> None:
    @app.handler("note", key="k", message_id="{n}", state=list, **options)
    async def note(turn: Turn[list[Any]]) -> int:
        turn.state.append(turn.body["n"])
        turn.send("sink", turn.body["n"])
        return turn.attempt

    @app.handler("sink", state=list)
    async def sink(turn: Turn[list[Any]]) -> None:
        turn.state.append(turn.body)


async def states(app: InTurn, *keys: str) -> list[Any]:
    return [(await app.lanes.inspect(key)).state for key in keys]


async def test_a_submit_whose_reply_was_cut_off_is_accepted_once(proxy: Proxy, patient: InTurn, near: InTurn) -> None:
    noting(patient)
    noting(near)
    for n in range(5):
        proxy.cut_reply_to = f'{{"n":{n}}}'.encode()
        receipt = await patient.submit("note", {"n": n})
        assert proxy.has_cut_reply
        assert receipt.status in ("accepted", "queued")
    assert (await near.lanes.inspect("k")).waiting == 5
    async with working(near):
        await until_all_idle(near)
    assert await states(near, "k", "k>sink") == [list(range(5)), list(range(5))]


async def test_a_submit_without_an_id_whose_reply_was_cut_off_is_accepted_once(
    proxy: Proxy, patient: InTurn, near: InTurn
) -> None:
    @patient.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    proxy.cut_reply_to = b"a body"
    await patient.submit("h", "a body")
    assert proxy.has_cut_reply
    assert (await near.lanes.inspect("k")).waiting == 1


async def test_an_inline_commit_whose_reply_was_cut_off_happened_once(
    proxy: Proxy, patient: InTurn, near: InTurn
) -> None:
    async with patient.turn("k", state=list, message_id="m") as turn:
        turn.state.append("once")
        turn.result = "the result"
        proxy.cut_reply_to = b"the result"
    assert proxy.has_cut_reply
    info = await near.lanes.inspect("k")
    assert (info.state, info.version, info.status) == (["once"], 1, "idle")


async def test_a_begin_whose_reply_was_cut_off_is_granted_once(proxy: Proxy, patient: InTurn, near: InTurn) -> None:
    proxy.cut_reply_to = b"the id"
    async with patient.turn("k", state=list, message_id="the id", busy="reject") as turn:
        turn.state.append("once")
    assert proxy.has_cut_reply
    assert (await near.lanes.inspect("k")).state == ["once"]


async def test_a_workers_commit_whose_reply_was_cut_off_happened_once_and_the_lane_goes_on(
    proxy: Proxy, patient: InTurn, near: InTurn
) -> None:
    noting(near)

    @patient.handler("note", key="k", message_id="{n}", state=list)
    async def note(turn: Turn[list[Any]]) -> str:
        turn.state.append(turn.body["n"])
        turn.send("sink", turn.body["n"])
        if turn.body["n"] == 2:
            proxy.cut_reply_to = b"result 2"
        return f"result {turn.body['n']}"

    @patient.handler("sink", state=list)
    async def sink(turn: Turn[list[Any]]) -> None:
        turn.state.append(turn.body)

    receipts = [await near.submit("note", {"n": n}) for n in range(5)]
    async with working(patient):
        assert [await receipt.result(20) for receipt in receipts] == [f"result {n}" for n in range(5)]
        await until_all_idle(near)
    assert proxy.has_cut_reply
    assert await states(near, "k", "k>sink") == [list(range(5)), list(range(5))]


@pytest.mark.parametrize("ends", ["commit", "fail"])
async def test_a_lane_is_not_stuck_when_nobody_knows_how_a_turn_ended(
    proxy: Proxy, far: InTurn, near: InTurn, ends: str
) -> None:
    """The store does it and gives the next message in the same transition, but the answer does not come in time."""
    blocked = asyncio.Event()

    @far.handler("h", key="k", message_id="{n}", state=list, attempts=1)
    async def h(turn: Turn[list[Any]]) -> int:
        if turn.body["n"] == 1 and not blocked.is_set():
            blocked.set()
            proxy.is_open = False
            for connection in proxy.connections:
                connection.reply_flows.clear()
        if ends == "fail" and turn.body["n"] == 1:
            raise ValueError("no")
        turn.state.append(turn.body["n"])
        return turn.attempt

    receipts = [await far.submit("h", {"n": n}) for n in range(1, 4)]
    async with working(far):
        await blocked.wait()
        registry = far.process.registry
        await until(lambda: registry.is_empty() or bool(registry.leftovers), what="the turn is left to the heartbeat")
        proxy.is_open = True
        for connection in list(proxy.connections):
            connection.abort()
        for receipt in receipts[1:]:
            assert await receipt.result(20) == 1
        await until_all_idle(near)
    assert await states(near, "k") == [[2, 3] if ends == "fail" else [1, 2, 3]]


async def test_an_inline_commit_that_nobody_answers_is_said_to_be_unknown_and_a_repeat_finds_out(
    proxy: Proxy, far: InTurn, near: InTurn
) -> None:
    with pytest.raises(CommitUnknown):
        async with far.turn("k", state=list, message_id="m") as turn:
            turn.state.append(1)
            proxy.is_open = False
            for connection in proxy.connections:
                connection.reply_flows.clear()
    proxy.is_open = True
    for connection in list(proxy.connections):
        connection.abort()
    await until_all_idle(near)
    assert (await near.lanes.inspect("k")).state in (None, [1])


async def test_nothing_that_was_accepted_is_lost_by_a_restart_of_redis(namespace: str) -> None:
    with PrivateRedis(appendonly=True, extra=("--appendfsync", "always")) as server:
        settings = Settings(store_timeout=15.0)
        async with (
            InTurn(server.url, namespace=namespace, settings=settings) as app,
            InTurn(server.url, namespace=namespace, settings=settings) as other,
        ):
            noting(app)
            noting(other)
            receipts = [await app.submit("note", {"n": n}) for n in range(30)]
            await asyncio.to_thread(server.restart, keep_data=True)
            assert (await app.lanes.inspect("k")).waiting == 30
            async with working(app), working(other):
                await receipts[5].result(20)
                await asyncio.to_thread(server.restart, keep_data=True)
                for receipt in receipts:
                    await receipt.result(20)
                await until_all_idle(app)
            assert await states(app, "k", "k>sink") == [list(range(30)), list(range(30))]


async def test_a_waiting_inline_caller_gets_its_turn_after_a_restart_of_redis(namespace: str) -> None:
    with PrivateRedis(appendonly=True, extra=("--appendfsync", "always")) as server:
        settings = Settings(store_timeout=15.0)  # a busy machine may take long to start the server again
        async with (
            InTurn(server.url, namespace=namespace, settings=settings) as app,
            InTurn(server.url, namespace=namespace, settings=settings) as other,
        ):

            async def wait() -> list[str]:
                async with other.turn("k", state=list) as turn:
                    return list(turn.state)

            waiting = asyncio.create_task(wait())
            await waiting
            async with app.turn("k", state=list) as turn:
                waiting = asyncio.create_task(wait())
                while (await app.lanes.inspect("k")).waiting == 0:  # noqa: ASYNC110 - it knows no event
                    await asyncio.sleep(0.005)
                await asyncio.to_thread(server.restart, keep_data=True)
                turn.state.append("first")
            assert await asyncio.wait_for(waiting, 30) == ["first"]
