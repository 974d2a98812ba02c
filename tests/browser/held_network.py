"""The network between a page and its server, as slow and as unfair as a test wants it."""

from __future__ import annotations

from collections.abc import Iterable

from playwright.sync_api import Page, Route

from tests.browser.chat import Chat, contentions


def until_held(page: Page, held: list[Route]) -> Route:
    """Until the page has made the one request that a test holds back."""
    while not held:  # the test has a time limit
        page.wait_for_timeout(5)
    (route,) = held
    return route


class HeldNetwork:
    """Holds back turns, known by the beginning of their text: on their way to the server, and on their way back."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._forth: list[str] = []
        self._back: list[str] = []
        chat.page.route("**/turns/stream", self._carry)

    def arrive(self, texts: Iterable[str]) -> None:
        """The first finds the conversation free and is being answered; each of the others waits behind it."""
        for place, text in enumerate(texts):
            before = contentions()
            self._forth.append(text)
            if place == 0:
                self._chat.until_asked()
            else:
                self._chat.until_contended(before + 1)

    def respond(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._back.append(text)
            self._chat.expect_state_of_one(text, "answered", "merged")

    def _carry(self, route: Route) -> None:
        text = (route.request.post_data_json or {})["text"]
        self._wait(text, self._forth)
        response = route.fetch()
        self._wait(text, self._back)
        route.fulfill(response=response)

    def _wait(self, text: str, allowed: list[str]) -> None:
        while not any(text.startswith(beginning) for beginning in allowed):  # the test has a time limit
            self._chat.page.wait_for_timeout(5)
