"""Cards that are made from steps."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.workflows.definition.card import card_of
from inturn.workflows.definition.load import default_definition
from inturn.workflows.definition.model import StepDefinition

STEP = {
    "id": "s", "title": "Step", "prompt": "P.",
    "fields": [
        {"name": "code", "pattern": r"[A-Z]\d"},
        {"name": "details", "label": "Details"},
        {"name": "mail", "type": "email", "label": "E-mail"},
        {"name": "count", "type": "integer", "required": False},
        {"name": "day", "type": "date"},
        {"name": "kind", "type": "choice", "choices": ["A", "B"]},
        {"name": "agreed", "type": "boolean", "prompt": "Do you agree?"},
        {"name": "maybe", "type": "boolean", "required": False},
    ],
    "card": {"id": "c", "actions": ["submit", "ask_later"]},
}  # fmt: skip


def inputs(collected: dict[str, Any]) -> dict[str, dict[str, Any]]:
    card = card_of(StepDefinition.model_validate(STEP), collected)
    return {part["id"]: part for part in card["body"][1:]}


def test_a_card_has_an_input_for_each_field() -> None:
    made = inputs({})
    assert {name: part["type"] for name, part in made.items()} == {
        "code": "Input.Text", "details": "Input.Text", "mail": "Input.Text", "count": "Input.Number",
        "day": "Input.Date", "kind": "Input.ChoiceSet", "agreed": "Input.Toggle", "maybe": "Input.ChoiceSet",
    }  # fmt: skip
    assert made["code"]["regex"] == r"^(?:[A-Z]\d)$"
    assert made["details"]["isMultiline"] is True
    assert made["mail"]["style"] == "email"
    assert made["mail"]["label"] == "E-mail"
    assert made["mail"]["isRequired"] is True
    assert made["mail"]["errorMessage"] == "E-mail must be an e-mail address."
    assert made["count"]["isRequired"] is False
    assert made["kind"]["choices"] == [{"title": "A", "value": "A"}, {"title": "B", "value": "B"}]
    assert made["agreed"]["title"] == "Do you agree?"
    assert all("value" not in part for name, part in made.items() if name != "agreed")


def test_a_card_shows_what_is_known() -> None:
    made = inputs({"count": 3, "kind": "B", "agreed": True, "maybe": False})
    assert made["count"]["value"] == 3
    assert made["kind"]["value"] == "B"
    assert made["agreed"]["value"] == "true"
    assert made["maybe"]["value"] == "false"


def test_a_card_says_its_id_and_actions() -> None:
    card = card_of(StepDefinition.model_validate(STEP), {})
    assert (card["type"], card["version"], card["id"]) == ("AdaptiveCard", "1.5", "c")
    assert card["body"][0]["text"] == "Step"
    assert [(action["title"], action["data"]) for action in card["actions"]] == [
        ("Submit", {"cardId": "c", "action": "submit"}),
        ("Ask later", {"cardId": "c", "action": "ask_later"}),
    ]


def test_a_card_may_have_a_body_of_its_own() -> None:
    own = [{"type": "TextBlock", "text": "Hello", "id": "kind"}, {"type": "Input.Text", "id": "code"}]
    step = StepDefinition.model_validate({**STEP, "card": {"id": "c", "title": "T", "body": own}})
    card = card_of(step, {"code": "A1", "kind": "B"})
    assert card["body"][1:] == [own[0], {**own[1], "value": "A1"}]


def test_a_step_without_a_card_has_none_to_show() -> None:
    with pytest.raises(ValueError, match="step 'about_you' has no card"):
        card_of(default_definition().steps[0], {})
