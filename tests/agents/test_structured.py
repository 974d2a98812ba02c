"""An answer by schema becomes one message, whatever is odd in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inturn.agents.structured import answer_of


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
