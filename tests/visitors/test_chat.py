"""A chat is bounded, and so are all chats of a visitor together. The newest stay."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import to_json

from inturn import InTurn
from inturn.errors import TooLarge
from inturn.lanes import codec
from inturn.visitors.chat import (
    MAX_ALL_GONE,
    MAX_ALL_MESSAGES,
    MAX_BYTES,
    MAX_CHATS,
    MAX_GONE_BYTES,
    MAX_MESSAGES,
    MAX_METADATA,
    Chat,
    NewAnswer,
    VisitorState,
)
from inturn.visitors.conversations import LaneConversations
from inturn.visitors.graph.walk import MAX_ANSWER
from tests.visitors.world import AT, filled_chat, said

NOW_S, FOREVER_S = 1.9e9, 1e9
LATER = "2030-01-02T00:00:01+00:00"


def test_the_oldest_ones_make_room() -> None:
    chat = filled_chat(MAX_MESSAGES + 20)
    assert len(chat.messages) == MAX_MESSAGES
    assert [chat.messages[0].id, chat.messages[-1].id] == ["m20", f"m{MAX_MESSAGES + 19}"]
    assert chat.next_seq == MAX_MESSAGES + 21


def test_the_ids_of_what_left_are_remembered_for_a_day_within_a_bound() -> None:
    chat = filled_chat(MAX_MESSAGES + 20)
    assert list(chat.gone) == [f"m{number}" for number in range(20)]
    assert chat.take_in(said(3), AT) is None
    assert chat.said("m3") is None, "it is not added again"
    chat.take_in(said("later"), LATER)
    chat.settle({"mlater": "unanswered"}, LATER)
    assert list(chat.gone) == ["m20"], "those of the day before are forgotten"
    for number in range(2 * MAX_MESSAGES):
        name = f"{number:0100}"
        chat.take_in(said(name), LATER)
        chat.settle({f"m{name}": "dropped"}, LATER)
    assert 300 < len(chat.gone) < 1000
    assert len(to_json(chat.gone)) <= MAX_GONE_BYTES
    assert list(chat.gone)[-1] == f"m{MAX_MESSAGES - 1:0100}"


def test_ids_that_an_answer_is_for_take_room_too() -> None:
    chat = filled_chat(0)
    for number in range(60):
        ids = tuple(f"{number}-{each:0120}" for each in range(100))
        chat.settle({}, AT, NewAnswer(f"a{number}", "x", AT, ids, "agent"))
    assert len(to_json(chat.messages)) <= MAX_BYTES


def test_metadata_is_bounded_and_the_field_is_named() -> None:
    chat = filled_chat(1)
    before = chat.model_copy(deep=True)
    with pytest.raises(TooLarge, match=r"workflow_state\.fields\.got"):
        chat.set_metadata({"crm": "anna", "workflow_state": {"fields": {"got": "x" * MAX_METADATA, "n": 1}}})
    assert chat == before
    chat.set_metadata({"notes": "x" * (MAX_METADATA - 100)})


@pytest.mark.parametrize("text", ["x" * 8000, "\U0001f600" * 8000, "\x01" * 8000])
def test_it_stays_within_its_bytes(text: str) -> None:
    chat = filled_chat(150, text)
    assert MAX_BYTES - 50_000 < len(to_json(chat.messages)) <= MAX_BYTES


def test_an_answer_and_a_visitors_message_may_have_one_id() -> None:
    chat = filled_chat(1)
    chat.settle({"m0": "answered"}, AT, NewAnswer("m1", "hello", AT, ("m0",), "agent"))
    mine = chat.take_in(said(1, "mine"), AT)
    assert mine is not None
    assert (mine.role, mine.text) == ("visitor", "mine")


def test_a_message_is_in_it_once() -> None:
    chat = filled_chat(1)
    assert chat.take_in(said(0, "again"), AT) is chat.messages[0]
    assert len(chat.messages) == 1


def huge_chat(name: str, at: str = AT) -> Chat:
    """As many messages, ids and metadata as there may be, and one long answer more."""
    chat = filled_chat(600, "\x01" * 200)
    chat.conversation_id = name
    for number in range(1000, 1020):
        chat.take_in(said(number, "\x01" * 8000), at)
        chat.settle({f"m{number}": "unanswered"}, at)
    chat.set_metadata({"notes": "x" * (MAX_METADATA - 100)})
    chat.settle({}, at, NewAnswer("a", "\x01" * MAX_ANSWER, at, (), "agent"))
    return chat


async def test_the_largest_chat_can_be_written(app: InTurn) -> None:
    store = LaneConversations(app)
    await store.open("c1", "p1", "v1")
    async with app.turn("visitor:v1", state=VisitorState) as turn:
        turn.state.keep(huge_chat("c1"))
        turn.state.make_room(["c1"], 1.9e9, 1e9)
    found = await store.get("c1")
    assert found is not None
    assert len(found.messages[-1].text) == MAX_ANSWER


def state_of(*chats: Chat) -> VisitorState:
    """These chats, each changed a second after the one before."""
    state = VisitorState()
    for number, chat in enumerate(chats):
        chat.changed_at = NOW_S - 1000 + number
        state.keep(chat)
    return state


def chat_named(name: str, **fields: Any) -> Chat:
    return Chat(conversation_id=name, project_id="p1", visitor_uid="v1", **fields)


def names(state: VisitorState) -> list[str]:
    return [chat.conversation_id for chat in state.chats.values()]


def test_messages_of_the_oldest_chats_make_room_and_switch_metadata_and_numbers_stay() -> None:
    state = state_of(*(huge_chat(f"c{number}") for number in range(3)))
    first, second, third = state.chats.values()
    first.ai_enabled = False
    numbers, kept = first.next_seq, len(third.messages)
    state.make_room(["c2"], NOW_S, FOREVER_S)
    assert names(state) == ["c0", "c1", "c2"]
    assert len(to_json(state)) < codec.MAX_STATE
    assert (first.messages, first.ai_enabled, first.next_seq) == ([], False, numbers)
    assert first.metadata
    assert second.metadata
    assert len(third.messages) <= kept
    assert third.messages[-1].text == "\x01" * MAX_ANSWER, "what a turn has just written stays"


def test_only_as_many_messages_leave_as_must_and_the_oldest_chats_lose_theirs_first() -> None:
    chats = [filled_chat(MAX_MESSAGES) for _ in range(5)]
    for number, chat in enumerate(chats):
        chat.conversation_id = f"c{number}"
    state = state_of(*chats)
    state.make_room(["c0"], NOW_S, FOREVER_S)
    assert [len(chat.messages) for chat in chats] == [MAX_MESSAGES, 0, MAX_MESSAGES, MAX_MESSAGES, MAX_MESSAGES]
    chats[4].take_in(said("new"), AT)
    state.make_room(["c4"], NOW_S, FOREVER_S)
    assert [message.id for message in chats[0].messages[:2]] == ["m1", "m2"], "one came, so one left"
    assert sum(len(chat.messages) for chat in chats) == MAX_ALL_MESSAGES
    assert sum(len(chat.gone) for chat in chats) <= MAX_ALL_GONE


def test_of_too_many_chats_plain_ones_leave_first_and_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    off, marked = chat_named("off", ai_enabled=False), chat_named("marked", metadata={"crm": 7})
    plain = [chat_named(f"s{number}", next_seq=10 + number) for number in range(MAX_CHATS)]
    state = state_of(off, marked, *plain)
    state.make_room(["s0"], NOW_S, FOREVER_S)
    assert len(state.chats) == MAX_CHATS
    assert names(state)[:4] == ["off", "marked", "s0", "s3"], "one that is in use stays"
    assert "conversation=s1 visitor=v1: all of it was forgotten" in caplog.text
    assert "conversation=s2 visitor=v1: all of it was forgotten" in caplog.text


def test_a_conversation_that_was_forgotten_goes_on_with_its_numbers_if_it_comes_back() -> None:
    state = state_of(*(chat_named(f"s{number}", next_seq=10 + number) for number in range(MAX_CHATS + 3)))
    state.make_room([], NOW_S, FOREVER_S)
    names = {"conversation_id": "s2", "project_id": "p1", "visitor_uid": "v1", "tenant_id": ""}
    assert state.find("s2", "") is None
    assert state.find_or_begin(**names).next_seq == 12
    assert VisitorState.model_validate_json(to_json(state)).find_or_begin(**names).next_seq == 12


def test_metadata_leaves_before_a_switch_that_is_off_and_both_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    large = {"notes": "x" * (MAX_METADATA - 100)}
    state = state_of(*(chat_named(f"c{number}", metadata=large, ai_enabled=False) for number in range(5)))
    state.make_room(["c4"], NOW_S, FOREVER_S)
    assert names(state) == [f"c{number}" for number in range(5)]
    assert [bool(chat.metadata) for chat in state.chats.values()] == [False, False, True, True, True]
    assert "conversation=c1: its metadata was forgotten" in caplog.text
    state = state_of(
        *(chat_named(f"off{number}", ai_enabled=False) for number in range(MAX_CHATS)),
        *(chat_named(f"on{number}", metadata={"a": 1}) for number in range(2)),
    )
    state.make_room([], NOW_S, FOREVER_S)
    assert len(state.chats) == MAX_CHATS
    assert names(state)[-1] == f"off{MAX_CHATS - 1}", "the newer ones left: in those nobody has taken over"
    assert "conversation=on1 visitor=v1: all of it was forgotten" in caplog.text


def test_what_one_turn_needs_does_not_leave() -> None:
    names = ["c1", "c2", "c3"]
    state = state_of(*map(huge_chat, names))
    with pytest.raises(TooLarge, match="the chats of one turn"):
        state.make_room(names, NOW_S, FOREVER_S)


def test_a_message_that_failed_may_come_again_after_it_has_left() -> None:
    chat = filled_chat(0)
    chat.take_in(said("failed"), AT)
    chat.settle({"mfailed": "failed"}, AT)
    for number in range(MAX_MESSAGES):
        chat.take_in(said(number), AT)
        chat.settle({f"m{number}": "unanswered"}, AT)
    assert chat.gone["mfailed"].outcome == "failed"
    again = chat.take_in(said("failed"), AT)
    assert again is not None
    assert again.may_be_answered
    assert "mfailed" not in chat.gone


def test_a_chat_that_is_too_old_leaves() -> None:
    state = VisitorState()
    for name, changed_at in (("old", 1000.0), ("new", 2000.0)):
        state.keep(Chat(conversation_id=name, project_id="p1", visitor_uid="v1", changed_at=changed_at))
    state.make_room([], 2500.0, 1000.0)
    assert [chat.conversation_id for chat in state.chats.values()] == ["new"]
