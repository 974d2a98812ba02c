"""`inturn lanes` on a store with an app: what it says, and in which form."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from inturn import Retry, Stop, Turn, sync
from inturn.cli.main import main
from inturn.testing import drain

Captured = pytest.CaptureFixture[str]


class Shop:
    """An app whose handlers do what their message says, and the command on the same store."""

    def __init__(self, app: sync.InTurn, url: str, namespace: str, captured: Captured) -> None:
        self.app = app
        self.place = ["--url", url, "--namespace", namespace]
        self._captured = captured

        @app.handler("order", key="user:{user}", message_id="{id}", state=dict)
        def order(turn: Turn[dict[str, Any]]) -> None:
            turn.state["last"] = turn.id
            if turn.body.get("how") == "stop":
                raise Stop("it is \x1b[31mbroken")  # and nobody can mend it, however long the line that says so
            if turn.body.get("how") == "retry":
                raise Retry("not yet", after=100)

        @app.handler("other", key="user:{user}", message_id="{id}", on_failure="skip")
        def other(turn: Turn[Any]) -> None:
            raise KeyError("other")

    def submit(self, message_id: str, user: int = 1, how: str = "", handler: str = "order") -> None:
        self.app.submit(handler, {"user": user, "id": message_id, "how": how})

    def drain(self) -> None:
        self.app.runner.run(drain(self.app.inner))

    def say(self, *words: str) -> tuple[int, str, str]:
        code = main(["lanes", *words, *self.place])
        out, err = self._captured.readouterr()
        return code, out, err

    def json(self, *words: str, code: int = 0) -> Any:
        got, out, err = self.say(*words, "--json")
        assert (got, err) == (code, "")
        return json.loads(out)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "inturn.cli.main", "lanes", *words, *self.place]


@pytest.fixture
def shop(store_url: str, namespace: str, capsys: Captured) -> Iterator[Shop]:
    with sync.InTurn(store_url, namespace=namespace) as app:
        yield Shop(app, store_url, namespace, capsys)


def one_sentence(err: str) -> str:
    assert err.startswith("inturn: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def field_lists(help_text: str) -> list[list[str]]:
    """Every `{name, name, ...}` of a help."""
    return [re.split(r",\s+", names) for names in re.findall(r"\{(\w+(?:,\s+\w+)+)\}", help_text)]


def in_terminal(command: list[str], answer: str) -> tuple[int, str, str]:
    ours, theirs = pty.openpty()
    try:
        asking = subprocess.Popen(
            command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )  # fmt: skip
        os.write(ours, f"{answer}\n".encode())
        out, err = asking.communicate(timeout=20)
    finally:
        os.close(ours)
        os.close(theirs)
    return asking.returncode, out, err
