"""Adaptive cards: shown, filled in with the keyboard, checked field by field, and read-only once they were sent."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.cards import everything, said_with
from tests.browser.chat import Chat
from tests.browser.conftest import Watch
from tests.browser.sample_cards import asks, columns, far_picture, send


def _problem_card(chat: Chat) -> Locator:
    chat.say("I am Ada Lovelace, ada@example.com")
    card = chat.log.get_by_role("form", name="What went wrong?")
    expect(card).to_be_visible()
    return card


def test_a_card_is_filled_in_with_the_keyboard_alone(chat: Chat) -> None:
    card = _problem_card(chat)
    keys = chat.page.keyboard
    expect(chat.field).to_be_focused()
    for _ in range(12):  # back from the field, over the answers on offer, into the card
        keys.press("Shift+Tab")
        if card.get_by_label("Product").evaluate("control => control === document.activeElement"):
            break
    expect(card.get_by_label("Product")).to_be_focused()
    keys.type("Desk")
    keys.press("Tab")
    keys.type("Bill")
    keys.press("Tab")
    keys.type("I was billed twice.")
    keys.press("Tab")
    expect(card.get_by_role("button", name="Submit")).to_be_focused()
    keys.press("Enter")
    chat.expect_collected(product="Desktop app", category="Billing", description="I was billed twice.")
    expect(chat.mine.last).to_contain_text("Form sent: What went wrong?")
    expect(card.get_by_label("Product")).to_be_disabled()
    expect(card.get_by_role("button")).to_have_count(0)
    expect(card).to_contain_text("Sent")
    expect(chat.field).to_be_focused()


def test_what_is_missing_is_said_at_its_field(chat: Chat) -> None:
    card = _problem_card(chat)
    card.get_by_label("Category").select_option("Billing")
    card.get_by_role("button", name="Submit").click()
    product = card.get_by_label("Product")
    expect(product).to_be_focused()
    expect(product).to_have_attribute("aria-invalid", "true")
    told = chat.page.locator(f"#{product.get_attribute('aria-describedby')}")
    expect(told).to_contain_text("Product must be one of")
    expect(card.locator(".wrong:visible")).to_have_count(2)
    expect(card.get_by_label("Category")).not_to_have_attribute("aria-invalid", "true")
    assert len(chat.agent.asked) == 1
    product.select_option("API")
    card.get_by_label("Description").fill("It answers 500.")
    card.get_by_role("button", name="Submit").click()
    chat.expect_collected(product="API", category="Billing", description="It answers 500.")
    expect(card.locator(".wrong:visible")).to_have_count(0)


def test_what_was_told_in_words_is_in_the_card_and_closes_it(chat: Chat) -> None:
    card = _problem_card(chat)
    chat.say("Website")
    expect(card.get_by_label("Product")).to_have_value("Website")
    chat.say("Billing")
    chat.say("I was billed twice.")
    expect(card.get_by_label("Product")).to_be_disabled()
    expect(card).to_contain_text("Answered")


def test_every_part_of_a_card_is_shown(chat: Chat) -> None:
    chat.agent.says = said_with(*everything())
    chat.say("Show me everything")
    card = chat.log.get_by_role("form", name="A card of everything")
    expect(card.locator("b")).to_have_text("strong")
    expect(card.get_by_role("img", name="A dot")).to_be_visible()
    expect(card.get_by_role("img")).to_have_js_property("naturalWidth", 1)
    expect(card.locator(".facts dd")).to_have_text("2026-11-02")
    for words in ("inside", "left", "right", "a chart, in words"):
        expect(card.get_by_text(words, exact=True)).to_be_visible()
    expect(card.get_by_text("not shown")).to_be_hidden()
    expect(card.get_by_text("a chart that has no words")).to_have_count(0)
    expect(card.get_by_role("group", name="Contact").get_by_role("radio")).to_have_count(2)


def test_every_input_is_checked_and_sent(chat: Chat) -> None:
    chat.agent.says = said_with(*everything())
    chat.say("Show me everything")
    card = chat.log.get_by_role("form", name="A card of everything")
    card.get_by_label("Code").fill("abc")
    card.get_by_label("People").fill("500")
    card.get_by_role("button", name="Submit").click()
    expect(card.get_by_text("Three letters.")).to_be_visible()
    expect(card.get_by_text("People is not valid.")).to_be_visible()
    expect(card.get_by_text("Contact is required.")).to_be_visible()
    card.get_by_label("Code").fill("ABC")
    card.get_by_label("People").fill("12")
    card.get_by_label("Since").fill("2026-11-02")
    card.get_by_label("Product").select_option(label="The API")
    card.get_by_role("radio", name="Phone").check()
    card.get_by_role("checkbox", name="You may store this").check()
    with chat.page.expect_request("**/card-actions/stream") as sent:
        card.get_by_role("button", name="Submit").click()
    given: dict[str, Any] = sent.value.post_data_json or {}
    assert given["card_id"] == "problem_card"
    assert given["action"] == "submit"
    assert given["data"] == {
        "code": "ABC", "affected_users": 12, "since": "2026-11-02", "product": "API", "contact_by": "By phone",
        "consent": "true",
    }  # fmt: skip
    chat.expect_collected(affected_users="12", since="2026-11-02", product="API", contact_by="By phone", consent="Yes")


def test_the_answer_to_a_card_is_seen_while_it_is_written(chat: Chat) -> None:
    card = _problem_card(chat)
    card.get_by_label("Product").select_option("API")
    card.get_by_label("Category").select_option("Billing")
    card.get_by_label("Description").fill("It answers 500.")
    chat.agent.hold(after=1)
    card.get_by_role("button", name="Submit").click()
    expect(chat.page.locator("[data-draft]")).to_have_text(re.compile(r"\S"))
    chat.expect_state(chat.mine.last, "writing")
    chat.agent.open()
    chat.expect_collected(product="API", category="Billing", description="It answers 500.")


def test_a_card_that_could_not_be_sent_is_tried_again(chat: Chat, watch: Watch) -> None:
    watch.is_refusal_expected = True
    card = _problem_card(chat)
    card.get_by_label("Product").select_option("API")
    card.get_by_label("Category").select_option("Billing")
    card.get_by_label("Description").fill("It answers 500.")
    chat.agent.fails = True
    card.get_by_role("button", name="Submit").click()
    bubble = chat.mine.last
    chat.expect_state(bubble, "refused")
    expect(card).to_contain_text("Not sent yet")
    chat.agent.fails = False
    bubble.get_by_role("button", name="Try again").click()
    chat.expect_state(bubble, "answered")
    chat.expect_collected(product="API")
    expect(card).to_contain_text("Sent")


def test_a_link_of_a_card_leads_out_safely(chat: Chat) -> None:
    actions = [
        {"type": "Action.OpenUrl", "title": "Read more", "url": "https://example.com/help"},
        {"type": "Action.OpenUrl", "title": "In house", "url": "http://wiki.example.com/"},
        {"type": "Action.OpenUrl", "title": "Mail", "url": "mailto:ada@example.com"},
        {"type": "Action.Unknown", "title": "Unknown"},
    ]
    chat.agent.says = said_with({"type": "TextBlock", "text": "Links"}, actions=actions)
    chat.say("Show me links")
    card = chat.log.locator("form.card")
    expect(card.get_by_role("link")).to_have_text(["Read more", "In house"])
    for name, url in (("Read more", "https://example.com/help"), ("In house", "http://wiki.example.com/")):
        link = card.get_by_role("link", name=name)
        expect(link).to_have_attribute("href", url)
        expect(link).to_have_attribute("target", "_blank")
        expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(card.get_by_role("button")).to_have_count(0)


def test_a_pattern_that_never_ends_stops_nobody(chat: Chat) -> None:
    chat.agent.says = said_with(
        {"type": "TextBlock", "text": "Codes"},
        {"type": "Input.Text", "id": "code", "label": "Code", "regex": "^[A-Z]{3}$", "errorMessage": "Three letters."},
        {"type": "Input.Text", "id": "endless", "label": "Endless", "regex": "^(a+)+$"},
    )
    chat.say("Show me")
    card = chat.log.locator("form.card")
    card.get_by_label("Code").fill("abc")
    card.get_by_label("Endless").fill("a" * 40 + "!")
    chat.page.evaluate("() => { window.beats = 0; setInterval(() => { window.beats += 1; }, 1); }")
    card.get_by_role("button", name="Submit").click()
    expect(card.get_by_text("Three letters.")).to_be_visible()
    assert chat.page.evaluate("window.beats") > 3, "the page stood still while it looked"
    card.get_by_label("Code").fill("ABC")
    with chat.page.expect_request("**/card-actions/stream") as sent:
        card.get_by_role("button", name="Submit").click()
    given: dict[str, Any] = sent.value.post_data_json or {}
    assert given["data"] == {"code": "ABC", "endless": "a" * 40 + "!"}  # the server has the last word


def test_what_a_card_shows_and_hides_is_told_to_screen_readers(chat: Chat) -> None:
    shown = {"type": "AdaptiveCard", "body": [{"type": "TextBlock", "text": "Inside"}]}
    chat.agent.says = said_with(
        {"type": "TextBlock", "text": "Terms", "id": "terms", "isVisible": False},
        actions=[
            {"type": "Action.ShowCard", "title": "More", "card": shown},
            {"type": "Action.ToggleVisibility", "title": "Terms", "targetElements": ["terms"]},
            {"type": "Action.Submit", "title": "Send", "data": {"cardId": "problem_card"}},
        ],
    )
    chat.say("Show me")
    card = chat.log.locator("form.card")
    for name, words in (("More", "Inside"), ("Terms", "Terms")):
        button = card.get_by_role("button", name=name, expanded=False)
        part = chat.page.locator(f"#{button.get_attribute('aria-controls')}")
        expect(part).to_be_hidden()
        button.focus()
        chat.page.keyboard.press("Space")
        expect(part).to_be_visible()
        expect(part).to_contain_text(words)
        expect(card.get_by_role("button", name=name, expanded=True)).to_be_focused()
    card.get_by_role("button", name="Send").click()
    expect(card).to_contain_text("Sent")
    # a card that was sent can still be read, all of it
    card.get_by_role("button", name="More").click()
    expect(card.get_by_text("Inside")).to_be_hidden()
    card.get_by_role("button", name="More").click()
    expect(card.get_by_text("Inside")).to_be_visible()


def test_enter_in_a_shown_card_sends_that_card(chat: Chat) -> None:
    reply = {"type": "Action.Submit", "title": "Reply", "data": {"cardId": "problem_card", "way": "reply"}}
    inner = {
        "type": "AdaptiveCard",
        "body": [{"type": "Input.Text", "id": "words", "label": "Words"}],
        "actions": [reply],
    }
    approve = {"type": "Action.Submit", "title": "Approve", "data": {"cardId": "problem_card", "way": "approve"}}
    show = {"type": "Action.ShowCard", "title": "Comment", "card": inner}
    chat.agent.says = said_with({"type": "TextBlock", "text": "Well?"}, actions=[approve, show])
    chat.say("Show me")
    card = chat.log.locator("form.card")
    card.get_by_role("button", name="Comment").click()
    card.get_by_label("Words").fill("too late")
    with chat.page.expect_request("**/card-actions/stream") as sent:
        card.get_by_label("Words").press("Enter")
    given: dict[str, Any] = sent.value.post_data_json or {}
    assert given["data"] == {"way": "reply", "words": "too late"}


def test_a_part_to_press_does_so_once_and_not_when_the_card_was_sent(chat: Chat) -> None:
    choose = {"type": "Action.Submit", "title": "Blue", "data": {"cardId": "problem_card", "way": "blue"}}
    box = {"type": "Container", "items": [{"type": "TextBlock", "text": "The blue one"}], "selectAction": choose}
    chat.agent.says = said_with(box, actions=[])
    chat.say("Show me")
    part = chat.log.locator("form.card").get_by_role("button", name="The blue one")
    chat.agent.hold()
    sent: list[str] = []
    chat.page.on("request", lambda request: sent.append(request.url))
    part.dblclick()
    expect(part).to_have_attribute("aria-disabled", "true")
    part.press("Enter")
    chat.agent.open()
    chat.expect_state(chat.mine.last, "answered")
    assert len([url for url in sent if "card-actions" in url]) == 1


def test_where_nothing_is_shown_that_could_be_pressed_its_action_is_told_in_words(chat: Chat) -> None:
    chat.agent.says = said_with(
        far_picture(selectAction=send("Take the red one", way="red")),
        columns([far_picture()], selectAction=send("Take the blue one", way="blue")),
        far_picture(selectAction={"type": "Action.OpenUrl", "title": "See all", "url": "https://example.com/"}),
        asks("name", "Name"),
        {"type": "ActionSet", "actions": [send("Take none", way="none")]},
        actions=[],
    )
    chat.say("Show me")
    card = chat.log.locator("form.card")
    expect(card.get_by_role("button")).to_have_text(["Take the red one", "Take the blue one", "Take none"])
    expect(card.get_by_role("link")).to_have_text("See all")
    # as if the pictures were there, Enter in a field does what a button of the card says
    with chat.page.expect_request("**/card-actions/stream") as sent:
        card.get_by_label("Name").press("Enter")
    given: dict[str, Any] = sent.value.post_data_json or {}
    assert given["data"] == {"way": "none"}


def test_the_keyboard_goes_on_where_what_was_pressed_is_gone(chat: Chat) -> None:
    ask = {"type": "Action.ToggleVisibility", "title": "Edit", "targetElements": ["shown", "edited"]}
    chat.agent.says = said_with(
        {"type": "ActionSet", "id": "shown", "actions": [ask]},
        {"type": "Container", "id": "edited", "isVisible": False,
         "items": [{"type": "Input.Text", "id": "nick", "label": "Nickname"}]},
    )  # fmt: skip
    chat.say("Show me")
    card = chat.log.locator("form.card")
    card.get_by_role("button", name="Edit").focus()
    chat.page.keyboard.press("Enter")
    expect(card.get_by_role("button", name="Edit")).to_have_count(0)
    chat.page.keyboard.press("Tab")
    expect(card.get_by_label("Nickname")).to_be_focused()
