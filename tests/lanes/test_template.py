"""Keys and ids out of bodies."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from inturn import BadMessage
from inturn.lanes.template import Template, content_id, key, message_id


@dataclass
class User:
    id: int


@pytest.mark.parametrize(
    ("source", "body", "filled"),
    [
        ("user:{user}", {"user": "a"}, "user:a"),
        ("user:{user}", {"user": 42}, "user:42"),
        ("{a}/{b}", {"a": "x", "b": "y"}, "x/y"),
        ("{user.id}", {"user": {"id": 7}}, "7"),
        ("{user.id}", {"user": User(7)}, "7"),
        ("{id}", User(7), "7"),
        ("{{literal}}", {}, "{literal}"),
        ("plain", None, "plain"),
    ],
)
def test_a_template_is_filled_from_the_body(source: str, body: Any, filled: str) -> None:
    assert Template(source, "key", None).fill(body) == filled


class Plan(str, Enum):  # noqa: UP042 - as it is mostly written
    FREE = "free"


class Level(int, Enum):
    FIRST = 1


def test_a_member_of_an_enum_makes_the_key_that_its_json_makes() -> None:
    body = {"plan": Plan.FREE, "level": Level.FIRST}
    template = Template("{plan}:{level}", "key", None)
    assert template.fill(body) == template.fill(json.loads(json.dumps(body))) == "free:1"
    function = Template(lambda body: body["plan"], "key", None)
    # formatted, a member of such an enum is `Plan.FREE`, so the text must be plain
    assert (
        f"{function.fill(body)} {key(Plan.FREE)} {message_id(Plan.FREE)} {message_id(Level.FIRST)}"
        == "free free free 1"
    )


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "the body has no 'user.id'"),
        ({"user": None}, "the body has no 'user.id'"),
        ({"user": {"id": 1.5}}, "'user.id' is 1.5; it must be text or a number"),
        ({"user": {"id": [1]}}, r"'user.id' is \[1\]"),
        (None, "the body has no 'user.id'"),
        ("text", "the body has no 'user.id'"),
    ],
)
def test_what_is_missing_is_named_with_its_template(body: Any, says: str) -> None:
    with pytest.raises(BadMessage, match=says) as error:
        Template("user:{user.id}", "key", None).fill(body)
    assert "key='user:{user.id}'" in str(error.value)
    assert error.value.field == "key"


def test_a_key_must_not_hold_the_sign_of_a_send() -> None:
    assert key("user:42") == "user:42"
    with pytest.raises(BadMessage, match="key='a>b': must not contain '>'") as error:
        key("a>b")
    assert error.value.field == "key"


def test_an_id_is_text_or_a_whole_number() -> None:
    assert (message_id("a"), message_id(5)) == ("a", "5")
    for bad in (True, 1.5, None, b"x"):
        with pytest.raises(TypeError, match="message_id="):
            message_id(bad)


def test_a_content_id_is_the_hash_of_key_and_text() -> None:
    assert content_id("user:1", "hi") == hashlib.sha256(b"user:1\0hi").hexdigest()
    assert content_id("a", "b") != content_id("b", "a")
