"""`app.run()` in this process: fair, bounded, woken by push, and untouched by a store that goes away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from inturn import InTurn, SettingsError, Turn
from inturn.lanes import worker as worker_module
from inturn.lanes.worker import WorkerPool
from inturn.settings import Settings
from inturn.store.lane import Claimed, NotAsked
from inturn.store.views import LaneList
from tests.conftest import PATIENT_S, MakeApp
from tests.lanes.workbench import OVER_S, Gate, counted, until_open, working
from tests.servers import PrivateRedis
from tests.waiting import until, until_status, until_waiting

PARTITIONS = 4
BACKLOG = 60
"""Lanes in each partition that wait for the handler which came first."""


async def test_lanes_run_side_by_side_up_to_the_concurrency(app: InTurn) -> None:
    inside, most = 0, 0
    enough = asyncio.Event()

    @app.handler("h", key="k:{k}")
    async def h(turn: Turn[Any]) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 4:
            enough.set()
        await enough.wait()
        await asyncio.sleep(0.002)
        inside -= 1

    receipts = [await app.submit("h", {"k": k}) for k in range(30)]
    async with working(app, concurrency=4):
        for receipt in receipts:
            await receipt.result(20)
    assert most == 4


async def test_a_lane_with_many_messages_does_not_starve_the_others(app: InTurn) -> None:
    turns: list[str] = []

    @app.handler("h", key="{k}")
    async def h(turn: Turn[Any]) -> None:
        turns.append(turn.key)

    for start in range(0, 2000, 200):
        await asyncio.gather(*(app.submit("h", {"k": "many"}) for _ in range(start, start + 200)))
    others = [await app.submit("h", {"k": f"few:{n}"}) for n in range(20)]
    async with working(app, concurrency=1):
        for receipt in others:
            await receipt.result(30)
    # by their order: how far the worker has come when we hear of a result is a matter of chance
    last = max(turns.index(f"few:{n}") for n in range(20))
    assert last < 20 * 17 + 50, "no more than a bounded run of the long lane for each of them"


async def test_an_idle_worker_is_woken_by_push(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "LOOK_S", 30.0)
    there, here = make_app(), make_app()
    for each in (there, here):

        @each.handler("h", key="k:{k}")
        async def h(turn: Turn[Any]) -> int:
            return int(turn.body["k"])

    async with working(there):
        for k in range(10):
            assert await (await here.submit("h", {"k": k})).result(20) == k


async def test_a_handler_that_only_one_worker_has_is_run_by_that_one(make_app: MakeApp) -> None:
    one, two = make_app(), make_app()

    @one.handler("a", key="k")
    async def a(turn: Turn[Any]) -> str:
        return "one"

    @two.handler("b", key="k")
    async def b(turn: Turn[Any]) -> str:
        return "two"

    async with working(one), working(two):
        receipts = [await (one.submit("a", n) if n % 2 else two.submit("b", n)) for n in range(10)]
        assert [await receipt.result(20) for receipt in receipts] == ["two", "one"] * 5


async def test_a_message_that_no_living_worker_can_run_shows(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "COUNT_S", 0.05)
    one, two = make_app(), make_app()

    @one.handler("known", key="a")
    async def known(turn: Turn[Any]) -> None: ...

    @two.handler("rare", key="b")
    async def rare(turn: Turn[Any]) -> None: ...

    await two.submit("rare", 1)
    async with working(one):
        (lane,) = await one.lanes.list()
        assert (lane.key, lane.status, lane.handler, lane.is_unhandled) == ("b", "ready", "rare", True)

        async def is_counted() -> bool:
            await one.submit("known", 1)
            return counted("inturn_lanes_unhandled", handler="rare") == 1

        await until(is_counted)
        async with working(two):
            await until_status(two, "b", "idle")
            await two.lanes.pause("b")
            await two.submit("rare", 2)

            async def is_handled() -> bool:
                await one.submit("known", 1)
                return counted("inturn_lanes_unhandled", handler="rare") == 0

            await until(is_handled)


async def test_cancelling_run_hands_back_what_runs_and_what_was_given(app: InTurn, other: InTurn) -> None:
    gate = Gate()
    before = counted("inturn_turns_total", outcome="handed back")

    @app.handler("h", key="k:{k}")
    async def h(turn: Turn[Any]) -> int:
        await gate.pass_through()
        return turn.attempt

    receipts = [await app.submit("h", {"k": k}) for k in (1, 1, 2)]
    async with working(app):
        await gate.reached.wait()
        await until_status(app, "k:2", "running")
    for k, waiting in ((1, 2), (2, 1)):
        info = await other.lanes.inspect(f"k:{k}")
        assert (info.status, info.waiting, info.messages[0].attempts) == ("ready", waiting, 0)
    assert counted("inturn_turns_total", outcome="handed back") == before + 2
    gate.opened.set()
    async with working(app):
        assert [await receipt.result(20) for receipt in receipts] == [1, 1, 1]


async def test_a_worker_that_is_cancelled_again_while_it_ends_hands_back_all_the_same_and_the_app_can_be_closed(
    make_app: MakeApp, other: InTurn
) -> None:
    app, gate, is_cancelled, may_stop = make_app(), Gate(), asyncio.Event(), asyncio.Event()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        try:
            await gate.pass_through()
        finally:
            is_cancelled.set()
            await may_stop.wait()

    await app.submit("h", 1)
    running = asyncio.create_task(app.run())
    await gate.reached.wait()
    running.cancel()
    await is_cancelled.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not may_stop.is_set(), "it did not wait for the handler"
    may_stop.set()
    await asyncio.wait_for(app.close(), 20)
    info = await until_status(other, "k", "ready")
    assert (info.waiting, info.messages[0].attempts) == (1, 0)


async def test_a_worker_that_was_handed_back_to_leaves_no_error_later(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    """Giving back is repeated when no bytes can be under way any more, and then finds the lane in any condition."""
    app = make_app(store_timeout=OVER_S)
    await until_open(app)
    gate = Gate()

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None:
        await gate.pass_through()

    await app.submit("h", 1)
    async with working(app):
        await gate.reached.wait()

    async def is_quiet() -> bool:
        return app.process.registry.is_empty()

    await until(is_quiet, 30)
    assert "beat failed" not in caplog.text
    assert (await app.lanes.inspect("k")).status == "ready"


async def test_a_worker_goes_on_when_the_store_was_away(fresh_redis: PrivateRedis, namespace: str) -> None:
    app = InTurn(fresh_redis.url, namespace=namespace, settings=Settings(store_timeout=OVER_S))
    await until_open(app)
    async with app:

        @app.handler("h", key="k", state=list)
        async def h(turn: Turn[list[int]]) -> int:
            turn.state.append(turn.body)
            return len(turn.state)

        async with working(app) as worker:
            assert await (await app.submit("h", 1)).result(20) == 1
            failed = counted("inturn_store_failures_total", verb="claim")
            fresh_redis.pause()

            async def is_away() -> bool:
                return counted("inturn_store_failures_total", verb="claim") > failed

            try:
                await until(is_away, 30)
            finally:
                fresh_redis.resume()
            assert not worker.done()
            receipt = await app.submit("h", 2)
            assert await receipt.result(20) == 2


async def test_running_without_a_handler_is_refused(app: InTurn) -> None:
    with pytest.raises(SettingsError, match="register a handler first"):
        await app.run()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"concurrency": 0}, ValueError, "concurrency=0: must be between 1 and 10000"),
        ({"concurrency": "4"}, TypeError, "concurrency='4': must be a whole number"),
        ({"grace": -1}, ValueError, "grace=-1: must be 0 seconds or more"),
        ({"grace": None}, TypeError, "grace=None: must be a number of seconds"),
    ],
)
async def test_bad_input_is_named(app: InTurn, options: dict[str, Any], error: type[Exception], says: str) -> None:
    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    with pytest.raises(error, match=says):
        await app.run(**options)


async def test_a_worker_says_when_it_begins_and_ends(app: InTurn, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "inturn.worker")

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    async with working(app, concurrency=3):
        await (await app.submit("h", 1)).result(20)
    assert "worker begins handlers=h concurrency=3" in caplog.text
    assert "worker ends: 0 turns were handed back" in caplog.text


async def test_sends_reach_lanes_of_every_partition_once_and_in_order(make_app: MakeApp) -> None:
    app = make_app(partitions=4)

    @app.handler("h", key="from:{n}")
    async def h(turn: Turn[Any]) -> None:
        for to in range(8):
            for n in range(3):
                turn.send("out", [turn.body["n"], n], key=f"to:{to}")

    @app.handler("out", state=list)
    async def out(turn: Turn[list[Any]]) -> None:
        turn.state.append(turn.body)

    async with working(app):
        receipts = [await app.submit("h", {"n": n}) for n in range(6)]
        for receipt in receipts:
            await receipt.result(20)
        for to in range(8):

            async def all_there(key: str = f"to:{to}") -> bool:
                return len((await app.lanes.inspect(key)).state or []) == 18

            await until(all_there)
    for to in range(8):
        arrived = (await app.lanes.inspect(f"to:{to}")).state
        for source in range(6):
            assert [n for where, n in arrived if where == source] == [0, 1, 2]


async def test_a_killed_connection_does_not_lose_the_sends_between_partitions(redis_url: str, namespace: str) -> None:
    """The forward is done by hand after the commit, or by any process's beat: here its first try finds no store."""
    settings = Settings(partitions=4, store_timeout=PATIENT_S)
    async with (
        InTurn(redis_url, namespace=namespace, settings=settings) as app,
        InTurn(redis_url, namespace=namespace, settings=settings) as other,
    ):

        @app.handler("out", state=list)
        async def out(turn: Turn[list[Any]]) -> None:
            turn.state.append(turn.body)

        async def nothing(source: int, target: int) -> int:
            return 0

        app.process.store.forward = nothing  # type: ignore[method-assign]
        async with app.turn("from") as turn:
            for to in range(8):
                turn.send("out", to, key=f"to:{to}")
        async with other.lock("anything"):  # a process that beats is enough
            for to in range(8):
                await until_waiting(other, f"to:{to}", 1)


