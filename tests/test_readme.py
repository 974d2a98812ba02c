"""The README as a newcomer tries it: its first example run twice, edited, and by `inturn worker`; and its console."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inturn.sync import InTurn

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    found = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "chat.py").write_text(found[1])
    return tmp_path / "chat.py"


def run(chat: Path) -> list[str]:
    done = subprocess.run([sys.executable, chat.name], cwd=chat.parent, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_after_an_edit_it_says_that_the_answers_are_those_of_before(chat: Path) -> None:
    run(chat)
    chat.write_text(chat.read_text().replace('f"answer', 'f"edited answer'))
    assert [line.partition(" (")[2] for line in run(chat)] == ["a duplicate: the first result)"] * 4
    (chat.parent / "inturn.db").unlink()
    assert [line[6:21] for line in run(chat)] == [f"edited answer {n}" for n in (1, 2, 3, 1)]


def test_a_worker_of_the_command_line_answers_for_it(chat: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "inturn.cli.main", "worker", "chat:app"],
        cwd=chat.parent,
        env=os.environ | {"INTURN_LOG_LEVEL": "INFO"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stderr is not None
        assert "worker begins handlers=reply" in worker.stderr.readline()
        with InTurn(f"sqlite:///{chat.parent}/inturn.db") as app:

            @app.handler("reply", key="visitor:{visitor}", message_id="{id}", state=dict)
            def reply(turn: object) -> None:
                raise AssertionError("the worker runs it")

            receipt = app.submit("reply", {"visitor": "v1", "id": "m1", "text": "hi"})
            assert receipt.result(timeout=20) == "answer 1, knowing hi"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
        assert worker.stdout is not None
        assert worker.stdout.read() == "", "the example itself did not run"
    finally:
        worker.kill()
        worker.communicate()


def test_the_console_of_the_bot_says_what_the_readme_shows(tmp_path: Path) -> None:
    found = re.search(r"\$ printf '(.*)' \| inturn bot --console\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-m", "inturn.cli.main", "bot", "--console"],
        cwd=tmp_path, input=found[1].replace("\\n", "\n"), capture_output=True, text=True, timeout=50, check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("INTURN_")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == found[2]
