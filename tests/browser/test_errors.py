"""What goes wrong is said where it went wrong, and can be tried again under the same id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.chat import Chat
from tests.browser.chat_server import ChatServer
from tests.browser.conftest import Watch
from tests.browser.gated_agent import GatedAgent
from tests.browser.held_network import until_held
from tests.servers import PrivateRedis

KEY = "a-key-of-sixteen-or-more"


@pytest.fixture(autouse=True)
def expected(watch: Watch) -> None:
    watch.is_refusal_expected = True


def test_an_agent_that_fails_is_told_and_tried_again(chat: Chat) -> None:
    chat.agent.fails = True
    bubble = chat.write("I am Ada Lovelace")
    chat.expect_state(bubble, "refused")
    expect(bubble.locator(".trouble")).to_contain_text("cannot be reached")
    expect(chat.page.get_by_text("Nothing yet.")).to_be_visible()
    chat.agent.fails = False
    bubble.get_by_role("button", name="Try again").click()
    chat.expect_state(bubble, "answered")
    expect(bubble.locator(".trouble")).to_be_hidden()
    chat.expect_collected(name="Ada Lovelace")


def test_a_trouble_is_in_sight_and_the_keyboard_stays_where_it_was(chat: Chat) -> None:
    chat.page.set_viewport_size({"width": 360, "height": 460})
    chat.say("How long does this take?")
    chat.agent.fails = True
    bubble = chat.write("I am Ada Lovelace")
    again = bubble.get_by_role("button", name="Try again")
    expect(again).to_be_in_viewport(ratio=1)
    again.focus()
    chat.agent.fails = False
    chat.page.keyboard.press("Enter")
    chat.expect_state(bubble, "answered")
    expect(chat.page.get_by_role("region", name="Conversation")).to_be_focused()


def test_a_server_that_is_gone_is_told_and_tried_again_when_it_is_back(chat: Chat, server: ChatServer) -> None:
    chat.say("I am Ada Lovelace")
    server.stop()
    bubble = chat.write("ada@example.com")
    chat.expect_state(bubble, "refused")
    expect(bubble).to_contain_text("The server cannot be reached")
    server.start()
    bubble.get_by_role("button", name="Try again").click()
    chat.expect_state(bubble, "answered")
    chat.expect_collected(name="Ada Lovelace", email="ada@example.com")


def test_a_page_that_is_opened_while_the_server_refuses_can_try_again(chat: Chat) -> None:
    chat.page.route("**/api/v1/**", lambda route: route.abort())
    chat.page.reload()
    again = chat.log.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    chat.page.unroute("**/api/v1/**")
    again.click()
    expect(chat.theirs.first).to_be_visible()
    expect(again).to_have_count(0)


def test_a_refused_message_is_still_there_after_a_reload(chat: Chat) -> None:
    chat.agent.fails = True
    chat.expect_state(chat.write("I am Ada Lovelace"), "refused")
    asked = len(chat.agent.asked)
    chat.page.reload()
    bubble = chat.mine.first
    chat.expect_state(bubble, "refused")
    assert len(chat.agent.asked) == asked
    chat.agent.fails = False
    bubble.get_by_role("button", name="Try again").click()
    chat.expect_state(bubble, "answered")
    expect(chat.mine).to_have_count(1)


def test_a_conversation_that_was_completed_elsewhere_is_shown_so(chat: Chat) -> None:
    chat.page.evaluate(
        "id => fetch(`/api/v1/workflows/${id}/complete`, {method: 'POST'})", chat.page.url.partition("#")[2]
    )
    chat.field.fill("I am Ada Lovelace")
    chat.field.press("Enter")  # its bubble is there only until the server has answered
    expect(chat.page.get_by_text("This workflow is completed.")).to_be_visible()
    expect(chat.mine).to_have_count(0)


def test_a_conversation_that_was_ended_elsewhere_can_be_started_again(chat: Chat) -> None:
    chat.page.evaluate("id => fetch(`/api/v1/workflows/${id}`, {method: 'DELETE'})", chat.page.url.partition("#")[2])
    chat.write("I am Ada Lovelace")
    chat.log.get_by_role("button", name="Start again").click()
    expect(chat.mine).to_have_count(0)
    chat.say("I am Ada Lovelace")


class TestWithRedis:
    @pytest.fixture
    def server(self, fresh_redis: PrivateRedis) -> Iterator[ChatServer]:
        with ChatServer(fresh_redis.url, GatedAgent(), INTURN_STORE_TIMEOUT="3") as server:
            yield server

    def test_a_store_that_is_away_is_told_and_the_conversation_goes_on_after_it(
        self, chat: Chat, fresh_redis: PrivateRedis
    ) -> None:
        chat.say("I am Ada Lovelace")
        fresh_redis.pause()
        with chat.page.expect_response("**/turns/stream", timeout=30_000) as response:
            bubble = chat.write("ada@example.com")
        assert response.value.status == 503
        chat.expect_state(bubble, "refused")
        fresh_redis.resume()
        again = bubble.get_by_role("button", name="Try again", exact=True)
        expect(again).to_be_enabled(timeout=30_000)
        again.click()
        expect(bubble).to_have_attribute("data-state", "answered", timeout=30_000)
        chat.expect_collected(name="Ada Lovelace", email="ada@example.com")


class TestWithKeys:
    @pytest.fixture
    def server(self, sqlite_url: str) -> Iterator[ChatServer]:
        with ChatServer(sqlite_url, GatedAgent(), INTURN_API_KEYS=f"{KEY}:ada:acme") as server:
            yield server

    def test_a_key_is_asked_for_and_stays_in_the_tab(
        self, page: Page, server: ChatServer, context: BrowserContext
    ) -> None:
        chat = Chat(page, server)
        page.goto(server.url)
        dialog = page.get_by_role("dialog", name="This server needs an API key")
        key = dialog.get_by_label("API key", exact=True)
        expect(key).to_be_focused()
        key.fill("some-wrong-key-that-is-long")
        key.press("Enter")
        expect(dialog).to_contain_text("The key was not accepted")
        key.fill(KEY)
        key.press("Enter")
        expect(chat.theirs.first).to_be_visible()
        chat.say("I am Ada Lovelace")
        page.reload()
        chat.expect_collected(name="Ada Lovelace")
        assert KEY not in page.url
        assert page.evaluate("Object.keys(localStorage)") == []
        assert context.cookies() == []

    @pytest.mark.parametrize("held_back", ["workflow-definitions", "workflows"])
    def test_what_is_typed_right_after_signing_in_is_sent(self, page: Page, server: ChatServer, held_back: str) -> None:
        chat, held = Chat(page, server), list[Route]()
        page.goto(server.url)
        page.get_by_label("API key", exact=True).fill(KEY)
        page.route(f"**/api/v1/{held_back}", lambda route: held.append(route))
        page.keyboard.press("Enter")
        page.keyboard.type("I am Ada Lovelace")  # nobody has clicked into the field
        page.keyboard.press("Enter")
        expect(chat.field).to_have_value("I am Ada Lovelace")
        until_held(page, held).continue_()
        page.unroute(f"**/api/v1/{held_back}")
        chat.expect_collected(name="Ada Lovelace")
        expect(chat.mine).to_have_count(1)
        expect(chat.field).to_have_value("")
        expect(chat.field).to_be_focused()

    def test_who_forbids_the_page_to_store_anything_can_talk_all_the_same(self, page: Page, server: ChatServer) -> None:
        """With cookies blocked, browsers raise an error where a page as much as names its storage."""
        page.add_init_script(
            "Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('', 'SecurityError') } })"
        )
        chat = Chat(page, server)
        page.goto(server.url)
        key = page.get_by_label("API key", exact=True)
        key.fill(KEY)
        key.press("Enter")
        chat.say("I am Ada Lovelace")
        chat.expect_collected(name="Ada Lovelace")
        chat.begin("queue")
        chat.say("I am Grace Hopper")