async def test_a_worker_ends_although_a_handler_swallows_its_cancellation(
    app: InTurn, other: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message is handed back; what it does later cannot commit."""
    monkeypatch.setattr("inturn.lanes.worker.STUBBORN_S", 0.05)
    is_over = asyncio.Event()

    @app.handler("h", key="k", state=list)
    async def stubborn(turn: Turn[list[str]]) -> None:
        while not is_over.is_set():
            try:
                await is_over.wait()
            except asyncio.CancelledError:
                continue
        turn.state.append("stubborn")

    await app.submit("h", 1)
    async with working(app, grace=0):
        await until_status(app, "k", "running")
    info = await until_status(other, "k", "ready")
    assert (info.messages[0].attempts, info.state) == (0, None)
    is_over.set()
    await asyncio.sleep(0)
    assert (await other.lanes.inspect("k")).state is None


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
        assert await receipt.result(20) == 1


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

        await until(all_there)
    assert (await other.lanes.inspect("k")).state == list(range(200))


def keys_by_partition(app: InTurn, name: str, count: int) -> list[list[str]]:
    """So many keys in each partition."""
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    number = 0
    while any(len(keys) < count for keys in found):
        key = f"{name}{number}"
        keys = found[app.process.store.partition_of(key)]
        if len(keys) < count:
            keys.append(key)
        number += 1
    return found


async def test_no_handler_starves_in_any_partition(redis_url: str, namespace: str) -> None:
    ran: list[str] = []
    settings = Settings(partitions=PARTITIONS, store_timeout=PATIENT_S)
    async with InTurn(redis_url, namespace=namespace, settings=settings) as app:

        @app.handler("first", key="{k}")
        async def first(turn: Turn[Any]) -> None:
            ran.append(turn.key)

        @app.handler("second", key="{k}")
        async def second(turn: Turn[Any]) -> None:
            ran.append(turn.key)

        many, few = keys_by_partition(app, "first", BACKLOG), keys_by_partition(app, "second", 1)
        await asyncio.gather(*(app.submit("first", {"k": key}) for keys in many for key in keys))
        receipts = [await app.submit("second", {"k": keys[0]}) for keys in few]

        async def all_ran() -> bool:
            return len(ran) == PARTITIONS * (BACKLOG + 1)

        async with working(app, concurrency=1):
            for receipt in receipts:
                await receipt.result(20)
            await until(all_ran)
    ahead = [ran.index(keys[0]) for keys in few]
    assert max(ahead) < BACKLOG, f"so many turns came first: {ahead}"
    assert len(set(ran)) == len(ran)


async def test_turns_that_are_claimed_in_several_partitions_have_tokens_of_their_own(make_app: MakeApp) -> None:
    app = make_app(partitions=PARTITIONS)
    tokens: list[str] = []

    @app.handler("h", key="{k}")
    async def h(turn: Turn[Any]) -> None:
        tokens.append(turn._lease.token)
        await asyncio.sleep(0)

    async with app:
        receipts = await asyncio.gather(*(app.submit("h", {"k": f"k{n}"}) for n in range(200)))
        async with working(app, concurrency=20):
            for receipt in receipts:
                await receipt.result(20)
    assert len(tokens) == len(set(tokens)) == 200


async def test_a_claim_that_is_not_answered_holds_up_no_other_partition_and_its_room_is_kept(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(partitions=PARTITIONS, store_timeout=PATIENT_S)
    app = InTurn(redis_url, namespace=namespace, settings=settings)
    store = app.process.store
    slow, *others = [
        next(key for key in (f"k{n}" for n in range(1000)) if store.partition_of(key) == partition)
        for partition in range(store.partitions)
    ]
    really_claim, answered = store.claim, asyncio.Event()
    running: set[str] = set()
    ran: list[str] = []
    most = 0

    async def claim(call: str, can: Sequence[str], count: int, partition: int = 0) -> Claimed:
        claimed = await really_claim(call, can, count, partition)
        if partition == 0:
            await answered.wait()
        return claimed

    @app.handler("h", key="{k}")
    async def h(turn: Turn[Any]) -> None:
        nonlocal most
        running.add(turn.key)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.discard(turn.key)
        ran.append(turn.key)

    async with app:
        monkeypatch.setattr(store, "claim", claim)
        keys = [slow, *others] * 5
        await asyncio.gather(*(app.submit("h", {"k": key}) for key in keys))
        async with working(app, concurrency=2):
            await until(lambda: len(ran) == len(keys) - 5)
            assert slow not in ran, "or the test shows nothing"
            assert most == 1, "room is kept for what the first partition may bring"
            answered.set()
            await until(lambda: len(ran) == len(keys))
    assert most <= 2


async def test_a_worker_that_stops_gives_back_what_a_claim_under_way_was_given(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, other = make_app(), make_app()
    store = app.process.store
    really_claim, claimed = store.claim, asyncio.Event()

    async def claim(*arguments: Any) -> Claimed:
        turns = await really_claim(*arguments)
        if turns.turns:
            claimed.set()
            await asyncio.Event().wait()  # the answer never comes
        return turns

    attempts: list[int] = []
    for each in (app, other):

        @each.handler("h", key="k")
        async def h(turn: Turn[Any]) -> None:
            attempts.append(turn.attempt)

    async with app, other:
        monkeypatch.setattr(store, "claim", claim)
        receipt = await app.submit("h", 1)
        async with working(app):
            await claimed.wait()
        async with working(other):
            await receipt.result(20)
    assert attempts == [1]


async def test_a_claim_that_was_never_sent_leaves_nothing_to_give_back(
    app: InTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a worker whose store was away for minutes would have hundreds of claims to look for."""

    async def away(*_: object) -> None:
        raise NotAsked("away")

    monkeypatch.setattr(app.process.store, "claim", away)
    monkeypatch.setattr(app.process.store, "claim_lane", away)
    with pytest.raises(NotAsked):
        await app.runtime.claim(["h"], 1, 0)
    with pytest.raises(NotAsked):
        await app.runtime.claim_lane("k", ["h"])
    assert app.process.registry.leftovers == {}


async def test_a_turn_whose_task_never_began_is_handed_back(app: InTurn) -> None:
    """A worker that stops in the very tick in which it was given a lane cancels a task that has not run yet."""

    @app.handler("h", key="k")
    async def h(turn: Turn[Any]) -> None: ...

    await app.submit("h", 1)
    worker = worker_module.Worker(app.runtime, 1, 0.0)
    given = await app.runtime.claim_lane("k")
    assert given is not None
    worker.start(given).cancel()
    info = await until_status(app, "k", "ready")
    assert info.messages[0].attempts == 0


async def test_a_worker_for_some_handlers_leaves_the_others_alone(app: InTurn) -> None:
    ran: list[str] = []
    for name in ("mine", "theirs"):

        @app.handler(name)
        async def run(turn: Turn[None], name: str = name) -> None:
            ran.append(name)

    await app.submit("theirs", {}, key="k1")
    await app.submit("mine", {}, key="k2")
    pool = WorkerPool(app.runtime, 4, 10.0, {"mine"})
    pool.start()
    await until(lambda: ran == ["mine"])
    await until_status(app, "k2", "idle")
    lanes = {lane.key: lane.is_unhandled for lane in await app.lanes.list()}
    assert lanes == {"k1": True}
    other = WorkerPool(app.runtime, 4, 10.0, {"theirs"})
    other.start()
    await until(lambda: ran == ["mine", "theirs"])
    found = {row.name: row.workers for row in (await app.process.store.lanes(0)).handlers}
    assert found == {"mine": 1, "theirs": 1}  # the process runs both, whoever asked last
    assert all([await pool.stop(10), await other.stop(10)])


async def test_a_pool_that_stops_says_whether_its_turns_had_time(app: InTurn) -> None:
    began = asyncio.Event()

    @app.handler("slow")
    async def slow(turn: Turn[None]) -> None:
        began.set()
        await asyncio.Event().wait()

    await app.submit("slow", {}, key="k")
    pool = WorkerPool(app.runtime, 1, 600.0)
    pool.start()
    await began.wait()
    pool.begin_to_stop()
    pool.begin_to_stop()  # a second time: nobody waits for it
    assert await pool.stop(20) is False
    assert (await app.lanes.inspect("k")).waiting == 1
