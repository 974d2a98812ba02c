"""Draws the pictures of the pages for the README: python -m tests.browser.pictures [FOLDER].

Of the chat: a phone on which two messages wait while a third is being answered, and a wide window with what came of
them: they were merged, and got one answer. Of the tasks: a wide window with tasks, and a phone on which one sentence
is under way and another says too little.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chat import Chat
from tests.browser.chat_server import ChatServer
from tests.browser.chromium import ARGUMENTS
from tests.browser.gated_agent import GatedAgent
from tests.browser.tasks_page import GatedTasks, TasksPage
from tests.servers.program import find_chromium

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
Scheme = Literal["light", "dark"]
GROUNDS: dict[Scheme, str] = {"light": "#e4dccb", "dark": "#070b0a"}
WIDE = (980, 700)
PHONE = (352, 688)
FIRST, OTHERS = "How long does this take?", ("I am Ada Lovelace", "and my address is ada@example.com")
SENTENCES = {
    "Pay the rent by Friday": "Pay the rent",
    "Call the dentist today, urgent": "Call the dentist, urgent",
    "Prepare the launch tomorrow: write the notes, tag it, tell the team": "Prepare the launch",
}
WORDS = 12
"""Of the answer to the first, when the picture of the phone is taken."""
FRAMED = """
<body style="margin:0;background:{ground};width:1440px;height:764px;position:relative;overflow:hidden">
<style>img {{ position: absolute; box-shadow: 0 12px 40px #0006 }}</style>
<img src="{wide}" style="left:32px;top:32px;border-radius:14px">
<img src="{phone}" style="right:32px;top:32px;border-radius:28px;border:6px solid #101413">
"""


def draw(folder: Path) -> list[Path]:
    expect.set_options(timeout=30_000)  # as in the tests: a busy machine must not reach it
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        with ChatServer(f"sqlite:///{place}/inturn.db", GatedAgent()) as server:
            made = [
                _framed(browser, _wide(browser, server, scheme), _phone(browser, server, scheme), scheme,
                        folder / f"chat-{scheme}.png")
                for scheme in GROUNDS
            ]  # fmt: skip
        for scheme in GROUNDS:
            agent = GatedTasks()
            with ChatServer(f"sqlite:///{place}/{scheme}.db", agent) as server:
                wide, phone = _tasks(browser, server, agent, scheme)
            made.append(_framed(browser, wide, phone, scheme, folder / f"tasks-{scheme}.png"))
        browser.close()
    return made


def _framed(browser: Browser, wide: bytes, phone: bytes, scheme: Scheme, made: Path) -> Path:
    page = browser.new_page(viewport={"width": 1440, "height": 764})
    page.set_content(FRAMED.format(ground=GROUNDS[scheme], wide=_inline(wide), phone=_inline(phone)))
    page.wait_for_function("() => [...document.images].every((image) => image.complete)")
    made.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=made)
    page.close()
    return made


def _wide(browser: Browser, server: ChatServer, scheme: Scheme) -> bytes:
    chat = _open(browser, server, scheme, WIDE)
    server.agent.hold()
    first = chat.write(FIRST)
    chat.until_asked()
    others = [chat.write_behind(other) for other in OTHERS]
    server.agent.open()
    chat.expect_state(first, "answered")
    for other in others:
        chat.expect_state(other, "merged")
    chat.until_drawn()
    others[0].evaluate("bubble => { bubble.scrollIntoView(); document.activeElement.blur(); }")
    return _taken(chat.page)


def _phone(browser: Browser, server: ChatServer, scheme: Scheme) -> bytes:
    chat = _open(browser, server, scheme, PHONE)
    server.agent.hold(after=WORDS)
    chat.write(FIRST)
    expect(chat.page.locator("[data-draft]")).to_have_text(re.compile(rf"(\S+\s+){{{WORDS - 1}}}\S+"))
    for other in OTHERS:
        chat.write_behind(other)
    chat.field.evaluate("field => field.blur()")
    taken = _taken(chat.page)
    server.agent.open()
    return taken


def _tasks(browser: Browser, server: ChatServer, agent: GatedTasks, scheme: Scheme) -> tuple[bytes, bytes]:
    agent.tokens = 5200
    wide = TasksPage(_page(browser, scheme, WIDE), server).open()
    for sentence, title in SENTENCES.items():
        wide.add(sentence, title)
    wide.reload()  # then no task is marked as new
    wide.card("Prepare the launch").get_by_role("checkbox", name="Write the notes").check()
    expect(wide.page.get_by_role("status")).to_have_text("Done: Write the notes")
    wide.field.evaluate("field => document.activeElement.blur()")
    taken = _taken(wide.page)
    phone = TasksPage(_page(browser, scheme, PHONE), server).open()
    phone.fail("Do stuff")
    agent.hold()
    expect(phone.write("Renew the passport by the end of the month")).to_have_attribute("data-state", "running")
    expect(phone.budget).to_have_attribute("aria-valuetext", re.compile("reserved"))
    phone.field.evaluate("field => field.blur()")
    return taken, _taken(phone.page)


def _open(browser: Browser, server: ChatServer, scheme: Scheme, size: tuple[int, int]) -> Chat:
    server.agent.asked.clear()
    return Chat(_page(browser, scheme, size), server).open()


def _page(browser: Browser, scheme: Scheme, size: tuple[int, int]) -> Page:
    viewport = {"width": size[0], "height": size[1]}
    return browser.new_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]


def _taken(page: Page) -> bytes:
    taken = page.screenshot()
    page.close()
    return taken


def _inline(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        sys.stdout.write(f"{path} {path.stat().st_size // 1024} KiB\n")
