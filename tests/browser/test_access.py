"""Everybody can use the page: with a keyboard, with a screen reader, with weak eyes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import measures
from tests.browser.cards import everything, said_with
from tests.browser.chat import Chat
from tests.browser.chat_server import ChatServer
from tests.browser.conftest import Watch


def _fill(chat: Chat) -> None:
    """Everything that the page can show at once: cards, choices, a trouble, collected data."""
    chat.say("I am Ada Lovelace, ada@example.com")
    chat.agent.says = said_with(*everything())
    chat.say("Show me everything")
    card = chat.log.get_by_role("form", name="A card of everything")
    card.get_by_role("button", name="Submit").click()
    expect(card.get_by_text("Contact is required.")).to_be_visible()
    chat.agent.fails = True
    chat.expect_state(chat.write("Website"), "refused")
    chat.agent.fails = False


def test_everything_has_a_name_and_ids_are_unique(chat: Chat, watch: Watch) -> None:
    watch.is_refusal_expected = True
    _fill(chat)
    assert measures.nameless(chat.page) == []
    assert measures.duplicate_ids(chat.page) == []
    chat.page.get_by_role("button", name="New").click()
    assert measures.nameless(chat.page) == []


def test_the_page_has_its_landmarks(chat: Chat) -> None:
    page = chat.page
    expect(page.locator("html")).to_have_attribute("lang", "en")
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    for role in ("main", "banner", "log"):
        expect(page.locator("body").get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("complementary", name="Details")).to_be_visible()
    expect(page.get_by_role("navigation", name="Conversation")).to_be_visible()
    expect(chat.log).to_have_attribute("aria-live", "polite")
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))")
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(chat: Chat) -> None:
    chat.page.reload()
    expect(chat.theirs.first).to_be_visible()
    chat.page.evaluate("document.activeElement.blur()")
    stops = []
    for _ in range(10):
        chat.page.keyboard.press("Tab")
        name, is_seen = measures.focus(chat.page)
        assert is_seen, f"{name} has no visible focus"
        stops.append(name)
    race = ["race-1", "race-2", "race-3", "race-go"]
    assert stops == ["skip", "new", "scroller", "text", "send", *race, "API reference"]


def test_the_skip_link_leads_to_the_field(chat: Chat) -> None:
    chat.page.reload()
    expect(chat.theirs.first).to_be_visible()
    chat.page.keyboard.press("Tab")
    skip = chat.page.get_by_role("link", name="Skip to the message field")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    before = chat.page.url
    chat.page.keyboard.press("Enter")
    expect(chat.field).to_be_focused()
    assert chat.page.url == before, "the address is still that of the conversation"


def test_the_sheet_of_a_phone_opens_and_closes_by_keyboard(chat: Chat) -> None:
    chat.page.set_viewport_size({"width": 360, "height": 740})
    show = chat.page.get_by_role("button", name="Details")
    panel = chat.page.get_by_role("complementary", name="Details", include_hidden=True)
    expect(panel).to_be_hidden()
    show.focus()
    chat.page.keyboard.press("Enter")
    expect(panel).to_be_visible()
    expect(chat.page.get_by_role("button", name="Close")).to_be_focused()
    expect(chat.page.locator("#show-panel")).to_have_attribute("aria-expanded", "true")
    chat.page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(show).to_be_focused()
    expect(show).to_have_attribute("aria-expanded", "false")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(chat: Chat, watch: Watch, scheme: str) -> None:
    watch.is_refusal_expected = True
    chat.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    _fill(chat)
    assert measures.contrast_faults(chat.page) == []
    chat.page.get_by_role("button", name="New").click()
    assert measures.contrast_faults(chat.page) == []
    chat.page.goto(f"{chat.server.url}/docs")
    expect(chat.page.locator(".operation").first).to_be_visible()
    assert measures.contrast_faults(chat.page) == []


def test_the_measure_of_contrast_finds_a_fault(chat: Chat) -> None:
    chat.page.evaluate("document.getElementById('title').style.color = '#aaa'")
    assert len(measures.contrast_faults(chat.page)) == 1


def test_who_wants_no_motion_gets_none(browser: Browser, server: ChatServer) -> None:
    def moving(motion: str) -> list[str]:
        context = browser.new_context(reduced_motion="reduce" if motion == "reduce" else "no-preference")
        page: Page = context.new_page()
        page.goto(server.url)
        expect(page.locator(".message.assistant").first).to_be_visible()
        names = page.evaluate(
            "[...document.querySelectorAll('.message, .dots i')].map((e) => getComputedStyle(e).animationName)"
        )
        context.close()
        return [name for name in names if name != "none"]

    assert moving("reduce") == []
    assert moving("no-preference") != []
