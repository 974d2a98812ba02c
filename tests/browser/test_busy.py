"""Writing while the agent is still answering: refused and tried again, waiting, or merged, as the policy says."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from inturn.agents.activity import Activity
from tests.browser.chat import Chat, contentions
from tests.browser.conftest import Watch
from tests.browser.held_network import HeldNetwork


def test_a_busy_conversation_refuses_and_the_message_is_tried_again_under_its_id(chat: Chat, watch: Watch) -> None:
    watch.is_refusal_expected = True
    chat.begin("reject")
    chat.agent.hold()
    first = chat.write("I am Ada Lovelace")
    expect(chat.page.locator(".dots")).to_be_visible()
    chat.until_asked()
    expect(chat.field).to_be_enabled()
    second = chat.write("ada@example.com")
    chat.expect_state(second, "refused")
    expect(second).to_contain_text("The conversation is busy")
    again = second.get_by_role("button", name=re.compile("Try again"))
    expect(again).to_be_visible()
    chat.agent.open()
    chat.expect_state(first, "answered")
    ids: list[str] = []
    chat.page.on("request", lambda request: ids.append((request.post_data_json or {}).get("message_id", "")))
    expect(again).to_be_enabled()  # as long as Retry-After says it is held back
    again.click()
    chat.expect_state(second, "answered")
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")
    assert ids == [second.get_attribute("data-id")]
    expect(chat.mine).to_have_count(2)
    assert chat.agent.asked == ["I am Ada Lovelace", "ada@example.com"]


def test_messages_that_wait_together_are_merged_into_one_answer(chat: Chat) -> None:
    chat.begin("merge")
    chat.agent.hold()
    first = chat.write("Hello there")
    chat.until_asked()
    second = chat.write_behind("I am Ada Lovelace")
    third = chat.write_behind("ada@example.com")
    for waiting in (second, third):
        chat.expect_state(waiting, "waiting")
        expect(waiting).to_contain_text("Waiting for its turn")
    answers = chat.theirs.count()
    chat.agent.open()
    chat.expect_state(first, "answered")
    for merged in (second, third):
        chat.expect_state(merged, "merged")
        expect(merged).to_contain_text("Merged: 2 messages, one answer")
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")
    assert chat.agent.asked == ["Hello there", "I am Ada Lovelace\nada@example.com"]
    # one answer to the first, one to both others, and the card of the next step
    expect(chat.theirs).to_have_count(answers + 3)


def test_in_a_queue_each_message_waits_and_gets_an_answer_of_its_own(chat: Chat) -> None:
    chat.begin("queue")
    chat.agent.hold()
    first = chat.write("Hello there")
    chat.until_asked()
    second = chat.write_behind("I am Ada Lovelace")
    chat.expect_state(second, "waiting")
    chat.agent.open()
    for answered in (first, second):
        chat.expect_state(answered, "answered")
    expect(second).to_contain_text("after waiting")
    chat.expect_collected(name="Ada Lovelace")
    assert chat.agent.asked == ["Hello there", "I am Ada Lovelace"]


def test_of_three_at_once_two_are_refused_and_tried_again(chat: Chat, watch: Watch) -> None:
    watch.is_refusal_expected = True
    chat.begin("reject")
    chat.agent.hold()
    chat.page.get_by_role("button", name="Send all at once").click()
    refused = chat.log.locator(".user[data-state=refused]")
    expect(refused).to_have_count(2)
    chat.agent.open()
    answered = chat.log.locator(".user[data-state=answered]")
    for number in (1, 2):
        expect(answered).to_have_count(number)
        again = refused.first.get_by_role("button", name="Try again", exact=True)
        expect(again).to_be_enabled()
        again.click()
    expect(answered).to_have_count(3)
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")


def test_of_three_at_once_two_wait_and_are_answered_together(chat: Chat) -> None:
    before = contentions()
    chat.agent.hold()
    chat.page.get_by_role("button", name="Send all at once").click()
    expect(chat.log.locator(".user[data-state=waiting]")).to_have_count(2)
    chat.until_contended(before + 2)
    chat.agent.open()
    expect(chat.log.locator(".user[data-state=merged]")).to_have_count(2)
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")
    assert len(chat.agent.asked) == 2


def test_of_three_at_once_two_wait_and_are_answered_in_order(chat: Chat) -> None:
    chat.begin("queue")
    chat.agent.hold()
    chat.page.get_by_role("button", name="Send all at once").click()
    expect(chat.log.locator(".user[data-state=waiting]")).to_have_count(2)
    chat.agent.open()
    expect(chat.log.locator(".user[data-state=answered]")).to_have_count(3)
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")
    assert len(chat.agent.asked) == 3


@pytest.mark.parametrize("policy", ["merge", "queue"])
def test_messages_stand_in_the_order_of_their_turns_as_they_do_after_a_reload(chat: Chat, policy: str) -> None:
    chat.begin("merge" if policy == "merge" else "queue")
    chat.agent.hold(after=1)
    first = chat.write("Hello there")
    draft = chat.page.locator("[data-draft]")
    expect(draft).to_have_text(re.compile(r"\S"))
    waiting = [chat.write_behind("I am Ada Lovelace"), chat.write_behind("ada@example.com")]
    kinds = chat.log.locator(":scope > *").evaluate_all("all => all.map((one) => one.className)")
    assert kinds[-4:] == ["message user", "message now", "message user", "message user"]
    chat.agent.open()
    chat.expect_state(first, "answered")
    for each in waiting:
        chat.expect_state(each, "merged" if policy == "merge" else "answered")
    expect(chat.page.locator(".now")).to_have_count(0)
    live = _said(chat)
    assert [who for who, _ in live[:4]] == ["assistant", "user", "assistant", "user"]
    chat.page.reload()
    expect(chat.mine).to_have_count(2 if policy == "merge" else 3)
    assert [text for who, text in _said(chat) if who == "assistant"] == [t for who, t in live if who == "assistant"]
    assert "\n".join(text for _, text in _said(chat)) == "\n".join(text for _, text in live)


def test_messages_that_are_merged_without_a_word_before_stand_together(chat: Chat) -> None:
    """An agent that does not stream: the first response is there before the second message knows of its turn."""
    chat.agent.hold()
    chat.write("Hello there")
    chat.until_asked()
    chat.agent.says = [Activity.said("Both of you.")]
    merged = [chat.write_behind("I am Ada Lovelace"), chat.write_behind("ada@example.com")]
    chat.agent.open()
    for each in merged:
        chat.expect_state(each, "merged")
    assert _said(chat)[-3:] == [
        ("user", "I am Ada Lovelace"), ("user", "ada@example.com"), ("assistant", "Both of you."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "arrives", "responds"),
    [
        ("merge", "123", "132"), ("merge", "123", "321"), ("merge", "132", "123"), ("merge", "213", "213"),
        ("merge", "213", "312"), ("merge", "321", "132"), ("queue", "321", "321"), ("queue", "213", "132"),
    ],
)  # fmt: skip
def test_turns_stand_in_their_order_however_the_network_mixes_requests_and_responses(
    chat: Chat, policy: str, arrives: str, responds: str
) -> None:
    if policy == "queue":
        chat.begin("queue")
    written = {"1": "How long", "2": "My name is", "3": "My e-mail is"}
    network = HeldNetwork(chat)
    chat.agent.hold()
    welcome = len(_said(chat))
    chat.page.get_by_role("button", name="Send all at once").click()
    network.arrive(written[number] for number in arrives)
    chat.agent.open()
    network.respond(written[number] for number in responds)
    expect(chat.page.locator(".now")).to_have_count(0)
    first, others = arrives[0], arrives[1:]
    # merged ones in the order in which they were written, each answer directly after what it answers
    turns = [first, "".join(sorted(others))] if policy == "merge" else [first, *others]
    meant = [words for turn in turns for words in (*(written[number] for number in turn), "")]
    shown = _said(chat)[welcome:]
    assert [who for who, _ in shown] == ["user" if words else "assistant" for words in meant]
    assert all(text.startswith(words) for (_, text), words in zip(shown, meant, strict=True)), shown


def _said(chat: Chat) -> list[tuple[str, str]]:
    """Who said what, from the top, without cards."""
    found = chat.log.locator(".bubble").evaluate_all(
        "all => all.map((one) => [one.parentElement.className.split(' ')[1], one.textContent])"
    )
    return [(who, text) for who, text in found]


def test_the_policy_is_chosen_with_the_conversation_and_shown(chat: Chat) -> None:
    policy = chat.page.locator("#policy")
    expect(policy).to_contain_text("merged")
    chat.begin("reject")
    expect(policy).to_contain_text("refused (409)")
    chat.page.reload()
    expect(policy).to_contain_text("refused (409)")
    chat.page.get_by_role("button", name="New").click()
    expect(chat.page.get_by_role("radio", name="Reject")).to_be_checked()
    before = chat.page.url
    chat.page.keyboard.press("Escape")
    expect(chat.page.get_by_role("dialog")).to_have_count(0)
    assert chat.page.url == before


def test_an_answer_to_a_conversation_that_was_left_is_not_shown_in_the_next(chat: Chat) -> None:
    chat.agent.hold()
    chat.write("I am Ada Lovelace")
    chat.until_asked()
    left = chat.page.url
    chat.begin("queue")
    expect(chat.mine).to_have_count(0)
    chat.agent.open()
    chat.say("I am Grace Hopper")
    expect(chat.mine).to_have_count(1)
    chat.expect_collected(name="Grace Hopper")
    chat.page.goto(left)
    chat.expect_collected(name="Ada Lovelace")
