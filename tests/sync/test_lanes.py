"""Lanes from synchronous code: handlers, receipts, turns in a `with` block, a worker that blocks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from inturn import (
    DuplicateMessage,
    HandlerFailed,
    LaneBusy,
    LeaseLost,
    SettingsError,
    Stop,
    StoreUnavailable,
    Turn,
    sync,
)
from inturn.errors import OwnLane
from inturn.process.waiter import Waiter
from inturn.store.protocol import Request
from tests.sync.conftest import PATIENT
from tests.waiting import wait_until


def add_count(app: sync.InTurn) -> None:
    @app.handler("count", key="user:{user}", message_id="{id}", state=dict)
    def count(turn: Turn[dict[str, int]]) -> int:
        turn.state["n"] = turn.state.get("n", 0) + 1
        return turn.state["n"]


# -- submit and run --------------------------------------------------------------------------------------------------


def test_a_receipt_waits_for_the_result(app: sync.InTurn, working: Callable[[], None]) -> None:
    add_count(app)
    first = app.submit("count", {"user": 1, "id": "a"})
    assert (first.status, first.key, first.handler, first.id) == ("accepted", "user:1", "count", "a")
    with pytest.raises(TimeoutError):
        first.result(timeout=0.05)
    working()
    assert first.result(timeout=20) == 1
    assert app.submit("count", {"user": 1, "id": "b"}).result(timeout=20) == 2
    again = app.submit("count", {"user": 1, "id": "a"})
    assert again.is_duplicate
    assert again.result(timeout=20) == 1
    assert isinstance(again, sync.Receipt)


def test_a_failure_is_raised_by_the_receipt_and_can_be_replayed(app: sync.InTurn, working: Callable[[], None]) -> None:
    is_broken = threading.Event()
    is_broken.set()

    @app.handler("fragile", key="k", message_id="{id}")
    def fragile(turn: Turn[Any]) -> str:
        if is_broken.is_set():
            raise Stop("broken")
        return "whole"

    working()
    with pytest.raises(HandlerFailed, match="broken"):
        app.submit("fragile", {"id": "x"}).result(timeout=20)
    (letter,) = app.dead_letters.list()
    assert app.dead_letters.show("k", "fragile", "x") == letter
    is_broken.clear()
    assert app.dead_letters.replay("k", "fragile", "x")
    assert not app.dead_letters.drop("k", "fragile", "x")
    wait_until(lambda: app.lanes.inspect("k").status == "idle")
    assert app.submit("fragile", {"id": "x"}).result(timeout=20) == "whole"


def test_the_lanes_can_be_looked_at_and_stopped(app: sync.InTurn) -> None:
    add_count(app)
    app.lanes.pause("user:1", "for a while")
    app.submit("count", {"user": 1, "id": "a"})
    (lane,) = app.lanes.list()
    assert (lane.key, lane.status, lane.why, lane.waiting) == ("user:1", "paused", "for a while", 1)
    assert app.lanes.resume("user:1")
    assert not app.lanes.resume("user:1")
    assert app.lanes.inspect("user:1").messages[0].id == "a"
    assert app.lanes.clear("user:1") == 1
    assert app.lanes.list() == []


def test_a_handler_that_waits_for_its_own_lane_is_refused(app: sync.InTurn, working: Callable[[], None]) -> None:
    @app.handler("selfish", key="k", on_failure="skip")
    def selfish(turn: Turn[Any]) -> None:
        app.submit("selfish", None).result()

    working()
    with pytest.raises(HandlerFailed, match="OwnLane"):
        app.submit("selfish", None).result(timeout=20)


def test_there_must_be_something_to_run(app: sync.InTurn) -> None:
    with pytest.raises(SettingsError, match="register a handler"):
        app.run()


WORKER = """
import logging, sys, time
from pathlib import Path
from inturn import sync
app = sync.InTurn(sys.argv[1], namespace=sys.argv[2])
told = logging.getLogger("inturn.worker")
told.setLevel(logging.INFO)
told.addHandler(logging.StreamHandler(sys.stdout))

