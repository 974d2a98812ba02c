"""A disk that becomes full, by our own log or by others: writes are refused in words, and go on when there is room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import Child
from tests.waiting import wait_until

MIB = 1024 * 1024


class SmallDisk:
    def __init__(self, child: Child) -> None:
        self._child = child

    def do(self, what: str, **how: Any) -> str:
        self._child.tell(what, **how)
        text: str = self._child.hears("answer")["text"]
        return text


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    child = Child("tests.store.sqlite.small_disk", str(tmp_path), "32")
    yield SmallDisk(child)
    child.end()


def test_a_log_behind_a_stopped_reader_leaves_the_room_that_its_check_point_needs(disk: SmallDisk) -> None:
    assert disk.do("write", mib=1) == "written"
    reader = disk.do("read")
    refused = disk.do("write", mib=40)
    assert "leaves no room on the disk" in refused
    assert f"process {reader} (" in refused
    assert int(disk.do("log")) > 8 * MIB, "it was the log that was too long"
    assert "leaves no room" in disk.do("write", mib=1), "and it stays refused while the reader is there"
    disk.do("end_reader")
    wait_until(lambda: disk.do("write", mib=1 / 64) == "written")  # it looks twice a second whether the reader has gone
    assert disk.do("write", mib=4) == "written"
    assert int(disk.do("log")) < 6 * MIB


def test_a_disk_that_others_fill_is_said_and_writes_go_on_when_there_is_room(disk: SmallDisk) -> None:
    assert disk.do("write", mib=1) == "written"
    disk.do("fill")
    assert "the disk is full; free some space" in disk.do("write", mib=16)
    disk.do("clear")
    assert disk.do("write", mib=1) == "written"


def test_a_disk_that_is_full_when_the_reader_goes_recovers_when_there_is_room(disk: SmallDisk) -> None:
    """The database file has to grow before the log can become shorter."""
    assert disk.do("write", mib=1) == "written"
    disk.do("read")
    assert disk.do("write", mib=2) == "written"
    disk.do("fill")
    assert "no room on the disk" in disk.do("write", mib=4)
    disk.do("end_reader")
    wait_until(lambda: "cannot be written into the database file" in disk.do("write", mib=4))
    disk.do("clear")
    wait_until(lambda: disk.do("write", mib=4) == "written")


def test_a_log_that_fills_the_disk_is_emptied_by_the_first_write_after_its_reader_has_gone(disk: SmallDisk) -> None:
    """Others took the room while the log was long, so that there is no commit after which SQLite would shorten it."""
    assert disk.do("write", mib=4) == "written"
    disk.do("read")
    assert disk.do("rewrite", times=100) == "written"
    disk.do("fill")
    assert "the disk is full" in disk.do("rewrite", times=1000)
    disk.do("end_reader")
    assert disk.do("rewrite", times=100) == "written"
