"""What a command prints: `--watch` is live in a terminal and line by line elsewhere; how values read."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from inturn.cli.output import duration, pretty, print_json
from tests.cli.conftest import Shop


@contextlib.contextmanager
def started(command: list[str], **how: Any) -> Iterator[subprocess.Popen[Any]]:
    # whoever runs the tests in the background has Ctrl-C ignored, and so would we
    def with_ctrl_c() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    process = subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=with_ctrl_c, **how)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.mark.parametrize(
    ("words", "field"), [(["ls"], "lanes"), (["show", "user:1"], "lane"), (["dead"], "dead")]
)  # fmt: skip
def test_watch_prints_one_document_per_line(shop: Shop, words: list[str], field: str) -> None:
    with started(shop.command(*words, "--watch", "--json"), stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert not json.loads(watching.stdout.readline())[field]
        shop.submit("a", how="stop" if words == ["dead"] else "")
        if words == ["dead"]:
            shop.drain()
        while not (seen := json.loads(watching.stdout.readline())[field]):
            pass
        assert "user:1" in json.dumps(seen)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130
        assert watching.stderr is not None
        assert watching.stderr.read() == ""


def test_watch_is_live_in_a_terminal(shop: Shop) -> None:
    ours, theirs = pty.openpty()
    try:
        with started(shop.command("show", "user:1", "--watch"), stdout=theirs) as watching:
            read_until(ours, b"there is nothing in lane")
            shop.submit("a")
            read_until(ours, b"user:1 (ready)")
            watching.send_signal(signal.SIGINT)
            assert watching.wait(20) == 130
    finally:
        os.close(ours)
        os.close(theirs)


def read_until(fd: int, wanted: bytes) -> None:
    seen, ends_at = b"", time.monotonic() + 20
    while wanted not in seen:
        assert time.monotonic() < ends_at
        seen += os.read(fd, 1000)


def test_watch_without_a_terminal_prints_again_and_again(shop: Shop) -> None:
    with started(shop.command("ls", "--watch"), stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(3)]
        assert lines == [
            "Nothing is running, and nothing is waiting.\n",
            "\n",
            "Nothing is running, and nothing is waiting.\n",
        ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (7322, "2 h 2 min")]
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_json_keeps_every_letter_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"зал": "a\x9b31m\u202e\u2028\x7f\ud83d é 😀 \U000e0001", "list": [1]}
    print_json(document)
    out = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in out)
    assert '"зал"' in out
    assert "é 😀" in out
    assert json.loads(out) == document


def test_a_long_state_is_cut_for_people() -> None:
    text = pretty({"words": ["word"] * 1000})
    assert len(text) < 2100
    assert text.endswith("more characters (--json shows all of it)")
