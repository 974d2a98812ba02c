"""Of a corpus of cards none loses a text, and each can be answered."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser import measures
from tests.browser.cards import said_with
from tests.browser.chat import Chat
from tests.browser.sample_cards import SAMPLES, Sample, texts_of

SEEN = """(card) => {
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true });
  const walker = document.createTreeWalker(card, NodeFilter.SHOW_TEXT);
  const seen = [];
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement.closest("select") ?? walker.currentNode.parentElement;
    if (isSeen(holder)) seen.push(walker.currentNode.data);
  }
  for (const image of card.querySelectorAll("img")) if (isSeen(image)) seen.push(image.alt);
  return seen;
}"""


def test_the_corpus_is_large_enough() -> None:
    assert len([sample for group in SAMPLES.values() for sample in group]) >= 25


@pytest.mark.parametrize("group", SAMPLES)
def test_no_text_of_a_card_is_lost_and_each_can_be_answered(chat: Chat, group: str) -> None:
    for sample in SAMPLES[group]:
        card = _shown(chat, sample)
        seen = _all_texts(card)
        expected = texts_of([sample.card, sample.body, sample.actions])
        lost = {words for words in expected if not any(words.strip() in text for text in seen)} - set(sample.not_shown)
        assert lost == set(), sample.name
        assert not [words for words in sample.not_shown if words in seen], sample.name
        assert _answered(chat, sample) == sample.data, sample.name
    assert measures.overflow(chat.page) == []
    assert measures.nameless(chat.page) == []
    assert measures.duplicate_ids(chat.page) == []


def _shown(chat: Chat, sample: Sample) -> Locator:
    chat.agent.says = said_with(*sample.body, actions=sample.actions, **sample.card)
    chat.say(f"Show me {sample.name}")
    return chat.log.locator("form.card").last


def _all_texts(card: Locator) -> set[str]:
    """What can be read once everything that can be opened was opened."""
    seen = set(card.evaluate(SEEN))
    pressed: set[str] = set()
    while fresh := [one for one in card.locator("[aria-controls]:visible").all() if one.inner_text() not in pressed]:
        pressed.add(fresh[0].inner_text())
        fresh[0].click()
        seen |= set(card.evaluate(SEEN))
    return seen


def _answered(chat: Chat, sample: Sample) -> dict[str, Any]:
    """In a card that nothing was opened in yet."""
    card = _shown(chat, sample)
    for name in sample.opens:
        button = card.get_by_role("button", name=name, exact=True)
        button.focus()
        chat.page.keyboard.press("Enter")
        expect(button).to_have_attribute("aria-expanded", "true")
    for label, value in sample.fills.items():
        card.get_by_label(label, exact=True).fill(value)
    with chat.page.expect_request("**/card-actions/stream") as sent:
        card.get_by_role("button", name=sample.press, exact=True).focus()
        chat.page.keyboard.press("Enter")
    chat.expect_state(chat.mine.last, "answered")
    given: dict[str, Any] = sent.value.post_data_json or {}
    assert given["card_id"] == "problem_card"
    data: dict[str, Any] = given["data"]
    return data
