"""What came from outside becomes JSON that can be stored, or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_core import to_json

from inturn.agents import storable


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        (True, True),
        ("é", "é"),
        ((1, 2.5), [1, 2.5]),
        ({"a": {"b": "x"}, 1: 2, None: 3, 10**5000: 4, object(): 5}, {"a": {"b": "x"}}),
        ([float("nan"), float("inf"), float("-inf")], [None, None, None]),
        ("half \ud83d of it", "half ? of it"),
        ({"\ud83d": 1}, {"?": 1}),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_what_can_be_json_becomes_json(given: Any, kept: Any) -> None:
    made = storable.value(given, 1000)
    assert made == kept
    assert json.loads(to_json(made)) == kept


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (10**100, "a number of more than 100 digits"),
        (-(10**100), "a number of more than 100 digits"),
        (b"bytes", "a bytes, which is no JSON"),
        ({"a": object()}, "a object, which is no JSON"),
        ({1, 2}, "a set, which is no JSON"),
        (nested(25), "nested deeper than 24"),
        ([0] * 2001, "more than 2000 values"),
        ([[0] * 600] * 4, "more than 2000 values"),
        ("x" * 1000, "more than 1000 bytes long"),
        ("é" * 501, "more than 1000 bytes long"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_reason(given: Any, why: str) -> None:
    with pytest.raises(storable.NotStorable, match=why):
        storable.value(given, 1000)


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises(storable.NotStorable):
        storable.value(circle, 1000)


def test_the_copy_shares_nothing_with_what_was_given() -> None:
    given = {"a": [1, {"b": 2}]}
    copied = storable.value(given, 1000)
    copied["a"][1]["b"] = 3
    assert given == {"a": [1, {"b": 2}]}


def test_a_text_is_shortened_to_its_limit() -> None:
    assert storable.text("abcdef", 6) == "abcdef"
    assert storable.text("abcdefg", 6) == "abcde…"
