"""An object is read as models write it. One that is broken is none, whatever its parts are."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.agents.json_object import leading_object, mended, object_in

HIT: dict[str, Any] = {"a": {"b": 1}}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"b": 1}}',
        '\n  {"a": {"b": 1}}\n',
        '```json\n{"a": {"b": 1}}\n```',
        '```\n{"a": {"b": 1}}',
        'Sure, {name}! Here it is:\n```JSON\n{"a": {"b": 1}}\n```\nAnything else? {"c": 2}',
        'Here it is: {"a": {"b": 1}}. Anything else?',
        'A shape such as {"x": int} becomes\n```json\n{"a": {"b": 1}}\n```',
    ],
)
def test_an_object_is_found_in_a_fence_or_among_words(text: str) -> None:
    assert object_in(text) == HIT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no object",
        "{name}",
        "[1]",
        '"text"',
        '{"a": {"b": 1}',
        '```json\n{"a": {"b": 1},\n```',
        '{"a": ' * 100_000,
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
)
def test_what_is_no_whole_object_is_none(text: str) -> None:
    assert object_in(text) is None
    assert leading_object(text) is None


def test_an_object_behind_words_does_not_lead() -> None:
    assert leading_object('well: {"a": 1}') is None
    assert leading_object(' ```json {"a": 1} and more') == {"a": 1}


def test_what_was_read_can_be_stored() -> None:
    assert object_in('{"a": 1e999, "b": -1e999, "c": 1.5e3}') == {"a": None, "b": None, "c": 1500.0}
    assert object_in('{"a": NaN, "b": ["line\nbreak", "\\ud83d", "\\ud83d\\ude00"], "\\ud800": 1}') == {
        "a": None,
        "b": ["line\nbreak", "\ufffd", "😀"],
        "\ufffd": 1,
    }
    assert mended("\ud83d\ude00") == "😀"


def test_an_object_that_is_nested_without_end_is_no_bug() -> None:
    for depth in (100, 400, 900, 3000):
        found = object_in('{"a":' * depth + "1" + "}" * depth)
        assert found is None or list(found) == ["a"]


def test_a_long_text_is_read_in_linear_time() -> None:
    assert object_in("{ " * 500_000 + "``` " * 100_000 + "`" * 500_000) is None
    assert leading_object("```" + " " * 1_000_000) is None