@app.handler("slow", key="{key}")
def slow(turn):
    Path(turn.body["until"] + ".waits").touch()
    while not Path(turn.body["until"]).exists():
        time.sleep(0.01)
    return "done"

print("up", flush=True)
with app:
    app.run(concurrency=2, grace=float(sys.argv[3]))
print("ended well", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_blocking_worker_in_good_order(
    number: signal.Signals, store_url: str, namespace: str, app: sync.InTurn, tmp_path: Path
) -> None:
    @app.handler("slow", key="{key}")
    def slow(turn: Turn[Any]) -> None:
        raise AssertionError("it runs elsewhere")

    opened = tmp_path / "opened"
    running = app.submit("slow", {"key": "a", "until": str(opened)})
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, store_url, namespace, "20"], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    with worker.stdout:
        wait_until((tmp_path / "opened.waits").exists)  # the store knows of a turn before its worker does
        worker.send_signal(number)
        begins = [worker.stdout.readline() for _ in range(3)]
        assert begins[::2] == ["up\n", "worker stops: 1 running turns have 20 s to finish\n"]
        opened.touch()  # not before: it is the worker that waits for its turn
        assert worker.stdout.read() == "worker ends: 0 turns were handed back\nended well\n"
    assert worker.wait(20) == 0
    assert running.result(timeout=20) == "done"


def test_a_signal_before_the_worker_has_begun_ends_it_too(sqlite_url: str) -> None:
    """The store's check is what takes time at the start: here it takes as long as the signal does."""
    app = sync.InTurn(sqlite_url, settings=PATIENT)
    add_count(app)
    ready = app.inner.process.ready

    async def ready_after_a_signal() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await ready()
        await asyncio.Event().wait()

    app.inner.process.ready = ready_after_a_signal  # type: ignore[method-assign]
    before = signal.getsignal(signal.SIGTERM)
    app.run()
    assert signal.getsignal(signal.SIGTERM) is before
    app.inner.process.ready = ready  # type: ignore[method-assign]
    app.close()


# -- turns -----------------------------------------------------------------------------------------------------------


def test_a_turn_commits_at_the_end_of_the_block(app: sync.InTurn, other: sync.InTurn) -> None:
    add_count(app)
    with app.turn("user:1", message_id="m1", state=dict, ttl=20) as turn:
        assert turn.fence > 0
        assert not turn.lost
        assert turn.remaining() > 10
        turn.state["n"] = 41
        turn.result = "hello"
        turn.send("count", {"user": 1, "id": "x"}, key="user:2")
        with pytest.raises(LaneBusy), other.turn("user:1", busy="reject"):
            pass
        assert other.lanes.inspect("user:1").status == "running"
    lane = other.lanes.inspect("user:1")
    assert (lane.status, lane.state, lane.version) == ("idle", {"n": 41}, 1)
    assert other.lanes.inspect("user:2").waiting == 1


def test_a_duplicate_turn_carries_a_receipt_that_blocks(app: sync.InTurn, other: sync.InTurn) -> None:
    with app.turn("k", message_id="m1") as turn:
        turn.result = {"answer": 42}
    with pytest.raises(DuplicateMessage) as caught, other.turn("k", message_id="m1"):
        raise AssertionError("it must not begin")
    receipt = caught.value.receipt
    assert isinstance(receipt, sync.Receipt)
    assert receipt.result(timeout=20) == {"answer": 42}


def test_a_body_that_raises_leaves_nothing_behind(app: sync.InTurn) -> None:
    with pytest.raises(KeyError, match="mine") as caught, app.turn("k", state=dict) as turn:
        turn.state["n"] = 1
        raise KeyError("mine")
    frames = [entry.path.name for entry in caught.traceback if hasattr(entry.path, "name")]
    assert "lanes.py" not in frames, "the traceback is the body's own"
    lane = app.lanes.inspect("k")
    assert (lane.status, lane.state) == ("idle", None)


