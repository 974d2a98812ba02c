"""Odd names, odd moments and great numbers: what a lane must not be confused by."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from inturn import HandlerFailed, InTurn, LeaseLost, Retry, Turn
from inturn.store.lane import Claimed, Commit, Ended
from inturn.store.views import LaneList
from tests.lanes.conftest import MakeApp, apart, until, until_status, until_waiting, working


@pytest.mark.parametrize("odd", ["a b\nc", "é😀", "{0}:#1", "lost x#1 5 why\nname", " ", "%.0f \\0 ' \" ;"])
async def test_any_text_can_be_a_key_and_an_id(app: InTurn, other: InTurn, odd: str) -> None:
    @app.handler("h", message_id="{id}", attempts=1, state=list)
    async def h(turn: Turn[list[Any]]) -> Any:
        assert (turn.key, turn.id) == (odd, odd + turn.body["id"][len(odd) :])
        if turn.body.get("bad"):
            raise ValueError(odd)
        turn.state.append(turn.id)
        return [turn.id]

    async with working(app):
        receipt = await app.submit("h", {"id": odd}, key=odd)
        assert await receipt.result(5) == [odd]
        assert (await app.submit("h", {"id": odd}, key=odd)).is_duplicate
        bad = await app.submit("h", {"id": odd + "2", "bad": True}, key=odd)
        with pytest.raises(HandlerFailed):
            await bad.result(5)
        (letter,) = await app.dead_letters.list()
        assert (letter.key, letter.id, letter.errors[0]["message"]) == (odd, odd + "2", odd)
        assert await app.dead_letters.drop(odd, "h", odd + "2")
    async with app.turn(odd):
        waiting = apart(_take(other, odd))
        await until_waiting(app, odd, 1)
    assert await asyncio.wait_for(waiting, 5) == [odd]
    with pytest.raises(LeaseLost):
        async with app.turn(odd):
            await other.lanes.clear(odd)
            await asyncio.sleep(5)


async def _take(app: InTurn, key: str) -> Any:
    async with app.turn(key, state=list) as turn:
        return turn.state


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


async def test_an_inline_caller_waits_behind_a_message_that_waits_for_its_retry(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[str]]) -> None:
        if turn.attempt == 1:
            raise Retry(after=2)
        turn.state.append("submitted")

    async with working(app):
        await app.submit("h", 1)
        await until_status(app, "k", "waiting")
        async with asyncio.timeout(10), other.turn("k", state=list) as turn:
            assert turn.state == ["submitted"]


async def test_a_turn_whose_lease_is_gone_cannot_commit_whatever_became_of_the_lane(app: InTurn, other: InTurn) -> None:
    """Free but stopped; free with a message that waits for a worker."""

    @other.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    for is_paused in (True, False):
        with pytest.raises(LeaseLost):
            async with app.turn("k", state=list) as turn:
                turn.state.append("never")
                if is_paused:
                    await other.lanes.pause("k")
                else:
                    await other.submit("h", 1)
                await other.process.store.leave("k", turn.lease.token, turn._ident, turn.fence)
        info = await other.lanes.inspect("k")
        assert info.state is None
        assert await other.lanes.clear("k") == (0 if is_paused else 1)


async def test_a_worker_that_is_cancelled_while_its_commit_is_answered_keeps_no_message(
    app: InTurn, other: InTurn
) -> None:
    """The commit gives it the next message of the lane, and nobody is there any more to take it."""

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[int]]) -> int:
        turn.state.append(turn.body)
        return turn.attempt

    store, commit = app.process.store, app.process.store.commit
    receipts = [await app.submit("h", n) for n in (1, 2, 3)]
    async with working(app) as worker:

        async def cancelled(effects: Commit) -> Ended:
            ended = await commit(effects)
            assert ended.next is not None
            store.commit = commit  # type: ignore[method-assign]
            worker.cancel()
            await asyncio.sleep(5)
            return ended

        store.commit = cancelled  # type: ignore[assignment,method-assign]
        with contextlib.suppress(asyncio.CancelledError):
            await worker
    info = await until_status(other, "k", "ready")
    assert info.state == [1]
    assert [(message.body, message.attempts) for message in info.messages] == [(2, 0), (3, 0)]
    async with working(app):
        assert [await receipt.result(5) for receipt in receipts] == [1, 1, 1]


async def test_what_was_claimed_runs_also_when_counting_finds_no_store(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inturn import StoreUnavailable

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> int:
        return turn.attempt

    async def away(limit: int) -> LaneList:
        raise StoreUnavailable("away")

    receipt = await app.submit("h", 1)
    monkeypatch.setattr(app.process.store, "lanes", away)
    async with working(app):
        assert await receipt.result(5) == 1


async def test_a_claim_that_was_answered_to_nobody_is_given_back(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k:{k}")
    async def h(turn: Turn[Any]) -> int:
        return turn.attempt

    receipts = [await app.submit("h", {"k": k}) for k in range(3)]
    store, claim = app.process.store, app.process.store.claim
    async with working(app) as worker:

        async def cancelled(call: str, can: Any, count: int, partition: int = 0) -> Claimed:
            claimed = await claim(call, can, count, partition)
            store.claim = claim  # type: ignore[method-assign]
            worker.cancel()
            await asyncio.sleep(5)
            return claimed

        store.claim = cancelled  # type: ignore[method-assign]
        with contextlib.suppress(asyncio.CancelledError):
            await worker
    for k in range(3):
        info = await until_status(other, f"k:{k}", "ready")
        assert info.messages[0].attempts == 0
    async with working(app):
        assert [await receipt.result(5) for receipt in receipts] == [1, 1, 1]


async def test_a_timed_out_message_is_told_in_time_although_the_lane_is_held(app: InTurn) -> None:
    """`wait` is what the submitter is willing to wait, not what the turn before it takes."""
    from inturn import LaneTimeout

    @app.handler("late", key="k", busy="wait", wait=0.2)
    async def late(turn: Turn[Any]) -> None: ...

    async with app.turn("k"):
        receipt = await app.submit("late", 1)
        waiting = apart(receipt.result(20))
        done, _ = await asyncio.wait({waiting}, timeout=10)
        assert done, "it waits for the turn before it, however long that takes"
        assert isinstance(waiting.exception(), LaneTimeout)
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_worker_ends_when_its_app_is_closed(make_app: MakeApp) -> None:
    app = make_app()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app) as worker:
        await (await app.submit("h", 1)).result(5)
        await app.close()
        done, _ = await asyncio.wait({worker}, timeout=10)
        assert done, "it goes on asking a store that was closed"


async def test_the_mark_of_a_message_outlives_its_lane(app: InTurn, other: InTurn) -> None:
    @app.handler("h", key="k", message_id="{id}", state=list)
    async def h(turn: Turn[list[int]]) -> int:
        turn.state = None  # type: ignore[assignment]
        return 1

    async with working(app):
        await (await app.submit("h", {"id": 1})).result(5)
        await until_status(other, "k", "idle")
        assert (await app.submit("h", {"id": 1})).is_duplicate


async def test_messages_that_come_while_the_lane_is_worked_off_are_not_left_behind(app: InTurn, other: InTurn) -> None:
    """A submit that meets the last commit of its lane: one of the two sees the other."""

    @app.handler("h", key="k", state=list)
    async def h(turn: Turn[list[int]]) -> None:
        turn.state.append(turn.body)

    other.handler("h", key="k", state=list)(h)
    async with working(app):
        for n in range(200):
            await other.submit("h", n)

        async def all_there() -> bool:
            return len((await other.lanes.inspect("k")).state or []) == 200

        await until(all_there, 10)
    assert (await other.lanes.inspect("k")).state == list(range(200))
