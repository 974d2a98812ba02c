"""Synchronous turns that interrupt each other."""

from __future__ import annotations

import threading

import pytest

from inturn import Interrupted, sync
from tests.waiting import wait_until


def test_a_turn_interrupts_one_that_allows_it_and_begins_when_that_has_ended(
    app: sync.InTurn, other: sync.InTurn
) -> None:
    """Synchronous code cannot be cancelled: it sees that its turn is lost, and learns why at the end of the block."""
    seen: list[str] = []

    def interrupt() -> None:
        with other.turn("k", state=list, busy="interrupt", wait=20) as turn:
            seen.extend(turn.state)
            turn.state.append("second")

    thread = threading.Thread(target=interrupt)
    with pytest.raises(Interrupted), app.turn("k", state=list, interruptible=True) as turn:
        turn.state.append("never")
        thread.start()
        wait_until(lambda: turn.lost)
    thread.join(20)
    assert not thread.is_alive()
    assert seen == []
    assert app.lanes.inspect("k").state == ["second"]


def test_a_turn_that_does_not_allow_it_is_waited_for(app: sync.InTurn, other: sync.InTurn) -> None:
    def interrupt() -> None:
        with other.turn("k", state=list, busy="interrupt", wait=20) as turn:
            turn.state.append("second")

    thread = threading.Thread(target=interrupt)
    with app.turn("k", state=list) as turn:
        turn.state.append("first")
        thread.start()
        wait_until(lambda: other.lanes.inspect("k").waiting == 1)
        assert not turn.lost
    thread.join(20)
    assert not thread.is_alive()
    assert app.lanes.inspect("k").state == ["first", "second"]