def test_an_interrupt_in_the_body_does_not_end_the_background_loop(app: sync.InTurn) -> None:
    with pytest.raises(KeyboardInterrupt), app.turn("k"):
        raise KeyboardInterrupt
    assert app.lanes.inspect("k").status == "idle"
    with app.turn("k"):
        pass


def test_a_loss_is_flagged_and_raised_at_the_end(app: sync.InTurn, other: sync.InTurn) -> None:
    with pytest.raises(LeaseLost), app.turn("k", state=dict) as turn:
        turn.state["n"] = 1
        other.lanes.clear("k")
        wait_until(lambda: turn.lost)
    assert app.lanes.inspect("k").state is None


def test_the_bodys_error_is_not_hidden_by_the_loss(app: sync.InTurn, other: sync.InTurn) -> None:
    with pytest.raises(KeyError, match="mine"), app.turn("k") as turn:
        other.lanes.clear("k")
        wait_until(lambda: turn.lost)
        raise KeyError("mine")


def test_a_turn_within_a_turn_of_the_same_lane_is_refused(app: sync.InTurn) -> None:
    with app.turn("k"):
        with pytest.raises(OwnLane), app.turn("k"):
            pass
        with app.turn("another"), pytest.raises(OwnLane), app.turn("k"):
            pass
    with app.turn("k"):
        pass


def test_threads_take_turns(app: sync.InTurn) -> None:
    def add() -> None:
        for _ in range(5):
            with app.turn("k", state=dict) as turn:
                read = turn.state.get("n", 0)
                time.sleep(0.0005)
                turn.state["n"] = read + 1

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert app.lanes.inspect("k").state == {"n": 20}
    assert app.lanes.state("k", dict) == {"n": 20}


def test_an_interrupt_while_waiting_leaves_the_mailbox(app: sync.InTurn, other: sync.InTurn) -> None:
    """Ctrl-C arrives while the main thread waits for its turn."""
    with other.turn("k"):

        def interrupt() -> None:
            wait_until(lambda: other.lanes.inspect("k").waiting == 1)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt), app.turn("k"):
            raise AssertionError("it must not begin")
        thread.join()
        wait_until(lambda: other.lanes.inspect("k").waiting == 0)
    assert other.lanes.inspect("k").status == "idle"


def test_an_interrupt_before_the_wait_has_begun_leaves_the_mailbox(
    app: sync.InTurn, other: sync.InTurn, ctrl_c_once: Callable[[Callable[[], object]], None]
) -> None:
    with other.turn("k"):
        ctrl_c_once(lambda: other.lanes.inspect("k").waiting == 1)
        with pytest.raises(KeyboardInterrupt), app.turn("k"):
            raise AssertionError("it must not begin")
        wait_until(lambda: other.lanes.inspect("k").waiting == 0)
    assert other.lanes.inspect("k").status == "idle"


def test_an_interrupt_before_a_turn_is_known_to_have_begun_gives_it_back(
    app: sync.InTurn, other: sync.InTurn, ctrl_c_once: Callable[[Callable[[], object]], None]
) -> None:
    ctrl_c_once(lambda: other.lanes.inspect("k").status == "running")
    with pytest.raises(KeyboardInterrupt), app.turn("k"):
        raise AssertionError("it must not begin")
    wait_until(lambda: other.lanes.inspect("k").status == "idle")


def test_closing_the_app_ends_the_wait_for_a_turn(store_url: str, namespace: str, other: sync.InTurn) -> None:
    app = sync.InTurn(store_url, namespace=namespace, settings=PATIENT)
    ended: list[BaseException] = []

    def wait_for_it() -> None:
        try:
            with app.turn("k"):
                raise AssertionError("it must not begin")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at below
            ended.append(error)

    with other.turn("k"):
        thread = threading.Thread(target=wait_for_it)
        thread.start()
        wait_until(lambda: other.lanes.inspect("k").waiting == 1)
        app.close()
        thread.join(20)
        assert not thread.is_alive()
    assert isinstance(ended[0], StoreUnavailable)
    assert "closed" in str(ended[0])


