"""Policies, delays, watching and shared keys from synchronous code."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from inturn import Interrupted, LeaseLost, MessageCancelled, Superseded, Turn, sync
from tests.conftest import PATIENT_S
from tests.sync.conftest import PATIENT
from tests.waiting import wait_until


def add_echo(app: sync.InTurn, name: str = "echo", **options: Any) -> list[list[Any]]:
    seen: list[list[Any]] = []

    @app.handler(name, key="k", **options)
    def echo(turn: Turn[Any]) -> list[Any]:
        seen.append([message.body for message in turn.messages])
        return seen[-1]

    return seen


def test_a_message_has_a_priority(app: sync.InTurn, working: Callable[[], None]) -> None:
    seen = add_echo(app)
    receipts = [
        app.submit("echo", text, priority=priority) for text, priority in (("low", -1), ("plain", None), ("high", 5))
    ]
    working()
    for receipt in receipts:
        receipt.result(timeout=20)
    assert seen == [["high"], ["plain"], ["low"]]
    with pytest.raises(ValueError, match="priority=1001"):
        app.submit("echo", "x", priority=1001)


def test_a_message_can_be_delayed_and_taken_back(app: sync.InTurn, working: Callable[[], None]) -> None:
    seen = add_echo(app)
    working()
    submitted_at = time.monotonic()
    by_delay = app.submit("echo", "a", delay=4)  # so that none is due before all are here
    by_time = app.submit("echo", "b", not_before=datetime.now(UTC) + timedelta(seconds=5))
    taken_back = app.submit("echo", "c", message_id="c", delay=4)
    assert [by_delay.status, by_time.status, taken_back.status] == ["delayed"] * 3
    assert taken_back.cancel() is True
    assert by_delay.result(timeout=20) == ["a"]
    assert time.monotonic() - submitted_at >= 3.99
    assert by_time.result(timeout=20) == ["b"]
    assert by_delay.cancel() is False
    with pytest.raises(MessageCancelled):
        taken_back.result(timeout=20)
    assert app.submit("echo", "c", message_id="c").status == "cancelled"
    with pytest.raises(ValueError, match="give delay= or not_before=, not both"):
        app.submit("echo", "x", delay=1, not_before=0)
    assert seen == [["a"], ["b"]]


def test_a_burst_is_merged_and_has_one_result(app: sync.InTurn, working: Callable[[], None]) -> None:
    seen = add_echo(app, busy="merge", quiet=4)  # it does not pass between two of them
    working()
    receipts = [app.submit("echo", text) for text in "abc"]
    assert [receipt.result(timeout=20) for receipt in receipts] == [["a", "b", "c"]] * 3
    assert seen == [["a", "b", "c"]]


def test_latest_supersedes(app: sync.InTurn, working: Callable[[], None]) -> None:
    add_echo(app, busy="latest")
    old, new = app.submit("echo", "a", message_id="a"), app.submit("echo", "b")
    working()
    assert new.result(timeout=20) == ["b"]
    with pytest.raises(Superseded):
        old.result(timeout=20)
    assert app.submit("echo", "a", message_id="a").status == "superseded"


def test_contradictory_options_are_refused_at_once(app: sync.InTurn) -> None:
    with pytest.raises(ValueError, match="quiet="):
        app.handler("x", quiet=1)(print)
    with pytest.raises(ValueError, match="busy="):
        app.handler("x", busy=("merge", "reject"))(print)


def test_a_turn_that_allows_it_is_interrupted_and_told_at_its_end(app: sync.InTurn, other: sync.InTurn) -> None:
    """Synchronous code cannot be cancelled: it sees that its turn is lost, or learns it at the end of the block."""
    add_echo(other, busy="interrupt")
    with pytest.raises(Interrupted), app.turn("k", state=list, interruptible=True) as turn:
        turn.state.append("never")
        assert not turn.lost
        thread = threading.Thread(target=other.submit, args=("echo", "a"))
        thread.start()
        thread.join()
        wait_until(lambda: turn.lost)
    lane = app.lanes.inspect("k")
    assert (lane.state, lane.waiting) == (None, 1)


def test_nothing_runs_beside_the_rest_of_an_interrupted_block_for_a_second(
    app: sync.InTurn, other: sync.InTurn, working: Callable[[], None]
) -> None:
    """The block has not ended when it is interrupted, as nobody can end it."""
    began: list[float] = []

    @app.handler("next", key="k", busy="interrupt")
    def next_turn(turn: Turn[Any]) -> None:
        began.append(time.monotonic())

    working()
    with pytest.raises(Interrupted), other.turn("k", interruptible=True) as turn:
        interrupted_at = time.monotonic()
        receipt = app.submit("next", "a")
        receipt.result(timeout=20)
        wait_until(lambda: turn.lost)  # the other app may hear of it later than we of the result
    assert 0.95 < began[0] - interrupted_at < 15, "its lease would never have ended by itself"


def test_a_turn_that_does_not_allow_it_is_not(app: sync.InTurn, other: sync.InTurn) -> None:
    add_echo(other, busy="interrupt")
    with app.turn("k", state=list) as turn:
        turn.state.append("kept")
        thread = threading.Thread(target=other.submit, args=("echo", "a"))
        thread.start()
        thread.join()
        assert not turn.lost
    assert app.lanes.inspect("k").state == ["kept"]


def test_a_handler_streams_and_a_watcher_reads(
    app: sync.InTurn, other: sync.InTurn, working: Callable[[], None]
) -> None:
    @app.handler("talk", key="k")
    def talk(turn: Turn[Any]) -> str:
        for number in range(3):
            turn.stream(number)
        return "done"

    working()
    with other.watch("k") as events:
        assert events.next(timeout=0.01) is None
        assert app.submit("talk", None, message_id="m").result(timeout=20) == "done"
        seen = []
        for event in events:
            seen.append(event)
            if event.what == "commit":
                break
    assert [event.data if event.what == "chunk" else event.what for event in seen] == ["begin", 0, 1, 2, "commit"]
    assert (seen[0].handler, seen[0].id) == ("talk", "m")
    assert len({event.fence for event in seen}) == 1
    with pytest.raises(StopIteration):
        events.next(timeout=1)


def test_closing_a_watch_ends_the_loop_of_another_thread(app: sync.InTurn) -> None:
    watch = app.watch("k")
    ended = threading.Event()

    def read() -> None:
        with watch:
            is_open.set()
            for _ in watch:
                pass
        ended.set()

    is_open = threading.Event()
    thread = threading.Thread(target=read)
    thread.start()
    assert is_open.wait(20)
    watch.close()
    assert ended.wait(20)
    thread.join()


def test_an_inline_turn_streams(app: sync.InTurn, other: sync.InTurn) -> None:
    with other.watch("k") as events, app.turn("k") as turn:
        turn.stream("hello")
        found = [events.next(timeout=20), events.next(timeout=20)]
    assert [event.what for event in found if event is not None] == ["begin", "chunk"]


def test_a_lock_is_as_before(app: sync.InTurn, other: sync.InTurn) -> None:
    with app.lock("x") as lease:
        assert lease.fence > 0
        assert not other.lock("x", wait=0).acquire(blocking=False)
    with other.lock("x", wait=20):
        pass


def test_a_turn_shares_a_plain_key(redis_url: str, namespace: str) -> None:
    key = f"lock:conv:{namespace}"
    with (
        sync.InTurn(redis_url, namespace=namespace, settings=PATIENT) as app,
        redis.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client,
    ):
        with app.turn("k", shares=key):
            assert client.set(key, "theirs", nx=True, px=30_000) is None
        assert client.get(key) is None
        with pytest.raises(KeyError), app.turn("k", shares=key):
            raise KeyError
        assert client.set(key, "theirs", nx=True, px=300)
        with app.turn("k", shares=key, wait=20):
            assert client.get(key) not in (None, b"theirs")
        with pytest.raises(LeaseLost, match="plain key"), app.turn("k", shares=key) as turn:
            client.set(key, "theirs", px=30_000)
            wait_until(lambda: turn.lost)
        assert client.get(key) == b"theirs"
        client.delete(key)
