"""What a person does on the chat page, and what they see there. Everything waits for what it says, up to a deadline."""

from __future__ import annotations

import re
import time
from typing import Literal

from playwright.sync_api import Locator, Page, expect

from inturn import metrics
from tests.browser.chat_server import ChatServer
from tests.browser.gated_agent import GatedAgent

Policy = Literal["merge", "queue", "reject"]


def contentions() -> float:
    """Of all servers of this process, so far: messages that found their conversation busy."""
    samples = (sample for family in metrics.conversation_contentions.collect() for sample in family.samples)
    return sum(float(sample.value) for sample in samples if sample.name.endswith("_total"))


class Chat:
    def __init__(self, page: Page, server: ChatServer) -> None:
        self.page = page
        self.server = server
        self.field = page.get_by_label("Your message")
        self.log = page.get_by_role("log")
        self.mine = self.log.locator(".user")
        self.theirs = self.log.locator(".assistant")
        self.collected = page.locator("#collected")
        self.progress = page.get_by_role("progressbar", name="Progress")

    @property
    def agent(self) -> GatedAgent:
        return self.server.agent

    def open(self) -> Chat:
        self.page.goto(self.server.url)
        expect(self.theirs.first).to_be_visible()
        return self

    def begin(self, policy: Policy) -> None:
        """A new conversation, with this policy."""
        before = self.page.url
        self.page.get_by_role("button", name="New").click()
        self.page.get_by_role("radio", name=policy.capitalize()).check()
        self.page.get_by_role("button", name="Start", exact=True).click()
        self.page.wait_for_function("before => location.href !== before", arg=before)
        expect(self.theirs.first).to_be_visible()

    def write(self, text: str) -> Locator:
        """Returns the bubble at once; what becomes of it is shown there later."""
        number = self.mine.count()
        self.field.fill(text)
        self.field.press("Enter")
        shown = self.mine.nth(number)
        expect(shown).to_contain_text(text)
        return shown

    def write_behind(self, text: str) -> Locator:
        """While another is being answered: it is there when the server has it wait, or has refused it."""
        before = contentions()
        shown = self.write(text)
        self.until_contended(before + 1)
        return shown

    def until_contended(self, times: float) -> None:
        """The page says that a message waits before the server knows of it."""
        deadline = time.monotonic() + 20
        while contentions() < times:
            assert time.monotonic() < deadline, f"there were {contentions()} of {times} contentions"
            self.page.wait_for_timeout(5)

    def say(self, text: str) -> None:
        expect(self.write(text)).to_have_attribute("data-state", "answered")

    def until_asked(self, times: int = 1) -> None:
        """The agent is in the server's thread: the page cannot tell when it was asked."""
        deadline = time.monotonic() + 20
        while len(self.agent.asked) < times:
            assert time.monotonic() < deadline, f"the agent was asked {len(self.agent.asked)} times"
            self.page.wait_for_timeout(5)

    def until_drawn(self) -> None:
        """What the page scrolls by itself, when something takes room from the messages, it scrolls as it draws that."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def expect_state_of_one(self, text: str, *states: str) -> None:
        bubble = self.mine.filter(has=self.page.locator(".bubble", has_text=text))
        expect(bubble).to_have_attribute("data-state", re.compile("|".join(states)))

    def expect_state(self, bubble: Locator, state: str) -> None:
        expect(bubble).to_have_attribute("data-state", state)

    def expect_collected(self, **values: str) -> None:
        for name, value in values.items():
            expect(self.collected.locator(f"[data-field={name}] dd")).to_have_text(value)

    def expect_percent(self, percent: int) -> None:
        expect(self.progress).to_have_attribute("aria-valuenow", str(percent))
