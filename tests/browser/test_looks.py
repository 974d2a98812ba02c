"""The page on a phone, and in the dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from inturn.agents.activity import Activity
from tests.browser import measures
from tests.browser.cards import everything, said_with
from tests.browser.chat import Chat

COLOURS = """
() => ["body", ".top", ".assistant .bubble", ".user .bubble", "#panel", "#text", "#send"].map((selector) => {
  const style = getComputedStyle(document.querySelector(selector));
  return [selector, style.color, style.backgroundColor];
})
"""


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_window(chat: Chat, width: int) -> None:
    chat.page.set_viewport_size({"width": width, "height": 640})
    chat.say("I am Ada Lovelace, ada@example.com")
    expect(chat.page.get_by_role("group", name="Suggested answers")).to_be_visible()
    assert measures.overflow(chat.page) == []
    chat.agent.says = said_with(*everything(), text="A" * 400)
    chat.say("B" * 400)
    assert measures.overflow(chat.page) == []
    chat.page.get_by_role("button", name="New").click()
    assert measures.overflow(chat.page) == []
    chat.page.keyboard.press("Escape")
    if width < 960:
        chat.page.get_by_role("button", name="Details").click()
        expect(chat.page.get_by_role("button", name="Close")).to_be_focused()
        assert measures.overflow(chat.page) == []
    chat.page.goto(f"{chat.server.url}/docs")
    expect(chat.page.locator(".operation").first).to_be_visible()
    assert measures.overflow(chat.page) == []


def test_the_measure_of_overflow_finds_a_fault(chat: Chat) -> None:
    chat.page.evaluate("document.getElementById('title').style.minInlineSize = '3000px'")
    assert measures.overflow(chat.page) != []


@pytest.mark.parametrize(("width", "height"), [(640, 400), (740, 360), (320, 256)])
def test_at_200_and_400_percent_there_is_room_for_what_is_said(chat: Chat, width: int, height: int) -> None:
    """A window of 1280 pixels is 640 wide at 200 %, and 320 at 400 %."""
    chat.page.set_viewport_size({"width": width, "height": height})
    chat.say("I am Ada Lovelace, ada@example.com")
    expect(chat.page.get_by_role("group", name="Suggested answers")).to_be_visible()
    room = chat.page.locator(".scroller").evaluate("scroller => scroller.clientHeight")
    assert room >= 0.38 * height
    assert measures.overflow(chat.page) == []
    assert measures.small_targets(chat.page) == []
    expect(chat.page.locator("#step")).to_contain_text("Step 2 of 4")


def test_each_text_is_written_in_the_direction_of_its_script(chat: Chat) -> None:
    chat.agent.says = [Activity.said("שלום!", value={"name": "עדה!"})]
    chat.say("مرحبا!")
    ends_left = """(element) => {
      const [range, text] = [document.createRange(), element.firstChild];
      const left = (place) => {
        range.setStart(text, place);
        range.setEnd(text, place + 1);
        return range.getBoundingClientRect().left;
      };
      return left(text.length - 1) < left(0);
    }"""
    for shown in (chat.mine.last.locator(".bubble"), chat.theirs.last.locator(".bubble"), chat.collected.locator("dd")):
        assert shown.evaluate(ends_left), shown.text_content()
    assert not chat.page.locator("#title").evaluate(ends_left)


def test_only_the_messages_scroll(chat: Chat) -> None:
    chat.page.set_viewport_size({"width": 360, "height": 640})
    for answer in ("I am Ada Lovelace, ada@example.com", "Website", "Billing", "I was billed twice."):
        chat.say(answer)
    chat.until_drawn()
    chat.mine.first.evaluate("bubble => bubble.scrollIntoView()")
    expect(chat.mine.first.locator(".bubble")).to_be_in_viewport()
    assert chat.page.evaluate("[document.documentElement.scrollTop, document.body.scrollTop]") == [0, 0]
    assert chat.page.evaluate("document.documentElement.scrollHeight") == 640
    expect(chat.page.locator(".top")).to_be_in_viewport(ratio=1)


def test_targets_are_large_enough_for_fingers(chat: Chat) -> None:
    chat.page.set_viewport_size({"width": 320, "height": 640})
    chat.say("I am Ada Lovelace, ada@example.com")
    assert measures.small_targets(chat.page) == []
    chat.page.get_by_role("button", name="Details").click()
    assert measures.small_targets(chat.page) == []


def test_the_dark_has_colours_of_its_own(chat: Chat) -> None:
    chat.say("I am Ada Lovelace")
    chat.page.emulate_media(color_scheme="light")
    light = chat.page.evaluate(COLOURS)
    chat.page.emulate_media(color_scheme="dark")
    dark = chat.page.evaluate(COLOURS)
    for (selector, *by_day), (_, *by_night) in zip(light, dark, strict=True):
        assert by_day != by_night, selector


@pytest.mark.parametrize(("width", "height"), [(360, 640), (768, 1024), (1280, 800)])
def test_the_newest_answer_is_not_behind_the_suggested_ones(chat: Chat, width: int, height: int) -> None:
    chat.page.set_viewport_size({"width": width, "height": height})
    chat.agent.says = [Activity.said("A long story.\n" * 40)]
    chat.say("Tell me")
    chat.agent.says = [Activity.said("Which one?", value={"choices": ["This one", "That one", "Another one"]})]
    chat.say("Ask me")
    newest = chat.theirs.last.locator(".bubble")
    expect(newest).to_have_text("Which one?")
    expect(chat.page.get_by_role("group", name="Suggested answers")).to_be_visible()
    expect(newest).to_be_in_viewport(ratio=1)
    chat.page.reload()
    expect(newest).to_have_text("Which one?")
    expect(newest).to_be_in_viewport(ratio=1)
    # the keyboard of a phone, and a long text in the field
    chat.page.set_viewport_size({"width": width, "height": height - 200})
    expect(newest).to_be_in_viewport(ratio=1)
    chat.field.fill("one\ntwo\nthree\nfour")
    expect(newest).to_be_in_viewport(ratio=1)


def test_on_a_phone_the_field_stays_in_sight_and_the_answer_is_read_from_its_beginning(chat: Chat) -> None:
    chat.page.set_viewport_size({"width": 360, "height": 640})
    chat.say("I am Ada Lovelace, ada@example.com")
    expect(chat.field).to_be_in_viewport(ratio=1)
    answer = chat.theirs.filter(has_text="Which product").first.locator(".bubble")
    expect(answer).to_be_in_viewport(ratio=0.9)
