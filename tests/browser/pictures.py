"""Draws the pictures of the chat page for the README: python -m tests.browser.pictures [FOLDER].

Each shows a phone on which two messages wait while a third is being answered, and a wide window with what came of
them: they were merged, and got one answer.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chat import Chat
from tests.browser.chat_server import ChatServer
from tests.browser.chromium import ARGUMENTS
from tests.browser.gated_agent import GatedAgent
from tests.servers.program import find_chromium

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
Scheme = Literal["light", "dark"]
GROUNDS: dict[Scheme, str] = {"light": "#e4dccb", "dark": "#070b0a"}
WIDE = (980, 700)
PHONE = (352, 688)
FIRST, OTHERS = "How long does this take?", ("I am Ada Lovelace", "and my address is ada@example.com")
WORDS = 12
"""Of the answer to the first, when the picture of the phone is taken."""
FRAMED = """
<body style="margin:0;background:{ground};width:1440px;height:764px;position:relative;overflow:hidden">
<style>img {{ position: absolute; box-shadow: 0 12px 40px #0006 }}</style>
<img src="{wide}" style="left:32px;top:32px;border-radius:14px">
<img src="{phone}" style="right:32px;top:32px;border-radius:28px;border:6px solid #101413">
"""


def draw(folder: Path) -> list[Path]:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        with ChatServer(f"sqlite:///{place}/inturn.db", GatedAgent()) as server:
            made = [_picture(browser, server, scheme, folder) for scheme in GROUNDS]
        browser.close()
    return made


def _picture(browser: Browser, server: ChatServer, scheme: Scheme, folder: Path) -> Path:
    wide, phone = _wide(browser, server, scheme), _phone(browser, server, scheme)
    page = browser.new_page(viewport={"width": 1440, "height": 764})
    page.set_content(FRAMED.format(ground=GROUNDS[scheme], wide=_inline(wide), phone=_inline(phone)))
    page.wait_for_function("() => [...document.images].every((image) => image.complete)")
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"chat-{scheme}.png"
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
    return _taken(chat)


def _phone(browser: Browser, server: ChatServer, scheme: Scheme) -> bytes:
    chat = _open(browser, server, scheme, PHONE)
    server.agent.hold(after=WORDS)
    chat.write(FIRST)
    expect(chat.page.locator("[data-draft]")).to_have_text(re.compile(rf"(\S+\s+){{{WORDS - 1}}}\S+"))
    for other in OTHERS:
        chat.write_behind(other)
    chat.field.evaluate("field => field.blur()")
    taken = _taken(chat)
    server.agent.open()
    return taken


def _open(browser: Browser, server: ChatServer, scheme: Scheme, size: tuple[int, int]) -> Chat:
    server.agent.asked.clear()
    viewport = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    return Chat(page, server).open()


def _taken(chat: Chat) -> bytes:
    taken = chat.page.screenshot()
    chat.page.close()
    return taken


def _inline(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        sys.stdout.write(f"{path} {path.stat().st_size // 1024} KiB\n")
