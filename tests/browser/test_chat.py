"""Talking to the example workflow: by typing, by quick replies, with what was collected beside it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.chat import Chat
from tests.browser.chat_server import ChatServer
from tests.browser.conftest import Watch
from tests.browser.held_network import until_held

ANSWERS = [
    "I am Ada Lovelace", "ada@example.com", "Desktop app", "Error or crash", "It crashes when I save a file.",
    "We can work around it", "2026-11-02", "12", "no", "By e-mail", "yes", "yes",
]  # fmt: skip


def test_a_whole_intake_can_be_typed(chat: Chat) -> None:
    for answer in ANSWERS[:-1]:
        chat.say(answer)
    chat.expect_collected(
        name="Ada Lovelace", email="ada@example.com", product="Desktop app", since="2026-11-02", affected_users="12",
        contact_by="By e-mail", consent="Yes",
    )  # fmt: skip
    chat.expect_percent(99)
    chat.say(ANSWERS[-1])
    chat.expect_percent(100)
    expect(chat.page.get_by_text("This workflow is completed.")).to_be_visible()
    expect(chat.field).to_be_hidden()
    expect(chat.log.locator("form.card fieldset.card-fields:enabled")).to_have_count(0)
    expect(chat.page.get_by_role("button", name="Start again")).to_be_focused()


def test_after_the_end_one_can_start_again(chat: Chat) -> None:
    first = chat.page.url
    chat.say("I am Ada Lovelace, ada@example.com")
    chat.page.evaluate("id => fetch(`/api/v1/workflows/${id}/complete`, {method: 'POST'})", first.partition("#")[2])
    chat.page.reload()
    chat.page.get_by_role("button", name="Start again").click()
    expect(chat.field).to_be_focused()
    assert chat.page.url != first
    expect(chat.mine).to_have_count(0)
    chat.expect_percent(0)
    chat.say("I am Grace Hopper")
    chat.expect_collected(name="Grace Hopper")


def test_progress_and_collected_data_follow_the_conversation(chat: Chat) -> None:
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Support request")
    expect(chat.page.get_by_text("Nothing yet.")).to_be_visible()
    expect(chat.page.locator("#step")).to_have_text("Step 1 of 4 · 0 %")
    chat.say("I am Ada Lovelace")
    chat.expect_collected(name="Ada Lovelace")
    expect(chat.collected.locator("dt")).to_have_text("Your name")
    chat.expect_percent(10)
    chat.say("ada@example.com")
    expect(chat.progress).to_have_attribute("aria-valuetext", "Step 2 of 4, 20 %")
    expect(chat.page.get_by_text("Nothing yet.")).to_be_hidden()


def test_choices_are_quick_replies(chat: Chat) -> None:
    chat.say("I am Ada Lovelace, ada@example.com")
    offer = chat.page.get_by_role("group", name="Suggested answers")
    expect(offer.get_by_role("button")).to_have_text(["Mobile app", "Website", "Desktop app", "API"])
    offer.get_by_role("button", name="Website").click()
    chat.expect_collected(product="Website")
    expect(chat.field).to_be_focused()
    expect(offer.get_by_role("button").first).to_have_text("Cannot log in")


def test_the_agent_is_named_at_its_messages(chat: Chat) -> None:
    chat.say("I am Ada Lovelace")
    expect(chat.theirs.last.locator(".who")).to_have_text("Offline agent")
    expect(chat.mine.last.locator(".who")).to_have_text("You")


def test_shift_and_enter_begin_a_new_line_and_blanks_are_not_sent(chat: Chat) -> None:
    chat.field.fill("I am Ada Lovelace")
    chat.field.press("Shift+Enter")
    chat.page.keyboard.type("ada@example.com")
    expect(chat.mine).to_have_count(0)
    chat.field.press("Enter")
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")
    assert chat.agent.asked == ["I am Ada Lovelace\nada@example.com"]
    chat.field.fill("  \n ")
    chat.field.press("Enter")
    expect(chat.mine).to_have_count(1)


@pytest.mark.parametrize("edit", ["", ", ada@example.com"], ids=["as it was entered", "edited after that"])
def test_what_is_entered_before_the_conversation_has_begun_is_not_lost(
    page: Page, server: ChatServer, edit: str
) -> None:
    chat, held = Chat(page, server), list[Route]()
    page.route("**/api/v1/workflow-definitions", lambda route: held.append(route))
    with page.expect_request("**/api/v1/workflow-definitions"):
        page.goto(server.url)
    chat.field.fill("I am Ada Lovelace")
    chat.field.press("Enter")
    expect(chat.field).to_have_value("I am Ada Lovelace")
    if edit:  # then it is not sent as long as its writer is not done with it
        chat.field.press_sequentially(edit)
    expect(page.get_by_role("button", name="Send all at once")).to_be_disabled()
    until_held(page, held).continue_()
    expect(chat.theirs.first).to_be_visible()
    if edit:
        expect(chat.field).to_have_value(f"I am Ada Lovelace{edit}")
        chat.field.press("Enter")
    chat.expect_collected(name="Ada Lovelace", **({"email": "ada@example.com"} if edit else {}))
    expect(chat.field).to_have_value("")
    expect(chat.mine).to_have_count(1)


def test_what_is_entered_before_the_script_is_there_is_not_lost(page: Page, server: ChatServer) -> None:
    chat, held = Chat(page, server), list[Route]()
    page.route("**/page/chat.js", lambda route: held.append(route))
    page.goto(server.url, wait_until="commit")
    chat.field.fill("I am Ada Lovelace")
    page.get_by_role("button", name="Send", exact=True).click()
    until_held(page, held).continue_()
    expect(chat.theirs.first).to_be_visible()
    expect(chat.field).to_have_value("I am Ada Lovelace")
    chat.field.press("Enter")
    chat.expect_collected(name="Ada Lovelace")


def test_text_grows_while_it_is_streamed_and_is_read_out_as_a_whole(chat: Chat) -> None:
    chat.agent.hold(after=1)
    before = chat.theirs.count()
    bubble = chat.write("I am Ada Lovelace")
    draft = chat.page.locator("[data-draft]")
    expect(draft).to_have_text(re.compile(r"\S"))
    beginning = draft.inner_text().strip()
    chat.expect_state(bubble, "writing")
    # what is being written is hidden from screen readers
    assert beginning not in chat.log.aria_snapshot()
    expect(chat.theirs).to_have_count(before)
    expect(chat.page.get_by_role("status").filter(has_text="being written")).to_have_count(1)
    chat.agent.open()
    chat.expect_state(bubble, "answered")
    whole = chat.theirs.nth(before).locator(".bubble").inner_text()
    assert whole.startswith(beginning)
    assert len(whole) > len(beginning)
    expect(draft).to_be_hidden()


def test_typing_is_shown_before_the_first_word(chat: Chat) -> None:
    chat.agent.hold()
    bubble = chat.write("I am Ada Lovelace")
    expect(chat.page.locator(".dots")).to_be_visible()
    chat.agent.open()
    chat.expect_state(bubble, "answered")
    expect(chat.page.locator(".dots")).to_be_hidden()


def test_a_reload_restores_the_conversation(chat: Chat) -> None:
    chat.say("I am Ada Lovelace, ada@example.com")
    card = chat.log.get_by_role("form", name="What went wrong?")
    expect(card).to_be_visible()
    chat.page.reload()
    expect(chat.mine.locator(".bubble")).to_have_text(["I am Ada Lovelace, ada@example.com"])
    expect(card).to_be_visible()
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")
    chat.expect_percent(20)
    chat.say("Website")
    chat.expect_collected(product="Website")


def test_another_tab_shows_who_answers_and_the_card_of_the_step(chat: Chat) -> None:
    chat.say("I am Ada Lovelace, ada@example.com")
    chat.say("Website")
    chat.expect_collected(product="Website")
    who = chat.log.locator(".assistant .who").first
    name = who.text_content()
    assert name != "Assistant"
    chat.page.evaluate("() => sessionStorage.clear()")  # as another tab has it
    chat.page.reload()
    card = chat.log.get_by_role("form", name="What went wrong?")
    expect(card).to_have_count(1)
    expect(card.get_by_label("Product")).to_have_value("Website")
    expect(who).to_have_text(name or "")


def test_what_is_said_in_one_tab_is_shown_in_another(chat: Chat) -> None:
    other = Chat(chat.page.context.new_page(), chat.server)
    other.page.goto(chat.page.url)
    expect(other.theirs.first).to_be_visible()
    other.field.fill("half a sentence")
    chat.say("I am Ada Lovelace, ada@example.com")
    other.expect_collected(name="Ada Lovelace", email="ada@example.com")
    expect(other.mine.locator(".bubble")).to_have_text(["I am Ada Lovelace, ada@example.com"])
    expect(other.log.get_by_role("form", name="What went wrong?")).to_be_visible()
    expect(other.field).to_have_value("half a sentence")
    other.say("Website")
    chat.expect_collected(product="Website")
    expect(chat.mine).to_have_count(2)


def test_what_was_said_on_another_device_is_shown_when_the_page_is_looked_at_again(chat: Chat) -> None:
    conversation = chat.page.url.partition("#")[2]
    chat.page.request.post(
        f"{chat.server.url}/api/v1/workflows/{conversation}/turns", data={"text": "I am Ada Lovelace"}
    )
    chat.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    chat.expect_collected(name="Ada Lovelace")
    chat.page.request.post(f"{chat.server.url}/api/v1/workflows/{conversation}/complete")
    chat.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(chat.page.get_by_text("This workflow is completed.")).to_be_visible()


def test_a_message_that_a_reload_cut_off_is_answered_once(chat: Chat) -> None:
    chat.agent.hold()
    chat.write("I am Ada Lovelace")
    chat.page.wait_for_function("() => sessionStorage.length > 0")
    expect(chat.page.locator(".dots")).to_be_visible()
    chat.page.reload()
    expect(chat.mine).to_have_count(1)
    chat.agent.open()
    chat.expect_collected(name="Ada Lovelace")
    expect(chat.mine.locator(".bubble")).to_have_text(["I am Ada Lovelace"])
    assert chat.agent.asked == ["I am Ada Lovelace"]


@pytest.mark.parametrize("fragment", ["0123456789abcdef", "%", "%ED%A0%80", "%00", ".", "a" * 70_000], ids=len)
def test_an_address_of_no_conversation_begins_a_new_one(chat: Chat, watch: Watch, fragment: str) -> None:
    watch.is_refusal_expected = True
    chat.page.goto("about:blank")  # or only the part after the # would change, which is no new page
    chat.page.goto(f"{chat.server.url}/#{fragment}")
    expect(chat.log.get_by_text("This is a new one")).to_be_visible()
    chat.say("I am Ada Lovelace")
    chat.expect_collected(name="Ada Lovelace")
