"""Who has the floor alone has it alone, and is not kept waiting by those who share it."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.floor import Floor

LONG_S = 20
SHORT_S = 0.1


class Taker:
    """Takes the floor in a thread of its own, as another worker would, and has it until `leave`."""

    def __init__(self, folder: Path, *, alone: bool) -> None:
        self.has_it, self._may_leave = threading.Event(), threading.Event()
        self._floor = Floor(folder)
        self._thread = threading.Thread(target=self._take, args=(alone,), daemon=True)
        self._thread.start()

    def _take(self, alone: bool) -> None:
        with self._floor.taken(alone=alone):
            self.has_it.set()
            self._may_leave.wait(LONG_S)

    def leave(self) -> None:
        self._may_leave.set()
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()
        self._floor.close()


def test_many_share_it(tmp_path: Path) -> None:
    takers = [Taker(tmp_path, alone=False) for _ in range(3)]
    assert all(taker.has_it.wait(LONG_S) for taker in takers)
    for taker in takers:
        taker.leave()


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_who_has_it_alone_shares_it_with_nobody(tmp_path: Path, first: bool, second: bool) -> None:
    one = Taker(tmp_path, alone=first)
    assert one.has_it.wait(LONG_S)
    other = Taker(tmp_path, alone=second)
    assert not other.has_it.wait(SHORT_S)
    one.leave()
    assert other.has_it.wait(LONG_S)
    other.leave()


def test_newcomers_stand_behind_the_one_who_waits_to_have_it_alone(tmp_path: Path) -> None:
    here = Taker(tmp_path, alone=False)
    assert here.has_it.wait(LONG_S)
    alone = Taker(tmp_path, alone=True)
    assert not alone.has_it.wait(SHORT_S)
    newcomer = Taker(tmp_path, alone=False)
    assert not newcomer.has_it.wait(SHORT_S)
    here.leave()
    assert alone.has_it.wait(LONG_S)
    assert not newcomer.has_it.is_set()
    alone.leave()
    assert newcomer.has_it.wait(LONG_S)
    newcomer.leave()


def test_it_is_kept_from_one_test_to_the_next_and_no_longer(tmp_path: Path) -> None:
    with ExitStack() as stack:
        floor = Floor(tmp_path)
        stack.callback(floor.close)
        with floor.taken(alone=True, keep=True):
            pass
        other = Taker(tmp_path, alone=False)
        assert not other.has_it.wait(SHORT_S)
        with floor.taken(alone=True):
            assert not other.has_it.is_set()
        assert other.has_it.wait(LONG_S)
        other.leave()


def test_a_child_that_was_forked_meanwhile_keeps_nobody_out(tmp_path: Path) -> None:
    floor = Floor(tmp_path)
    with floor.taken(alone=True):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        other = Taker(tmp_path, alone=True)
        assert other.has_it.wait(LONG_S)
        other.leave()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        floor.close()
