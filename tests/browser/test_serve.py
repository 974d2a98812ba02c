"""The page as users get it: from `inturn serve`, in a process of its own, with nothing set."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.gated_agent import GatedAgent


@dataclass(frozen=True)
class Served:
    url: str
    agent: GatedAgent
    """Not asked here: the process has its own."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "inturn.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = next(filter(None, (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stdout)))
            yield Served(found[0], GatedAgent())
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def test_a_person_talks_to_what_the_command_serves(chat: Chat) -> None:
    chat.begin("queue")
    chat.page.get_by_role("button", name="Send all at once").click()
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")
    # a reload would cut off, and repeat, what is not answered yet
    expect(chat.log.locator(".user[data-state=answered]")).to_have_count(3)
    chat.page.reload()
    chat.expect_percent(20)
    chat.say("Website")
    chat.expect_collected(product="Website")
