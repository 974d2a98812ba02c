"""The `inturn` command as a whole: wrong usage, wrong settings, Ctrl-C, a closed pipe, and what it imports."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inturn import sync
from inturn.cli.main import main
from tests.cli.conftest import Captured, one_sentence


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "COMMAND"),
        (["locks"], "ACTION"),
        (["locks", "show"], "NAME"),
        (["locks", "burn"], "burn"),
        (["locks", "ls", "--url", "mysql://x"], "mysql"),
        (["locks", "ls", "--url", "nonsense"], "scheme"),
        (["locks", "ls", "--url", "sqlite:////no/such/folder/x.db"], "/no/such/folder"),
        (["locks", "ls", "--url", "sqlite:///:memory:"], ":memory:"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(arguments: list[str], part: str, capsys: Captured) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert part in one_sentence(err)


def test_a_wrong_setting_is_named(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_URL", "ftp://user:secret@host/")
    assert main(["locks", "ls"]) == 2
    err = one_sentence(capsys.readouterr().err)
    assert "INTURN_URL" in err
    assert "secret" not in err


def test_ctrl_c_ends_without_a_traceback(sqlite_url: str) -> None:
    with sync.InTurn(sqlite_url) as app, app.lock("asked"):
        ours, theirs = pty.openpty()
        try:
            asking = subprocess.Popen(
                [sys.executable, "-m", "inturn.cli.main", "locks", "release", "asked", "--url", sqlite_url],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            assert asking.stderr is not None
            asked = b""
            while not asked.endswith(b"[y/N] "):
                asked += os.read(asking.stderr.fileno(), 1000)
            asking.send_signal(signal.SIGINT)
            _, err = asking.communicate(timeout=20)
        finally:
            os.close(ours)
            os.close(theirs)
        assert asking.returncode == 130
        assert b"Traceback" not in err
        assert app.locks.inspect("asked") is not None


def test_a_reader_that_has_seen_enough_is_no_error(sqlite_url: str) -> None:
    with sync.InTurn(sqlite_url) as app:
        locks = [app.lock(f"a-rather-long-name-for-a-lock-{number}") for number in range(200)]
        for lock in locks:
            lock.acquire()
        listing = subprocess.Popen(
            [sys.executable, "-m", "inturn.cli.main", "locks", "ls", "--json", "--url", sqlite_url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert listing.stdout is not None
        listing.stdout.close()
        assert listing.stderr is not None
        assert listing.stderr.read() == b""
        listing.stderr.close()
        assert listing.wait(20) == 1


def test_the_installed_command_tells_its_version() -> None:
    command = Path(sys.executable).with_name("inturn")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "inturn 0.1.0\n"


def test_help_does_not_import_what_only_some_commands_need(capsys: Captured) -> None:
    script = (
        "import sys; from inturn.cli.main import main; code = main(['--help']); "
        "heavy = {'redis', 'rich', 'inturn.demo', 'benchmarks', 'tests'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy or code else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "locks" in done.stdout