def test_a_turn_is_entered_once(app: sync.InTurn) -> None:
    once = app.turn("k")
    with once:
        pass
    with pytest.raises(RuntimeError, match="entered only once"), once:
        pass


def test_bad_options_are_refused_at_once(app: sync.InTurn) -> None:
    with pytest.raises(ValueError, match="busy="):
        app.turn("k", busy="shout")
    with pytest.raises(ValueError, match=">"):
        app.turn("a>b")
    with pytest.raises(ValueError, match="busy="):
        app.handler("x", busy="shout")(print)


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_be_told_rolls_the_turn_back_all_the_same(app: sync.InTurn, other: sync.InTurn) -> None:
    with pytest.raises(Wordless), app.turn("k", state=list) as turn:
        turn.state.append("never")
        raise Wordless
    with other.turn("k", state=list, wait=5) as turn:
        assert turn.state == []


def test_a_child_that_is_forked_inside_a_turn_does_not_hold_it(app: sync.InTurn) -> None:
    """It is the parent's: leaving the block says so in the child, and does not wait for a thread that it has not."""
    parent = os.getpid()
    try:
        with app.turn("k", state=list) as turn:
            turn.state.append("parent")
            child = os.fork()
    except LeaseLost:
        os._exit(0 if os.getpid() != parent else 1)
    if child == 0:
        os._exit(1)
    wait_until(lambda: os.waitpid(child, os.WNOHANG) == (child, 0))
    assert app.lanes.inspect("k").state == ["parent"]


def test_turns_of_threads_that_want_each_others_lanes_end_with_one_of_them(
    app: sync.InTurn, other: sync.InTurn
) -> None:
    both_hold = threading.Barrier(2)

    def nested(mine: sync.InTurn, first: str, second: str) -> str:
        with mine.turn(first):
            both_hold.wait(20)
            with mine.turn(second, wait=60):
                return "done"

    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(nested, app, "A", "B"), threads.submit(nested, other, "B", "A")]
        failures = [future.exception(60) for future in asked]
    assert sorted(type(failure).__name__ for failure in failures) == ["DeadlockDetected", "NoneType"]


def test_a_thread_that_holds_a_lock_and_one_that_has_a_turn_do_not_wait_for_each_other(
    app: sync.InTurn, other: sync.InTurn
) -> None:
    both_hold = threading.Barrier(2)

    def lock_first() -> None:
        with app.lock("L"):
            both_hold.wait(60)
            with app.turn("A", wait=60):
                pass

    def turn_first() -> None:
        with other.turn("A"):
            both_hold.wait(60)
            with other.lock("L", wait=60):
                pass

    with ThreadPoolExecutor(2) as threads:
        failures = [future.exception(60) for future in [threads.submit(lock_first), threads.submit(turn_first)]]
    assert sorted(type(failure).__name__ for failure in failures) == ["DeadlockDetected", "NoneType"]


def test_what_a_thread_may_have_released_elsewhere_does_not_block_it(app: sync.InTurn) -> None:
    """It took it with `acquire`, so any other thread may release it; a block that it has left keeps nothing."""
    taken, runtime = app.lock("b"), app.inner.process
    with app.lock("a"):
        assert taken.acquire()
        assert runtime.owner_behind(waiting_here())
    assert not runtime.owner_behind(waiting_here())
    taken.release()


def waiting_here() -> Waiter:
    async def wait() -> Waiter:
        return Waiter(Request("n", "t", "o", 1, 1, 1000, 0, 0, wait=True), AsyncMock(), 1.0)

    return asyncio.run(wait())
