"""Who is on the floor at the same time, and that nobody is kept waiting for ever."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from tests.floor import Floor, Way, in_parts
from tests.waiting import wait_until

ALONE, TIMED, SHARED = Way.ALONE, Way.TIMED, Way.SHARED
LONG_S = 20
SHORT_S = 0.1


class Taker:
    """Takes the floor in a thread of its own, as another worker would, and has it until `leave`."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.has_it, self._may_leave = threading.Event(), threading.Event()
        self._floor = Floor(folder)
        self._thread = threading.Thread(target=self._take, args=(way,), daemon=True)
        self._thread.start()

    def _take(self, way: Way) -> None:
        with self._floor.taken(way):
            self.has_it.set()
            self._may_leave.wait(LONG_S)

    def leave(self) -> None:
        self._may_leave.set()
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()
        self._floor.close()


def is_held(path: Path) -> bool:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("way", [TIMED, SHARED])
def test_many_of_a_kind_have_it_together(tmp_path: Path, way: Way) -> None:
    takers = [Taker(tmp_path, way) for _ in range(3)]
    assert all(taker.has_it.wait(LONG_S) for taker in takers)
    for taker in takers:
        taker.leave()


@pytest.mark.parametrize(
    ("first", "second"), [pair for pair in product(Way, Way) if pair[0] is not pair[1] or ALONE in pair]
)
def test_two_kinds_never_meet_and_alone_is_alone(tmp_path: Path, first: Way, second: Way) -> None:
    one = Taker(tmp_path, first)
    assert one.has_it.wait(LONG_S)
    other = Taker(tmp_path, second)
    assert not other.has_it.wait(SHORT_S)
    one.leave()
    assert other.has_it.wait(LONG_S)
    other.leave()


@pytest.mark.parametrize("way", [ALONE, TIMED])
def test_newcomers_stand_behind_one_of_another_kind_who_waits(tmp_path: Path, way: Way) -> None:
    here = Taker(tmp_path, SHARED)
    assert here.has_it.wait(LONG_S)
    waiting = Taker(tmp_path, way)
    wait_until(lambda: is_held(tmp_path / "timed"))  # its thread may be slow to come to it
    assert not waiting.has_it.wait(SHORT_S)
    newcomer = Taker(tmp_path, SHARED)
    assert not newcomer.has_it.wait(SHORT_S)
    here.leave()
    assert waiting.has_it.wait(LONG_S)
    assert not newcomer.has_it.is_set()
    waiting.leave()
    assert newcomer.has_it.wait(LONG_S)
    newcomer.leave()


def test_timed_ones_come_in_beside_a_timed_one_while_a_shared_one_waits(tmp_path: Path) -> None:
    here = Taker(tmp_path, TIMED)
    assert here.has_it.wait(LONG_S)
    waiting = Taker(tmp_path, SHARED)
    assert not waiting.has_it.wait(SHORT_S)
    newcomer = Taker(tmp_path, TIMED)
    assert newcomer.has_it.wait(LONG_S)
    here.leave()
    assert not waiting.has_it.wait(SHORT_S)
    newcomer.leave()
    assert waiting.has_it.wait(LONG_S)
    waiting.leave()


def test_it_is_kept_from_one_test_to_the_next_and_no_longer(tmp_path: Path) -> None:
    with ExitStack() as stack:
        floor = Floor(tmp_path)
        stack.callback(floor.close)
        with floor.taken(ALONE, keep=True):
            pass
        other = Taker(tmp_path, SHARED)
        assert not other.has_it.wait(SHORT_S)
        with floor.taken(ALONE):
            assert not other.has_it.is_set()
        assert other.has_it.wait(LONG_S)
        other.leave()


def test_a_child_that_was_forked_meanwhile_keeps_nobody_out(tmp_path: Path) -> None:
    floor = Floor(tmp_path)
    with floor.taken(ALONE):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        other = Taker(tmp_path, ALONE)
        assert other.has_it.wait(LONG_S)
        other.leave()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        floor.close()


def test_the_first_worker_begins_with_what_runs_alone_and_each_other_one_with_its_share_of_the_timed_ones() -> None:
    items = [(SHARED, n) for n in range(20)] + [(TIMED, 100 + n) for n in range(5)] + [(ALONE, 200)]
    ordered = in_parts(items, 4)
    assert sorted(ordered) == sorted(n for _, n in items)
    parts = [ordered[:6], ordered[6:12], ordered[12:19], ordered[19:]]  # 26 // 4, 20 // 3, 14 // 2, the rest
    assert [[n for n in part if n >= 100] for part in parts] == [[200], [100, 103], [101, 104], [102]]
    assert all(part[: len(timed)] == timed for part in parts if (timed := [n for n in part if n >= 100]))
    assert [n for n in ordered if n < 100] == list(range(20)), "the others stay in their order"


def test_a_few_items_for_many_workers_are_all_there() -> None:
    assert sorted(in_parts([(ALONE, 1), (ALONE, 2), (ALONE, 3), (TIMED, 4)], 4)) == [1, 2, 3, 4]
    assert in_parts([], 4) == []
    assert in_parts([(SHARED, 1), (TIMED, 2), (ALONE, 3)], 1) == [3, 2, 1]
