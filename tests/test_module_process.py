"""A module that runs as a process of its own behaves as one that `python -m` started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.acceptance.processes import Child
from tests.module_process import ROOT, ModuleProcess
from tests.waiting import wait_until

MODULE = "tests.told_process"


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child(MODULE, "one", "two words")
    yield child
    child.end()


def told(child: Child) -> dict[str, Any]:
    child.tell("tell")
    return child.hears("told")


def test_it_has_arguments_a_folder_and_a_session_of_its_own(child: Child) -> None:
    said = told(child)
    assert said["argv"][1:] == ["one", "two words"]
    assert said["folder"] == str(ROOT)
    assert said["pid"] == said["session"] == child.pid != os.getpid()
    assert said["main"] == "__main__"


def test_it_gets_the_environment_as_it_is_when_it_starts(monkeypatch: pytest.MonkeyPatch, child: Child) -> None:
    assert "OF_THIS_TEST" not in told(child)["environ"]
    monkeypatch.setenv("OF_THIS_TEST", "yes")
    later = Child(MODULE)
    try:
        assert told(later)["environ"]["OF_THIS_TEST"] == "yes"
    finally:
        later.end()


def test_two_of_them_share_nothing(child: Child) -> None:
    other = Child(MODULE)
    try:
        child.tell("remember", value=1)
        assert child.hears("remembered")["values"] == [1]
        other.tell("remember", value=2)
        assert other.hears("remembered")["values"] == [2]
        first, second = told(child), told(other)
        assert first["random"] != second["random"]
        assert first["process"] != second["process"]  # as the store knows it
        assert first["files"] == second["files"]  # none of the other's pipes
    finally:
        other.end()


@pytest.mark.parametrize("code", [0, 9])
def test_it_ends_with_the_code_that_it_says(child: Child, code: int) -> None:
    assert child.process.poll() is None
    child.tell("exit", code=code)
    assert child.hears("ended"), "what is registered to run at exit has run"
    assert child.process.wait(60) == code == child.process.poll()
    child.process.kill()  # nothing happens


def test_what_it_does_not_catch_is_code_1(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        broken = ModuleProcess(MODULE, ["broken"], files={1: log.fileno(), 2: log.fileno()})
        assert broken.wait(60) == 1
    assert "ZeroDivisionError" in (tmp_path / "log").read_text()


def test_it_can_be_killed_and_stopped(child: Child) -> None:
    assert told(child)
    child.signal(signal.SIGSTOP)
    child.tell("tell")
    with pytest.raises(AssertionError, match="no 'told'"):
        child.hears("told", within=0.1)
    with pytest.raises(TimeoutError):
        child.process.wait(0.01)
    child.signal(signal.SIGCONT)
    assert child.hears("told")
    child.kill()
    assert child.process.poll() == -signal.SIGKILL


def test_it_ends_with_its_standard_input(child: Child) -> None:
    assert told(child)
    child.close_stdin()
    assert child.process.wait(60) == 0


PARENT = """
import os, signal, sys, time
from pathlib import Path
from tests.module_process import ModuleProcess

log = Path(sys.argv[1])
with log.open("wb") as file:
    process = ModuleProcess("tests.told_process", ["orphan"], files={1: file.fileno(), 2: file.fileno()})
while "waiting" not in log.read_text():
    time.sleep(0.02)
if sys.argv[2] == "stopped":
    process.send_signal(signal.SIGSTOP)
    print(process.pid)
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def parent_of_an_orphan(log: Path, end: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PARENT, str(log), end]
    with TemporaryDirectory(prefix="inturn-") as folder:  # one that is killed leaves its temporary files behind
        environ = os.environ | {"TMPDIR": folder}
        return subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip


def test_it_notices_that_the_process_that_started_it_was_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert parent_of_an_orphan(log, "killed").returncode == -signal.SIGKILL
    wait_until(lambda: "orphaned" in log.read_text())


def test_a_stopped_one_does_not_keep_the_process_that_started_it_from_ending(tmp_path: Path) -> None:
    ended = parent_of_an_orphan(tmp_path / "log", "stopped")
    assert ended.returncode == 0, ended.stderr
    wait_until(lambda: not Path(f"/proc/{ended.stdout.strip()}").exists())


def test_ctrl_c_is_not_ignored(child: Child) -> None:
    assert told(child)["handles_ctrl_c"]
