"""A streamed answer: its reply while it is being written, without thoughts, and the message that it becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.agents.json_object import mended
from inturn.agents.openai.stream import Joiner, ReplyScanner, Thoughts, answer_of

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=40) | st.text('"\\{}[]:,u😀\ud83d\ude00\n', max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.just("reply"), inner, max_size=3),
    max_leaves=8,
)


def cut(text: str, sizes: list[int]) -> list[str]:
    parts, at = [], 0
    for size in sizes:
        parts.append(text[at : at + size])
        at += size
    return [*parts, text[at:]]


def written(answer: dict[str, object], ascii_only: bool, indent: int | None) -> str:
    return json.dumps(answer, ensure_ascii=ascii_only, indent=indent)


SIZES = st.lists(st.integers(1, 6), max_size=60)


@given(
    TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3), st.booleans(), st.sampled_from([None, 2]), SIZES, st.booleans()
)
def test_the_pieces_make_the_reply_wherever_it_is_cut(
    reply: str, others: dict[str, object], ascii_only: bool, indent: int | None, sizes: list[int], is_first: bool
) -> None:
    others.pop("reply", None)
    answer = {"reply": reply, **others} if is_first else {**others, "reply": reply}
    text = written(answer, ascii_only, indent)
    joiner, scanner, shown, whole = Joiner(), ReplyScanner(), "", ""
    for part in cut(text, sizes):
        piece = joiner.feed(part)
        whole += piece
        shown += scanner.feed(piece)
        assert mended(reply).startswith(shown) or "\ufffd" in shown
        shown.encode()
    assert joiner.rest() == ""
    assert shown == mended(reply)
    message = answer_of(whole)
    assert message is not None
    assert message.text == shown


@given(TEXTS.filter(lambda text: not text.lstrip().startswith(("{", "`"))), SIZES)
def test_what_is_no_object_is_all_reply(text: str, sizes: list[int]) -> None:
    joiner, scanner = Joiner(), ReplyScanner()
    shown = "".join(scanner.feed(joiner.feed(part)) for part in cut(text, sizes))
    shown += scanner.feed(joiner.rest())
    assert shown == (mended(text) if text.strip() else "")


@pytest.mark.parametrize("text", ["`code` is", "``` python", "```jsonl", " ```json\n[1]", "``{"])
@pytest.mark.parametrize("size", [1, 100])
def test_a_fence_that_leads_to_no_object_is_reply(text: str, size: int) -> None:
    scanner = ReplyScanner()
    assert "".join(scanner.feed(text[at : at + size]) for at in range(0, len(text), size)) == text


@given(TEXTS.map(lambda text: "{" + text), SIZES)
def test_nonsense_does_no_harm(text: str, sizes: list[int]) -> None:
    scanner = ReplyScanner()
    for part in cut(text, sizes):
        scanner.feed(part)
    answer_of(text)


@given(TEXTS, SIZES)
def test_a_joined_text_is_the_mended_one(text: str, sizes: list[int]) -> None:
    joiner = Joiner()
    assert "".join(map(joiner.feed, cut(text, sizes))) + joiner.rest() == mended(text)


def test_half_an_escape_is_never_shown() -> None:
    scanner = ReplyScanner()
    pieces = [scanner.feed(char) for char in r'{"reply": "a\n\u00fc\ud83d\ude00\"b"}']
    assert [piece for piece in pieces if piece] == ["a", "\n", "ü", "😀", '"', "b"]


@pytest.mark.parametrize(
    "text",
    [
        r'{"data": {"reply": "no"}, "list": ["reply", "no"], "key": "reply", "reply": "yes"}',
        r'{"re\u0070ly": "yes"}',
        r'{"reply" : "yes", "after": "no"} "reply": "no"',
    ],
)
def test_only_the_reply_of_the_object_itself_is_shown(text: str) -> None:
    assert ReplyScanner().feed(text) == "yes"


def test_a_scanner_knows_whether_there_was_a_reply() -> None:
    scanner = ReplyScanner()
    scanner.feed('{"data": 1, ')
    assert not scanner.has_reply
    scanner.feed('"reply": "a')
    assert scanner.has_reply


def value_of(text: str) -> dict[str, Any]:
    message = answer_of(text)
    assert message is not None
    value: dict[str, Any] = message.value
    return value


def test_only_what_is_known_is_data() -> None:
    text = '{"reply": "r", "data": {"a": null, "b": false, "c": 0, "d": ""}, "next_action": "ask", "citations": []}'
    assert value_of(text) == {"data": {"b": False, "c": 0, "d": ""}, "nextAction": "ask", "citations": []}


@pytest.mark.parametrize("rest", ["", ', "data": 5, "next_action": 7, "citations": {}', ', "data": null'])
def test_what_is_missing_or_odd_is_left_out(rest: str) -> None:
    assert value_of('{"reply": "r"' + rest + "}") == {"data": {}, "nextAction": None, "citations": []}


@pytest.mark.parametrize("text", ["", "words", "[1]", '"reply"', "{}", '{"reply": 5}', '{"reply": "r"', "[" * 100_000])
def test_what_is_no_answer_is_none(text: str) -> None:
    assert answer_of(text) is None


def test_numbers_that_are_none_are_not_known() -> None:
    assert value_of('{"reply": "r", "data": {"a": NaN, "b": -Infinity, "c": 1}}')["data"] == {"c": 1}


def test_everything_can_be_stored() -> None:
    message = answer_of(r'{"reply": "a\ud83d", "data": {"k\udc00": ["\ud83d\ude00", {"x": "\ud83d"}]}}')
    assert message is not None
    assert message.text == "a\ufffd"
    json.dumps(message.value, ensure_ascii=False).encode()


def test_a_broken_line_in_a_string_and_words_behind_the_object_do_no_harm() -> None:
    message = answer_of('{"reply": "a\nb"}\nThat is all.')
    assert message is not None
    assert message.text == "a\nb"


def without_thoughts(text: str, size: int) -> str:
    thoughts = Thoughts()
    given = [thoughts.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join(given) + thoughts.rest()


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>hm</think>Hi", "Hi"),
        ("\n <think>\n{a < b}\n</think>\n\n Hi <think>x</think>", "Hi <think>x</think>"),
        ("<think></think>  {", "{"),
        ("<think>without an end </thin", ""),
        ("<think>hm</think>", ""),
        ("Hi <think>x</think>", "Hi <think>x</think>"),
        ("  <thing>", "  <thing>"),
        (" <thi", " <thi"),
        ("  Hi ", "  Hi "),
        ("", ""),
    ],
)
def test_only_what_opens_the_answer_is_a_thought(text: str, left: str, size: int) -> None:
    assert without_thoughts(text, size) == left
