"""`make split` as people run it: what it says, that what it says works, and that it leaves nothing behind."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.connections import NEW_EACH_TIME
from tests.module_process import ROOT
from tests.servers.last_command import LastCommand
from tests.split import environment
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(600)  # the first one starts servers and processes, on a busy machine


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """In a folder for temporary files of its own, so that all that belongs to it is known by its command line."""
    # the path of a socket of PostgreSQL has room for about 100 characters
    place = Path(tempfile.mkdtemp(prefix="split-", dir="/tmp"))
    place.chmod(0o755)  # PostgreSQL may be another user
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.split"],
            cwd=ROOT,
            env=environment(TMPDIR=str(place)),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    at_the_end = LastCommand()  # it has a session of its own: if the tests are killed, nobody else ends it
    at_the_end.set(f"kill {process.pid}")
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        at_the_end.dismiss()
        wait_until(lambda: not left_of(place), 30, "all of it ended with its process")
        wait_until(lambda: not any(place.iterdir()), 30, "its folders are gone")
        place.rmdir()


def left_of(place: Path) -> list[str]:
    """The command lines of processes that have to do with this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                is_ours = str(place) in words or str(place) in str((entry / "cwd").readlink())
            except OSError:
                continue
            if is_ours:
                found.append(words)
    return found


def test_the_split_shape_says_how_it_is_reached_and_ctrl_c_leaves_nothing_behind(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    wait_until(lambda: "Ctrl-C ends all of it." in out.read_text() or running.poll() is not None, 120, "it is up")
    said = out.read_text()
    lines = [line.split()[0] for line in said.splitlines() if " is up " in line]
    assert set(lines[:3]) == {"Redis", "PostgreSQL", "RabbitMQ"}, said
    assert set(lines[3:]) == {"tasks", "ai", "worker"}, said
    use(said)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_leaves_nothing_behind_if_it_is_ended_while_it_still_starts(
    running: subprocess.Popen[bytes], tmp_path: Path, how: signal.Signals
) -> None:
    out = tmp_path / "out"
    wait_until(lambda: "Redis is up" in out.read_text(), 60, "one of its servers is up")
    running.send_signal(how)
    assert running.wait(60) == (0 if how is signal.SIGTERM else -signal.SIGKILL)


def use(said: str) -> None:
    """The page is there, and the first of the printed commands makes a task. Not every machine has curl."""
    page, key = re.findall(r"The page: +(\S+)\nThe API key: +(\S+)", said)[0]
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(trust_env=False, headers=headers, timeout=60, limits=NEW_EACH_TIME) as client:
        assert client.get(page).status_code == 200
        command = said[said.index("curl -s") : said.index("\n  curl -s", said.index("curl -s") + 1)]
        words = shlex.split(command.replace("\\\n", ""))
        assert [words[0], words[1], *words[3::2]] == ["curl", "-s", "-H", "-H", "-d"]
        headers = dict(word.split(": ") for word in words[4:8:2])
        done = httpx.post(words[2], headers=headers, content=words[8], timeout=60, trust_env=False)
        assert done.status_code == 202, done.text
        assert "tasks_service_request_id" in done.json()
        api = page.removesuffix("/tasks") + "/api/v1/tasks"
        wait_until(lambda: client.get(api).json()["tasks"], 30, "the task is made")
        assert client.get(api).json()["tasks"][0]["title"] == "Pay the rent"
