"""One real Chromium for these tests, a page and a server of its own for each.

What the page logs as an error, and what it asks other hosts for, fails the test, unless the test expects it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.chat import Chat
from tests.browser.chat_server import ChatServer
from tests.browser.chromium import ARGUMENTS
from tests.browser.gated_agent import GatedAgent
from tests.servers import MissingProgram
from tests.servers.program import find_chromium

HERE = Path(__file__).parent
REFUSED = "Failed to load resource"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In front: then one worker begins with them, has the only browser, and none of them is left for another worker."""
    items.sort(key=lambda item: not item.path.is_relative_to(HERE))
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(120))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Installing a browser may take longer than a test may."""
    if any(item.path.is_relative_to(HERE) for item in session.items):
        try:
            find_chromium()
        except MissingProgram as missing:
            pytest.exit(str(missing), returncode=1)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=30_000)  # a bound for a broken page; a busy machine must not reach it
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def server(sqlite_url: str) -> Iterator[ChatServer]:
    with ChatServer(sqlite_url, GatedAgent()) as server:
        yield server


class Watch:
    """What a page did that it should not do."""

    def __init__(self) -> None:
        self.is_refusal_expected = False
        self.troubles: list[str] = []
        self.hosts: set[str] = set()

    def look(self, context: BrowserContext) -> None:
        context.on("console", self._console)
        context.on("weberror", lambda error: self.troubles.append(f"error: {error.error}"))
        context.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (self.is_refusal_expected and REFUSED in message.text):
            self.troubles.append(f"{message.type}: {message.text}")


@pytest.fixture
def watch(server: ChatServer) -> Iterator[Watch]:
    watch = Watch()
    yield watch
    assert watch.troubles == []
    assert watch.hosts - {""} <= {urlsplit(server.url).netloc}


@pytest.fixture
def context(browser: Browser, watch: Watch) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    context.set_default_timeout(20_000)
    watch.look(context)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def chat(page: Page, server: ChatServer) -> Chat:
    return Chat(page, server).open()
