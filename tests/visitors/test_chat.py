"""A chat is bounded, and what waits for its answer is never what makes room."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from pydantic_core import to_json

from inturn import InTurn
from inturn.errors import ChatMoved, MailboxFull, TooLarge, UnknownConversation
from inturn.testing import ManualClock, app_for_tests
from inturn.visitors.answer import MAX_ANSWER
from inturn.visitors.chat import (
    MAX_BYTES,
    MAX_GONE_BYTES,
    MAX_MESSAGES,
    MAX_METADATA,
    Change,
    Chat,
    Known,
    LaneConversations,
    NewAnswer,
)
from inturn.visitors.patch import difference
from tests.conftest import MakeApp
from tests.visitors.world import AT, filled_chat, said


def test_the_oldest_settled_ones_make_room() -> None:
    chat = filled_chat(MAX_MESSAGES + 20)
    assert len(chat.messages) == MAX_MESSAGES
    assert [chat.messages[0].id, chat.messages[-1].id] == ["m20", f"m{MAX_MESSAGES + 19}"]
    assert chat.next_seq == MAX_MESSAGES + 21


def test_a_waiting_one_stays_while_settled_ones_go() -> None:
    chat = filled_chat(1, is_settled=False)
    for number in range(1, MAX_MESSAGES + 20):
        chat.add(said(number), AT)
        chat.change(Change({f"m{number}": "unanswered"}), AT)
    assert chat.messages[0].id == "m0"
    assert len(chat.messages) == MAX_MESSAGES


def test_too_many_waiting_ones_are_refused() -> None:
    chat = filled_chat(MAX_MESSAGES, is_settled=False)
    with pytest.raises(MailboxFull):
        chat.add(said("more"), AT)
    assert not chat.add(said(3), AT).is_new, "a repeat is no more"
    chat.change(Change({"m7": "answered"}), AT)
    chat.add(said("more"), AT)
    assert chat.said("m7") is None


def test_the_ids_of_what_left_are_remembered_for_a_day_within_a_bound() -> None:
    chat = filled_chat(MAX_MESSAGES + 20)
    assert list(chat.gone) == [f"m{number}" for number in range(20)]
    assert chat.add(said(3), AT) == Known("unanswered", is_gone=True)
    assert chat.said("m3") is None, "it is not added again"
    chat.add(said("later"), "2030-01-02T00:00:00+00:00")
    assert list(chat.gone) == ["m20"], "those of the day before are forgotten"
    for number in range(2 * MAX_MESSAGES):
        name = f"{number:0100}"
        chat.add(said(name), AT)
        chat.change(Change({f"m{name}": "dropped"}), AT)
    assert 300 < len(chat.gone) < 1000
    assert len(to_json(chat.gone)) <= MAX_GONE_BYTES
    assert list(chat.gone)[-1] == f"m{MAX_MESSAGES:0100}"


def test_ids_that_an_answer_is_for_take_room_too() -> None:
    chat = filled_chat(0)
    for number in range(60):
        ids = tuple(f"{number}-{each:0120}" for each in range(100))
        chat.change(Change(answer=NewAnswer(f"a{number}", "x", AT, ids, "agent")), AT)
    assert len(to_json(chat.messages)) <= MAX_BYTES


def test_metadata_is_bounded_and_the_field_is_named() -> None:
    chat = filled_chat(1, is_settled=False)
    edit = difference({}, {"crm": "anna", "workflow_state": {"fields": {"got": "x" * MAX_METADATA, "n": 1}}})
    before = chat.model_copy(deep=True)
    with pytest.raises(TooLarge, match=r"workflow_state\.fields\.got"):
        chat.change(Change({"m0": "answered"}, patch=edit), AT)
    assert chat == before
    chat.change(Change(patch=difference({}, {"notes": "x" * (MAX_METADATA - 100)})), AT)


async def test_the_largest_chat_can_be_written(app: InTurn) -> None:
    """As many messages, ids and metadata as there may be, and one long answer more."""
    store = LaneConversations(app)
    await store.open("c1", "p1", "v1")
    async with app.turn("chat:c1", state=Chat, initial=lambda: filled_chat(0)) as turn:
        chat = turn.state = filled_chat(600, "\x01" * 200)
        chat.change(Change(patch=difference({}, {"notes": "x" * (MAX_METADATA - 100)})), AT)
        with contextlib.suppress(MailboxFull):
            for number in range(1000, 2000):
                chat.add(said(number, "\x01" * 8000), AT)
        chat.change(Change(answer=NewAnswer("a", "\x01" * MAX_ANSWER, AT, (), "agent")), AT)
    await store.set_ai_enabled("c1", False)


@pytest.mark.parametrize("text", ["x" * 8000, "\U0001f600" * 8000, "\x01" * 8000])
def test_it_stays_within_its_bytes(text: str) -> None:
    settled = filled_chat(150, text)
    assert MAX_BYTES - 50_000 < len(to_json(settled.messages)) <= MAX_BYTES
    waiting = filled_chat(1, text, is_settled=False)
    with pytest.raises(MailboxFull):
        for number in range(1, 150):
            waiting.add(said(number, text), AT)
    assert len(to_json(waiting.messages)) <= MAX_BYTES


def test_the_newest_answer_stays_however_full_it_is() -> None:
    chat = filled_chat(MAX_MESSAGES, is_settled=False)
    chat.change(Change({"m0": "answered"}, NewAnswer("a", "hello", AT, ("m0",), "agent")), AT)
    assert chat.messages[-1].text == "hello"
    assert chat.answer_to("m0") is not None


def test_an_answer_and_a_visitors_message_may_have_one_id() -> None:
    chat = filled_chat(1, is_settled=False)
    chat.change(Change({"m0": "answered"}, NewAnswer("m1", "hello", AT, ("m0",), "agent")), AT)
    assert chat.add(said(1, "mine"), AT).is_new


def test_what_is_settled_is_not_settled_again_and_nothing_else_changes() -> None:
    chat = filled_chat(1)
    chat.add(said(1), AT)
    before = chat.model_copy(deep=True)
    with pytest.raises(ChatMoved):
        chat.change(Change({"m1": "answered", "m0": "answered"}), AT)
    assert chat == before


async def test_it_is_opened_once_and_given_to_its_visitor_only(make_app: MakeApp) -> None:
    first, second = LaneConversations(make_app()), LaneConversations(make_app())
    opened = await asyncio.gather(*(store.open("c1", "p1", "v1") for store in (first, second) * 5))
    assert all(chat == opened[0] for chat in opened)
    for project, visitor in (("p1", "v2"), ("p2", "v1")):
        with pytest.raises(UnknownConversation):
            await first.open("c1", project, visitor)
    for message in (said(1, visitor_uid="v2"), said(1, project_id="p2")):
        assert await first.add("c1", message) is None
    assert await first.add("none", said(1, conversation_id="none")) is None
    assert await second.get("none") is None
    with pytest.raises(UnknownConversation):
        await first.set_ai_enabled("none", False)
    with pytest.raises(UnknownConversation):
        await first.save("none", Change())


async def test_messages_from_many_sides_are_all_in_it(make_app: MakeApp) -> None:
    stores = [LaneConversations(make_app()) for _ in range(3)]
    await stores[0].open("c1", "p1", "v1")
    await asyncio.gather(*(stores[number % 3].add("c1", said(number // 2)) for number in range(60)))
    chat = await stores[0].get("c1")
    assert chat is not None
    assert sorted(message.id for message in chat.messages) == sorted(f"m{number}" for number in range(30))
    assert [message.seq for message in chat.messages] == list(range(1, 31))


async def test_a_name_with_a_colon_is_not_another_tenants_chat(app: InTurn) -> None:
    store = LaneConversations(app)
    await store.open("acme:c1", "p1", "v1")
    assert await store.get("c1", "acme") is None
    with pytest.raises(UnknownConversation):
        await store.open("c1", "p1", "v1", "acme")


async def test_it_lives_thirty_days_after_it_was_last_written() -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        store = LaneConversations(app)
        await store.open("c1", "p1", "v1")
        clock.advance(20 * 86400)
        await store.add("c1", said(1))
        clock.advance(29 * 86400)
        assert await store.get("c1") is not None
        clock.advance(2 * 86400)
        assert await store.get("c1") is None
