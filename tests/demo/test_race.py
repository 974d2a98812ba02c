"""`inturn demo`: the race is real, the cure is real, and what is told of them follows from the recorded times."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

import pytest

from benchmarks import machine
from inturn.cli.terminal import Screen
from inturn.demo.race import show_race
from inturn.demo.timeline import Body, History, timeline

COMMAND = [sys.executable, "-m", "inturn.cli.main", "demo"]


def history(*bodies: tuple[int, float, float, float], counter: int = 0) -> History:
    return History(0.0, len(bodies), [Body(*body) for body in bodies], counter)


def drawn(run: History, *, width: int = 63, colour: bool = False) -> list[str]:
    return timeline(run, Screen(StringIO(), width=width, is_terminal=colour))


def child_pids(parent: int) -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}


def others_s() -> float:
    """For how long other programs have kept all processors of this machine busy; none, if the system does not tell."""
    busy_s = machine._busy_s()
    return 0.0 if busy_s is None else (busy_s - machine._own_s()) / (os.cpu_count() or 1)


def numbers_of(out: str, label: str) -> list[float]:
    (line,) = [line for line in out.splitlines() if line.startswith(label)]
    return [float(number) for number in re.findall(r"[\d.]+", line.removeprefix(label))]


@pytest.mark.timed
@pytest.mark.timeout(120)
def test_the_demo_shows_the_race_and_its_cure_within_15_seconds(tmp_path: Path) -> None:
    started_at, others_before_s = time.monotonic(), others_s()
    done = subprocess.run(
        COMMAND, cwd=tmp_path, env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, timeout=100
    )
    # for as long as other programs had all processors it could not go on
    assert time.monotonic() - started_at - (others_s() - others_before_s) < 15
    assert (done.returncode, done.stderr) == (0, "")
    out = done.stdout
    assert numbers_of(out, "increments asked") == [40, 40]
    lost, none_lost = numbers_of(out, "lost updates")
    counted, all_counted = numbers_of(out, "the counter says")
    assert lost > 0
    assert counted == 40 - lost
    assert (none_lost, all_counted) == (0, 40)
    pairs, no_pairs = numbers_of(out, "bodies that overlapped (pairs)")
    assert pairs > 0
    assert no_pairs == 0
    assert numbers_of(out, "bodies at once, at most")[1] == 1
    assert "▒" in out  # overlap is visible without colour, too
    assert all(len(line) <= 100 for line in out.splitlines())
    assert list(tmp_path.iterdir()) == []  # it works in a folder of its own, and leaves nothing behind


def test_ctrl_c_ends_the_demo_and_its_processes() -> None:
    demo = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 50
    while len(workers := child_pids(demo.pid)) < 8:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=50)
    assert (demo.returncode, err) == (130, "")
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_workers_end_when_the_demo_is_killed() -> None:
    demo = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 50
    while len(workers := child_pids(demo.pid)) < 8:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    folders = {Path(arg.decode()).parent for pid in workers for arg in cmdline(pid) if arg.endswith(b"/counter")}
    demo.kill()
    demo.communicate()
    while any(is_running(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for folder in folders:
        assert folder.parent == Path(tempfile.gettempdir())
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def cmdline(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def is_running(pid: int) -> bool:
    """A process whose parent was killed may stay a zombie, where nobody collects them."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_updates_that_are_lost_under_the_lock_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run, with a lock that lets everyone in."""
    monkeypatch.setattr("inturn.demo.race.MODULE", "tests.demo.broken_counter")
    out = StringIO()
    assert show_race(Screen(out, width=100)) == 1
    assert "That must not happen" in out.getvalue()


# -- what follows from the times -------------------------------------------------------------------------------------


def test_bodies_that_only_touch_do_not_overlap() -> None:
    run = history((0, 0, 0, 1), (1, 0, 1, 2), (0, 1, 2, 3), counter=3)
    assert run.overlaps() == (0, 1)
    assert run.together() == []
    assert run.hand_overs() == [0, 0]
    assert run.lost == 0


def test_overlaps_are_counted_in_pairs_and_at_once() -> None:
    run = history((0, 0, 0, 4), (1, 0, 1, 3), (2, 0, 2, 5), (3, 0, 7, 8), counter=2)
    assert run.overlaps() == (3, 3)
    assert run.together() == [(1, 4)]
    assert run.lost == 2


def test_a_hand_over_to_the_same_process_is_none() -> None:
    run = history((0, 0, 0, 1), (0, 1, 1.5, 2), (1, 0, 2.25, 3))
    assert run.hand_overs() == [0.25]


def test_the_picture_shows_waiting_bodies_and_overlap() -> None:
    rows = drawn(history((0, 0, 0, 6), (1, 0, 4, 8), (2, 0, 8, 10)), width=24)
    assert rows[0].split("▏")[1].rstrip() == "████▒▒"
    assert rows[1].split("▏")[1].rstrip() == "····▒▒██"
    assert rows[2].split("▏")[1].rstrip() == "········██"
    assert rows[8].split()[-1] == "1111221111"
    assert rows[9].rstrip().endswith("10,000 ms")


def test_without_overlap_nothing_is_drawn_as_overlap() -> None:
    rows = drawn(history((0, 0, 0, 5), (1, 0, 5, 10)))
    assert "▒" not in "".join(rows)
    assert "2" not in rows[8].replace("process 2", "")


def test_with_colour_only_overlap_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    red = "\x1b[31"
    assert red in "".join(drawn(history((0, 0, 0, 6), (1, 0, 4, 8)), colour=True))
    assert red not in "".join(drawn(history((0, 0, 0, 4), (1, 0, 4, 8)), colour=True))


@pytest.mark.parametrize("width", [20, 40, 80, 300])
def test_the_picture_fits_any_terminal(width: int) -> None:
    rows = drawn(history((0, 0, 0, 6), (7, 0, 4, 8)), width=width)
    assert all(len(row.rstrip()) <= max(width, 25) for row in rows)


def test_where_only_ascii_can_be_printed_ascii_is_used(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        screen = Screen(out, width=60)
        screen.print(*timeline(history((0, 0, 0, 6), (1, 2, 4, 8)), screen))
    text = (tmp_path / "out").read_text("ascii")
    assert "====" in text
    assert "##" in text
