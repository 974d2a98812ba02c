"""What a person does on the page of tasks, and what they see there; and an agent that a test holds back there."""

from __future__ import annotations

from dataclasses import replace

from playwright.sync_api import Locator, Page, expect

from inturn.agents.completion import Completed, M, Prompt
from tests.browser.chat_server import ChatServer
from tests.browser.gated_agent import GatedAgent


class GatedTasks(GatedAgent):
    """Makes tasks by the rules of the offline agent, behind the gate, and says that this took `tokens` tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0

    async def complete(self, prompt: Prompt[M]) -> Completed[M]:
        self.asked.append(prompt.text)
        await self._passed()
        made = await self._inner.complete(prompt)
        return replace(made, calls=tuple(replace(call, tokens_in=self.tokens) for call in made.calls))


class TasksPage:
    def __init__(self, page: Page, server: ChatServer) -> None:
        self.page = page
        self.server = server
        self.field = page.get_by_label("What needs doing?")
        self.requests = page.locator(".request")
        self.cards = page.locator(".task")
        self.budget = page.get_by_role("meter", name="Token budget")
        self.dialog = page.get_by_role("dialog")

    def open(self) -> TasksPage:
        self.page.goto(f"{self.server.url}/tasks")
        expect(self.budget).to_be_visible()
        return self

    def reload(self) -> None:
        self.page.reload()
        expect(self.budget).to_be_visible()

    def write(self, sentence: str) -> Locator:
        """Returns its place under way, without waiting for what becomes of it."""
        self.field.fill(sentence)
        self.field.press("Enter")
        expect(self.field).to_have_value("")
        return self.requests.filter(has_text=sentence)

    def add(self, sentence: str, title: str) -> Locator:
        """Returns the card of its task."""
        self.write(sentence)
        card = self.card(title)
        expect(card).to_be_visible()
        return card

    def fail(self, sentence: str) -> Locator:
        request = self.write(sentence)
        expect(request).to_have_attribute("data-state", "failed")
        return request

    def card(self, title: str) -> Locator:
        return self.cards.filter(has=self.page.get_by_role("checkbox", name=title, exact=True))

    def edit(self, card_title: str) -> Locator:
        self.card(card_title).get_by_role("button", name="Edit").click()
        return self.page.get_by_role("form", name=f"Edit {card_title}")

    def show(self, which: str) -> None:
        """`Open`, `Done` or `All`."""
        self.page.get_by_role("radio", name=which).check(force=True)
