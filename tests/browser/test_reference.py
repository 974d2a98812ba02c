"""The API reference lists all that the server can do, and can be tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser import measures
from tests.browser.chat_server import ChatServer
from tests.browser.gated_agent import GatedAgent

METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture
def docs(page: Page, server: ChatServer) -> Page:
    page.goto(f"{server.url}/docs")
    expect(page.locator(".operation").first).to_be_visible()
    return page


def test_every_operation_is_listed_under_its_tag(docs: Page, server: ChatServer) -> None:
    described = docs.request.get(f"{server.url}/openapi.json").json()
    listed = {f"{method} {path}" for path, told in described["paths"].items() for method in told if method in METHODS}
    shown = docs.locator("[data-operation]").evaluate_all("all => all.map((one) => one.dataset.operation)")
    assert len(listed) > 10
    assert sorted(shown) == sorted(listed)
    assert docs.locator("#contents a").count() == len(listed)
    expect(docs.get_by_role("heading", level=2, name="Workflows").first).to_be_visible()
    # the line breaks of the source are not line breaks of the text
    assert "\n" in described["info"]["description"]
    assert "\n" not in docs.locator("#about").inner_text()


def test_an_operation_tells_its_fields_its_codes_and_a_command(docs: Page, server: ChatServer) -> None:
    turn = docs.locator("[data-operation='post /api/v1/workflows/{conversation_id}/turns']")
    for words in ("conversation_id *", "text *", "message_id", "conversation-busy", "agent-timeout"):
        expect(turn.get_by_text(words).first).to_be_attached()
    turn.get_by_text("curl", exact=True).click()
    command = turn.get_by_role("region", name="curl command")
    expect(command).to_contain_text(f"curl -sS -X POST '{server.url}/api/v1/workflows/{{conversation_id}}/turns'")
    expect(command).to_contain_text('"text":')


def test_an_operation_can_be_tried(docs: Page) -> None:
    start = docs.locator("[data-operation='post /api/v1/workflows']")
    start.get_by_text("Try it").click()
    start.get_by_role("textbox", name="Body").fill('{"busy": "merge"}')
    start.get_by_role("button", name="Send").click()
    expect(start.get_by_text("201 Created")).to_be_visible()
    expect(start.get_by_role("region", name="Response", exact=True)).to_contain_text('"conversation_id"')


def test_a_stream_can_be_tried(docs: Page, server: ChatServer) -> None:
    started = docs.request.post(f"{server.url}/api/v1/workflows", data={}).json()
    stream = docs.locator("[data-operation='post /api/v1/workflows/{conversation_id}/turns/stream']")
    stream.get_by_text("Try it").click()
    stream.get_by_role("textbox", name="conversation_id").fill(started["conversation_id"])
    stream.get_by_role("textbox", name="Body").fill('{"text": "I am Ada Lovelace", "message_id": "m1"}')
    stream.get_by_role("button", name="Send").click()
    expect(stream.get_by_role("region", name="Response", exact=True)).to_contain_text("event: response")


def test_the_reference_can_be_used_by_everybody(docs: Page) -> None:
    assert measures.nameless(docs) == []
    assert measures.duplicate_ids(docs) == []
    expect(docs.get_by_role("heading", level=1)).to_have_text("inturn API reference")


class TestWithKeys:
    @pytest.fixture
    def server(self, sqlite_url: str) -> Iterator[ChatServer]:
        with ChatServer(sqlite_url, GatedAgent(), INTURN_API_KEYS="a-key-of-sixteen-or-more:ada:acme") as server:
            yield server

    def test_a_key_is_sent_with_what_is_tried(self, docs: Page) -> None:
        docs.get_by_label("API key, if the server needs one").fill("a-key-of-sixteen-or-more")
        listing = docs.locator("[data-operation='get /api/v1/workflow-definitions']")
        listing.get_by_text("Try it").click()
        listing.get_by_role("button", name="Send").click()
        expect(listing.get_by_text("200 OK")).to_be_visible()
