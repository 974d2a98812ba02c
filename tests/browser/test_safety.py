"""Words are words: nothing that a user, an agent or a card says is taken for markup, a script or a foreign address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import inturn
from inturn.agents.activity import Activity
from tests.browser.cards import said_with
from tests.browser.chat import Chat

FOLDER = Path(inturn.__file__).parent / "web" / "page"
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())
EVIL = '<img src=x onerror="window.broken = 1"><script>window.broken = 1</script>'
DATA_URL = "data:text/html,<script>window.broken = 1</script>"


def _nothing_ran(chat: Chat) -> None:
    assert chat.page.evaluate("window.broken") is None
    assert chat.log.locator("img, script, iframe").count() == 0


def test_markup_in_messages_is_shown_as_it_was_written(chat: Chat) -> None:
    chat.agent.says = [Activity.said(f"You said {EVIL}", value={"name": EVIL, "choices": [EVIL]})]
    chat.say(EVIL)
    expect(chat.mine.last.locator(".bubble")).to_have_text(EVIL)
    expect(chat.theirs.last.locator(".bubble")).to_have_text(f"You said {EVIL}")
    chat.expect_collected(name=EVIL)
    expect(chat.page.get_by_role("group", name="Suggested answers").get_by_role("button")).to_have_text(EVIL)
    _nothing_ran(chat)
    chat.page.reload()
    expect(chat.theirs.last.locator(".bubble")).to_have_text(f"You said {EVIL}")
    chat.expect_collected(name=EVIL)
    _nothing_ran(chat)


def test_a_card_cannot_run_or_load_anything(chat: Chat) -> None:
    links = ["javascript:window.broken = 1", "JavaScript:window.broken=1//https://", "//example.com", DATA_URL]
    actions = [{"type": "Action.OpenUrl", "title": EVIL, "url": url} for url in links]
    pictures = [
        "https://example.com/spy.png",
        "http://example.com/spy.png",
        "//example.com/spy.png",
        "javascript:window.broken = 1",
        DATA_URL,
    ]
    chat.agent.says = said_with(
        {"type": "TextBlock", "text": EVIL},
        {"type": "RichTextBlock", "inlines": [EVIL, {"type": "TextRun", "text": EVIL, "selectAction": actions[0]}]},
        *({"type": "Image", "url": url, "altText": f"picture {number}"} for number, url in enumerate(pictures)),
        {"type": "FactSet", "facts": [{"title": EVIL, "value": EVIL}, None, 7]},
        {"type": "Input.Text", "id": "code", "label": EVIL, "placeholder": EVIL, "value": EVIL, "regex": "((("},
        {"type": "Input.ChoiceSet", "id": "product", "choices": [{"title": EVIL, "value": EVIL}]},
        *({"type": "Container", "items": [{"type": "TextBlock", "text": EVIL}], "selectAction": action}
          for action in actions),
        {"type": "ImageSet", "images": [{"type": "Image", "url": url, "altText": EVIL} for url in pictures]},
        {"type": "Media", "altText": EVIL, "sources": [{"url": url} for url in links]},
        {"type": "Table", "rows": [{"cells": [{"items": [{"type": "TextBlock", "text": EVIL}]}]}]},
        {"type": "constructor"}, {"type": "__proto__"}, {}, {"type": "Container", "items": "none"},
        actions=[*actions, {"type": "Action.Submit", "title": EVIL, "data": {"cardId": "problem_card"}}],
        text="A card",
    )  # fmt: skip
    chat.say("Show me")
    card = chat.log.locator("form.card")
    expect(card.get_by_role("link")).to_have_count(0)
    expect(card.get_by_text("picture 0")).to_be_visible()
    expect(card.get_by_label(EVIL)).to_have_value(EVIL)
    expect(card.get_by_role("button")).to_have_text(EVIL)
    _nothing_ran(chat)


def test_a_card_is_shown_as_deep_as_the_server_lets_it_through_and_no_deeper(chat: Chat) -> None:
    deep: dict[str, object] = {"type": "TextBlock", "text": "the innermost"}
    for _ in range(10):
        deep = {"type": "Container", "items": [deep]}
    chat.agent.says = said_with({"type": "TextBlock", "text": "outermost"}, deep)
    chat.say("Show me")
    expect(chat.log.get_by_text("the innermost")).to_be_visible()
    shown = chat.page.evaluate(
        """async () => {
          const { Card } = await import("/page/card.js");
          let deep = { type: "TextBlock", text: "too deep" };
          for (let depth = 0; depth < 5000; depth += 1) deep = { type: "Container", items: [deep] };
          return new Card({ body: [{ type: "TextBlock", text: "top" }, deep] }, "id", () => {}).element.textContent;
        }"""
    )
    assert shown == "top"


def test_sources_are_linked_to_pages_of_the_web_alone(chat: Chat) -> None:
    cited = [{"appearance": {"name": name, "url": url}} for name, url in
             (("Manual", "https://example.com/manual"), ("Wiki", "http://wiki.example.com/"),
              ("Trap", "javascript:window.broken = 1"), ("Data", DATA_URL))]  # fmt: skip
    chat.agent.says = [
        Activity.said("As the manual says.", entities=[{"type": "https://schema.org/Message", "citation": cited}])
    ]
    chat.say("Why?")
    sources = chat.log.get_by_role("list", name="Sources")
    expect(sources.get_by_role("listitem")).to_have_text(["Manual", "Wiki", "Trap", "Data"])
    expect(sources.get_by_role("link")).to_have_text(["Manual", "Wiki"])
    expect(sources.get_by_role("link", name="Manual")).to_have_attribute("href", "https://example.com/manual")
    expect(sources.get_by_role("link", name="Wiki")).to_have_attribute("href", "http://wiki.example.com/")


def test_the_page_is_served_with_a_policy_that_allows_this_server_alone(chat: Chat) -> None:
    for path in ("/", "/docs", "/page/chat.js"):
        policy = chat.page.request.get(chat.server.url + path).headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "https:" not in policy
        assert re.search(r"(default|script)-src 'self'", policy)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_of_the_page_parses_markup_or_needs_another_host(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser", text
    )
    assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}
    if path.suffix == ".html":
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)
    assert len(text.splitlines()) <= 300
    assert max(map(len, text.splitlines())) <= 120
