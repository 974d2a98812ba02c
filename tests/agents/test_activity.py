"""Activities are read leniently: what does not fit is left out, and nothing raises. Messages name their agent."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inturn.agents.activity import AGENT, CARD, Activity, card_attachment, signature_of, signed


def test_an_activity_is_read_by_the_names_of_the_bot_framework() -> None:
    read = Activity.read({
        "type": "message", "id": "7", "from": {"id": "b", "role": "bot"}, "text": "Hello", "value": {"a": 1},
        "attachments": [{"contentType": CARD, "content": {}}], "entities": [{"type": "mention"}],
        "suggestedActions": {"actions": []}, "channelId": "x", "timestamp": 7,
    })  # fmt: skip
    assert read is not None
    assert read.model_dump() == {
        "type": "message", "id": "7", "sender": {"id": "b", "role": "bot"}, "text": "Hello", "value": {"a": 1},
        "attachments": [{"contentType": CARD, "content": {}}], "entities": [{"type": "mention"}],
        "suggested_actions": {"actions": []},
    }  # fmt: skip


@pytest.mark.parametrize("odd", [None, 7, [], {}, b"x", object(), float("nan")])
def test_a_field_that_does_not_fit_is_left_out_and_the_others_stay(odd: Any) -> None:
    read = Activity.read(
        {"type": "message", "text": "Hello", "id": odd, "from": odd, "entities": odd, "attachments": odd}
    )
    assert read is not None
    assert (read.text, read.id, read.sender, read.entities, read.attachments) == ("Hello", "", {}, [], [])


def test_of_a_list_only_the_objects_are_kept_and_of_those_the_names_that_are_text() -> None:
    read = Activity.read({"entities": [1, {"a": 1}, None, {2: "b"}, "x"]})
    assert read is not None
    assert read.entities == [{"a": 1}, {}]


def test_a_type_that_is_no_text_is_no_message() -> None:
    odd_kinds: list[Any] = [None, 7, [], {}]
    for kind in odd_kinds:
        read = Activity.read({"type": kind, "text": "x"})
        assert read is not None
        assert read.type != "message"


@pytest.mark.parametrize("given", [None, 7, "message", b"x", [], [{"type": "message"}], object()])
def test_what_is_no_object_is_no_activity(given: Any) -> None:
    assert Activity.read(given) is None


def test_any_mapping_is_read_and_an_activity_stays_itself() -> None:
    assert Activity.read(MappingProxyType({"text": "x"})) == Activity(text="x")
    made = Activity.said("x")
    assert Activity.read(made) is made


def test_a_name_that_is_a_number_too_long_to_be_written_does_not_raise() -> None:
    read = Activity.read({"type": "message", "text": "x", 10**5000: 1, "entities": [{10**5000: 1}]})
    assert read is not None
    assert read.text == "x"


odd = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=10,
)
fields = st.sampled_from(["type", "id", "from", "text", "attachments", "value", "entities", "suggestedActions", "x"])


@given(odd | st.dictionaries(fields, odd))
@settings(max_examples=300, deadline=None)
def test_reading_never_raises(given: Any) -> None:
    read = Activity.read(given)
    assert read is None or isinstance(read.text, str)


def test_what_a_bot_says_and_what_it_is_writing() -> None:
    said, piece = Activity.said("Hello", value={"a": 1}), Activity.piece("Hel")
    assert (said.type, said.sender, said.text, said.value) == ("message", {"role": "bot"}, "Hello", {"a": 1})
    assert (piece.type, piece.text) == ("typing", "Hel")
    assert card_attachment({"a": 1}) == {"contentType": CARD, "content": {"a": 1}}


def test_a_message_is_signed_and_keeps_its_entities() -> None:
    made = Activity.said("a", entities=[{"type": "t"}])
    message = signed(made, "openai")
    assert message.entities == [{"type": "t"}, {"type": AGENT, "name": "openai"}]
    assert signature_of(message) == "openai"
    assert made.entities == [{"type": "t"}]


def test_the_first_signature_stays() -> None:
    assert signature_of(signed(signed(Activity.said("a"), "inner"), "outer")) == "inner"


def test_pieces_are_not_signed() -> None:
    assert signature_of(signed(Activity.piece("a"), "openai")) is None


def test_an_odd_signature_is_none() -> None:
    assert signature_of(Activity.said("a", entities=[{"type": AGENT}, {"type": AGENT, "name": 5}])) is None
