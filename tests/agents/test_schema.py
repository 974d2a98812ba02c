"""The schema of an answer: what a strict endpoint demands, and what the definition says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from inturn.agents.schema import NEXT_ACTIONS, answer_schema, response_format
from tests.agents.conftest import trip

DATA = {
    "city": "Bern", "class": "first", "day": "2026-11-30", "people": 2, "price": 2.5, "mail": "a@b.ch", "pet": True,
    "code": "ABC",
}  # fmt: skip
ANSWER = {"reply": "r", "data": DATA, "next_action": "ask", "citations": [{"title": "t", "url": "u"}]}


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for inner in schema.values():
            yield from objects(inner)


def test_every_object_is_strict() -> None:
    found = list(objects(answer_schema(trip())))
    assert len(found) == 3
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])


def test_the_reply_is_written_first() -> None:
    assert next(iter(answer_schema(trip())["properties"])) == "reply"


def test_what_fits_is_valid() -> None:
    validator = jsonschema_rs.validator_for(answer_schema(trip()))
    assert validator.is_valid(ANSWER)
    assert validator.is_valid({**ANSWER, "data": dict.fromkeys(DATA), "citations": []})
    assert all(validator.is_valid({**ANSWER, "next_action": action}) for action in NEXT_ACTIONS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": {**DATA, "class": "third"}},
        {"data": {**DATA, "people": 2.5}},
        {"data": {**DATA, "price": "2"}},
        {"data": {**DATA, "pet": "yes"}},
        {"data": {**DATA, "more": 1}},
        {"data": {"city": "Bern"}},
        {"next_action": "dance"},
        {"reply": None},
    ],
)
def test_what_does_not_fit_is_not(wrong: dict[str, Any]) -> None:
    assert not jsonschema_rs.validator_for(answer_schema(trip())).is_valid({**ANSWER, **wrong})


def test_fields_are_described_by_what_the_definition_says() -> None:
    fields = answer_schema(trip())["properties"]["data"]["properties"]
    assert fields["city"]["description"] == "city; the city"
    assert "2026-11-30" in fields["day"]["description"]
    assert "[A-Z]{3}" in fields["code"]["description"]


def test_an_endpoint_is_told_to_be_strict() -> None:
    told = response_format(trip())
    assert (told["type"], told["json_schema"]["strict"]) == ("json_schema", True)
