"""Activities of any kind become messages of one shape: texts before cards, and nothing that is no message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inturn.agents.activity import CARD, Activity, card_attachment, signed
from inturn.workflows import NormalizedMessage, normalize_activities, parse_turn
from inturn.workflows.messages import MAX_ALL, MAX_MESSAGES, MAX_TEXT, card_id_of
from tests.workflows.scripted import bot


def one(activity: Any) -> NormalizedMessage:
    (message,) = normalize_activities([activity])
    return message


ODD_ROLES: list[Any] = ["agent", "", None, 7, [], {"role": "user"}]


@pytest.mark.parametrize(
    ("given", "role"),
    [("bot", "assistant"), ("user", "user"), ("system", "system"), *((odd, "assistant") for odd in ODD_ROLES)],
)
def test_the_role_of_a_bot_is_assistant_and_an_odd_one_is_too(given: Any, role: str) -> None:
    assert one({"type": "message", "from": {"role": given}, "text": "x"}).role == role


@pytest.mark.parametrize("sender", [None, "bot", [], 7])
def test_a_sender_that_is_none_does_not_cost_the_message(sender: Any) -> None:
    assert one({"type": "message", "from": sender, "text": "x"}).text == "x"


@pytest.mark.parametrize("kind", ["typing", "event", "endOfConversation", "trace", "invoke", "", None, [], "Message"])
def test_only_messages_count(kind: Any) -> None:
    assert normalize_activities([{"type": kind, "text": "x", "value": {"a": 1}}]) == []


def test_texts_come_before_cards_and_keep_their_order() -> None:
    made = normalize_activities([
        bot("first", id="1", attachments=[card_attachment({"type": "AdaptiveCard", "n": 1})]),
        bot(id="2", attachments=[card_attachment({"n": 2}), card_attachment({"n": 3})]),
        bot("second", id="3"),
    ])  # fmt: skip
    assert [(m.id, m.kind, m.text, m.card and m.card["n"]) for m in made] == [
        ("1", "text", "first", None),
        ("3", "text", "second", None),
        ("1.card1", "adaptiveCard", "", 1),
        ("2.card1", "adaptiveCard", "", 2),
        ("2.card2", "adaptiveCard", "", 3),
    ]


def test_a_message_without_an_id_gets_one() -> None:
    made = normalize_activities([bot("a"), bot("b"), bot("c", id=7)])
    assert len({message.id for message in made}) == 3
    assert all(message.id for message in made)


@pytest.mark.parametrize(
    ("card", "found"),
    [
        ({"cardId": "c1", "id": "other"}, "c1"),
        ({"id": "c2"}, "c2"),
        ({"metadata": {"cardId": "c3"}}, "c3"),
        ({"actions": [{"type": "Action.OpenUrl"}, {"type": "Action.Submit", "data": {"cardId": "c4"}}]}, "c4"),
        ({"actions": ["x", None, {"data": "x"}, {"data": {"cardId": 5}}]}, None),
        ({"actions": {"data": {"cardId": "c6"}}, "id": "", "metadata": []}, None),
        ({"type": "AdaptiveCard"}, None),
    ],
)
def test_the_id_of_a_card_is_found_where_cards_carry_it(card: dict[str, Any], found: str | None) -> None:
    assert card_id_of(card) == found
    message = one(bot(attachments=[card_attachment(card)]))
    assert (message.kind, message.card, message.card_id) == ("adaptiveCard", card, found)


def test_a_card_that_came_as_text_is_read() -> None:
    card = {"type": "AdaptiveCard", "id": "c"}
    assert one(bot(attachments=[{"contentType": CARD, "content": json.dumps(card)}])).card == card


@pytest.mark.parametrize(
    "attachment",
    [
        {"contentType": "image/png", "content": {"a": 1}},
        {"contentType": CARD},
        {"contentType": CARD, "content": None},
        {"contentType": CARD, "content": {}},
        {"contentType": CARD, "content": [1]},
        {"contentType": [CARD], "content": {"a": 1}},
        "card",
        None,
    ],
)
def test_an_attachment_that_is_no_card_is_left_out_and_the_text_is_not(attachment: Any) -> None:
    message = one(bot("words", attachments=[attachment]))
    assert (message.kind, message.text) == ("text", "words")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"a": "x" * 40_000}, "it is more than 32768 bytes long"),
        (json.dumps({"a": "x" * 40_000}), "it is more than 32768 bytes long"),
        (json.loads('{"a":' * 30 + "1" + "}" * 30), "it is nested deeper than 24"),
        ({"a": object()}, "it is a object, which is no JSON"),
        ("{", "it cannot be read"),
        ("[" * 100_000, "it cannot be read"),
    ],
)
def test_a_card_that_cannot_be_kept_is_told_where_it_would_have_been(content: Any, why: str) -> None:
    small = card_attachment({"id": "small"})
    made = normalize_activities([bot("words", id="m", attachments=[{"contentType": CARD, "content": content}, small])])
    assert [(m.id, m.role, m.kind, m.text) for m in made] == [
        ("m", "assistant", "text", "words"),
        ("m.card1", "system", "text", f"A card cannot be shown here: {why}."),
        ("m.card2", "assistant", "adaptiveCard", ""),
    ]
    turn = parse_turn(made)
    assert (turn.kind, turn.errors) == ("passthrough", [f"message m.card1: its card is left out: {why}"])
    assert turn.messages == made


def test_a_card_for_which_there_is_no_more_room_is_told_and_its_data_is_kept() -> None:
    large = card_attachment({"id": "large", "a": "x" * 31_000})
    made = normalize_activities([
        bot(id="1", attachments=[large]), bot(id="2", attachments=[large]), bot(id="3", value={"n": 1}),
    ])  # fmt: skip
    assert [(m.id, m.kind, bool(m.left_out)) for m in made] == [
        ("3", "text", False), ("1.card1", "adaptiveCard", False), ("2.card1", "text", True),
    ]  # fmt: skip
    assert parse_turn(made).data == {"n": 1}
    huge = {"n": 1, "b": "y" * 31_000}
    (told,) = normalize_activities([bot(id="4", value=huge, attachments=[card_attachment({"a": "x" * 32_000})])])
    assert (told.kind, told.payload) == ("text", huge)


def test_the_payload_is_the_value_and_only_then_the_entities() -> None:
    entities = [{"type": "fields", "a": 1}, {"b": 2}, {"a": 3}]
    found = one(bot("x", value={"v": 1}, entities=entities))
    assert (found.payload, found.source) == ({"v": 1}, "value")
    found = one(bot("x", value={}, entities=entities))
    assert (found.payload, found.source) == ({"a": 3, "b": 2}, "entities")


@pytest.mark.parametrize("value", [None, {}, [], "text", 7, [1], True, object(), {"a": object()}, {"a": 10**200}])
def test_a_value_that_is_no_object_is_no_payload(value: Any) -> None:
    found = one(bot("x", value=value))
    assert (found.payload, found.source, found.text) == (None, None, "x")


@pytest.mark.parametrize("entities", [None, "x", [None], ["x"], [[]], [{}], [{"type": "mention", "a": 1}], {"a": 1}])
def test_entities_that_say_nothing_are_no_payload(entities: Any) -> None:
    assert one(bot("x", entities=entities)).payload is None


ABOUT = [
    "mention", "Place", "GeoCoordinates", "streaminfo", "clientInfo", "ProductInfo", "activityTreatment",
    "https://schema.org/Message", "http://schema.org/Place", "https://schema.org/Claim", "AIGeneratedContent",
]  # fmt: skip


@pytest.mark.parametrize("kind", ABOUT)
def test_entities_that_describe_the_message_are_no_data_in_any_case(kind: str) -> None:
    for spelled in (kind, kind.lower(), kind.upper(), kind.title()):
        described = {"type": spelled, "name": "Berlin", "latitude": 52.5, "mentioned": {"id": "7"}, "address": "x"}
        assert one(bot("x", entities=[described])).payload is None, spelled
        linked = {**described, "@type": spelled}
        del linked["type"]
        assert one(bot("x", entities=[linked])).payload is None, spelled
        assert one(bot("x", entities=[described, {"type": "fields", "a": 1}])).payload == {"a": 1}


@pytest.mark.parametrize(
    "word", ["claim", "Thing", "message", "definedTerm", "DigitalDocument", "creativework", "imageObject"]
)
def test_a_word_of_the_vocabulary_describes_the_message_only_where_it_is_said_to_be_one(word: str) -> None:
    assert one(bot("x", entities=[{"type": word, "claimNumber": "C-1"}])).payload == {"claimNumber": "C-1"}
    for linked in ({"@type": word}, {"type": word, "@type": word}, {"type": f"https://schema.org/{word}"}):
        assert one(bot("x", entities=[{**linked, "name": "Berlin"}])).payload is None, linked


@pytest.mark.parametrize(
    "types",
    [
        {"type": None, "@type": "Place"},
        {"type": "", "@type": "Place"},
        {"type": "entity", "@type": "Place"},
        {"@type": ["Place", "Thing"]},
        {"@type": ["https://schema.org/Place"]},
        {"type": ["mention"]},
        {"type": "http://www.schema.org/Place"},
        {"type": "https://schema.org/GeoCoordinates/"},
        {"type": "schema.org/Claim"},
        {"type": "schema:Place"},
        {"type": " mention "},
        {"Type": "mention"},
    ],
)
def test_entities_that_describe_the_message_are_no_data_however_their_type_is_written(types: dict[str, Any]) -> None:
    assert one(bot("x", entities=[{**types, "name": "Berlin"}])).payload is None


def test_what_an_entity_is_linked_by_is_no_data() -> None:
    assert one(bot("x", entities=[{"@context": "c", "@id": "1", "@type": "Order", "a": 1}])).payload == {"a": 1}


@pytest.mark.parametrize("kind", [["x"], {"x": 1}, 7, None])
def test_an_entity_of_an_odd_type_is_still_data(kind: Any) -> None:
    assert one(bot("x", entities=[{"type": kind, "a": 1}])).payload == {"a": 1}


def test_who_signed_a_message_is_no_data_of_it() -> None:
    assert one(signed(Activity.said("x"), "offline")).payload is None


def test_a_payload_without_words_makes_a_message_that_is_not_shown() -> None:
    message = one(bot(value={"a": 1}))
    assert (message.payload, message.is_visible) == ({"a": 1}, False)


def test_a_payload_stands_on_one_message_only() -> None:
    made = normalize_activities([bot("x", value={"a": 1}, attachments=[card_attachment({"id": "c"})])])
    assert [message.payload for message in made] == [{"a": 1}, None]
    (card,) = normalize_activities([bot(value={"a": 1}, attachments=[card_attachment({"id": "c"})])])
    assert (card.kind, card.payload) == ("adaptiveCard", {"a": 1})


@pytest.mark.parametrize("blank", ["", "  \n", None, 7, b"x"])
def test_nothing_said_makes_no_message(blank: Any) -> None:
    assert normalize_activities([bot(blank)]) == []


@pytest.mark.parametrize(
    "garbage", [None, 7, "x", b"x", [], [[]], object(), {}, {"a": 1}, {1: 2}, {10**5000: 1}, float("nan")]
)
def test_what_is_no_activity_passes_by(garbage: Any) -> None:
    made = normalize_activities([garbage, bot("x"), garbage])
    assert [message.text for message in made] == ["x"]


def test_a_value_with_a_name_too_long_to_be_written_does_not_cost_the_text() -> None:
    assert one(bot("x", value={10**5000: 1})).text == "x"


def test_citations_are_read_with_title_and_address() -> None:
    entity = {
        "type": "https://schema.org/Message",
        "citation": [
            {"appearance": {"name": "Handbook", "url": "https://example.org/1"}},
            {"appearance": {"name": "Only a name", "url": 7}},
            {"appearance": {}}, {"appearance": 7}, None, "x",
        ],
    }  # fmt: skip
    message = one(bot("x", entities=[entity, {"citation": "x"}]))
    assert message.citations == [{"title": "Handbook", "url": "https://example.org/1"}, {"title": "Only a name"}]


def test_many_citations_do_not_cost_the_text() -> None:
    listed = [{"appearance": {"name": f"{number:0500d}", "url": "u" * 500}} for number in range(20)]
    entities = [{"type": "https://schema.org/Message", "citation": listed} for _ in range(20)]
    assert [message.text for message in normalize_activities([bot("the answer", entities=entities)])] == ["the answer"]


def test_a_text_is_bounded_and_can_be_written() -> None:
    message = one(bot("\ud83d" + "x" * 20_000))
    assert len(message.text) == MAX_TEXT
    message.model_dump_json().encode()


@pytest.mark.parametrize("letter", ["x", "漢", "😀", '"', "\x01"])
def test_all_messages_together_are_bounded_in_bytes(letter: str) -> None:
    made = normalize_activities([bot(letter * MAX_TEXT, value={"a": letter * 1000}) for _ in range(100)])
    assert 1 <= len(made) <= MAX_MESSAGES
    assert sum(len(message.model_dump_json().encode()) for message in made) <= MAX_ALL


def test_there_are_never_more_messages_than_fifty() -> None:
    assert len(normalize_activities([bot(str(number)) for number in range(1000)])) == MAX_MESSAGES
