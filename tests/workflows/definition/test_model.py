"""What a workflow is made of: checked as a whole, and each field says what fits it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inturn.workflows.definition.model import (
    CardDefinition,
    FieldDefinition,
    FieldType,
    StepDefinition,
    WorkflowDefinition,
)

TYPES: tuple[FieldType, ...] = ("text", "number", "integer", "date", "email", "boolean", "choice")


def field(kind: FieldType = "text", name: str = "f", **more: Any) -> FieldDefinition:
    if kind == "choice":
        more.setdefault("choices", ("By e-mail", "By phone"))
    return FieldDefinition(name=name, type=kind, **more)


def step(name: str, *fields: FieldDefinition, card: str | None = None) -> StepDefinition:
    made = None if card is None else CardDefinition(id=card)
    return StepDefinition(id=name, title=name, prompt="?", fields=fields, card=made)


def workflow(*steps: StepDefinition) -> WorkflowDefinition:
    return WorkflowDefinition(id="w", title="W", steps=steps)


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        ("text", "  Ada ", "Ada"),
        ("text", 7, "7"),
        ("text", 1.5, "1.5"),
        ("number", "1.50", 1.5),
        ("number", " -2 ", -2),
        ("number", 2.0, 2),
        ("number", 0, 0),
        ("integer", "12", 12),
        ("integer", 3.0, 3),
        ("date", " 2026-11-30 ", "2026-11-30"),
        ("email", " ada@example.org ", "ada@example.org"),
        ("email", "a.b+c@mail.example.co.uk", "a.b+c@mail.example.co.uk"),
        ("boolean", True, True),
        ("boolean", False, False),
        ("boolean", " Yes", True),
        ("boolean", "NO", False),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("choice", " by E-MAIL ", "By e-mail"),
        ("choice", "By phone", "By phone"),
    ],
)
def test_a_value_that_fits_is_kept_in_one_way(kind: FieldType, given: Any, kept: Any) -> None:
    found = field(kind).check(given)
    assert (found, type(found)) == (kept, type(kept))
    assert field(kind).check(found) == found, "what was kept fits again"


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("text", ""), ("text", "  \n"), ("text", "x" * 4001), ("text", True), ("text", None), ("text", ["x"]),
        ("number", "many"), ("number", ""), ("number", True), ("number", None), ("number", []), ("number", {}),
        ("number", "nan"), ("number", float("inf")), ("number", "1e400"), ("number", 10**16), ("number", 10**400),
        ("number", "-1e16"), ("integer", 1.5), ("integer", "2.5"), ("integer", False),
        ("date", "tomorrow"), ("date", "2026-02-30"), ("date", "30.11.2026"), ("date", 20261130), ("date", None),
        ("date", ""), ("date", []),
        ("email", "ada"), ("email", "ada@"), ("email", "@example.org"), ("email", "a@b"), ("email", "a b@c.de"),
        ("email", "a@b..de"), ("email", "a@b.de x@y.z"), ("email", "a" * 65 + "@b.de"), ("email", 7), ("email", None),
        ("email", "a@" + "b" * 250 + ".de"),
        ("boolean", "maybe"), ("boolean", 1), ("boolean", 0), ("boolean", None), ("boolean", ""), ("boolean", []),
        ("choice", "By pigeon"), ("choice", ""), ("choice", None), ("choice", 1), ("choice", ["By phone"]),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused_with_what_it_must_be(kind: FieldType, given: Any) -> None:
    with pytest.raises(ValueError, match="must "):
        field(kind).check(given)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(10**40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(TYPES), anything)
def test_a_check_answers_a_value_or_raises_a_value_error_and_nothing_else(kind: FieldType, value: Any) -> None:
    try:
        kept = field(kind).check(value)
    except ValueError:
        return
    assert isinstance(kept, str | int | float | bool)
    assert field(kind).check(kept) == kept


def test_a_pattern_must_match_the_whole_text() -> None:
    order = field(pattern=r"[A-Z]{2}-\d+")
    assert order.check("AB-7") == "AB-7"
    for wrong in ("AB-7 ok", "xAB-7", "ab-7"):
        with pytest.raises(ValueError, match="must match"):
            order.check(wrong)


def test_a_pattern_is_held_against_the_whole_text_whatever_it_consists_of() -> None:
    assert field(pattern="a|bc").check("bc") == "bc"
    assert field(pattern="(?i)ab").check("AB") == "AB"
    for pattern, wrong in (("a|bc", "ac"), ("a|bc", "abc"), ("(?m)^a$", "b\na"), ("a", "a" * 2), (".*", "\ud800")):
        with pytest.raises(ValueError, match="must match"):
            field(pattern=pattern).check(wrong)


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "a)(b", r"(\w{100}){100}"])
def test_a_pattern_that_the_engine_cannot_take_is_refused_with_the_definition(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern: is not a regular expression that can be used here"):
        field(pattern=pattern)


def test_no_pattern_can_stop_the_server() -> None:
    started_at = time.process_time()
    with pytest.raises(ValueError, match="must match"):
        field(pattern="(a+)+b").check("a" * 30)  # an engine that backtracks needs a minute for it
    assert time.process_time() - started_at < 3


@pytest.mark.parametrize("choice", [" By mail", "By mail ", "By mail"])
def test_every_choice_that_a_definition_lists_can_be_chosen(choice: str) -> None:
    chosen = field("choice", choices=(choice, "other"))
    assert chosen.check(chosen.choices[0]) == chosen.choices[0]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": "f", "type": "choice"}, "choices"),
        ({"name": "f", "choices": ["a"]}, "choices"),
        ({"name": "f", "type": "choice", "choices": ["a", "A"]}, "the same"),
        ({"name": "f", "type": "date", "pattern": "x"}, "pattern"),
        ({"name": "f", "pattern": "("}, "regular expression"),
        ({"name": "f", "type": "colour"}, "type"),
        ({"name": "f", "colour": "red"}, "colour"),
        ({"name": "1f"}, "name"),
        ({"name": "f f"}, "name"),
        ({"name": ""}, "name"),
        ({}, "name"),
    ],
)
def test_a_field_that_does_not_go_together_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        FieldDefinition.model_validate(given)


def test_a_workflow_needs_a_step_and_names_that_are_used_once() -> None:
    with pytest.raises(ValidationError, match="steps"):
        workflow()
    with pytest.raises(ValidationError, match="step id 'a' is used twice"):
        workflow(step("a"), step("a"))
    with pytest.raises(ValidationError, match="field name 'f' is used twice"):
        workflow(step("a", field()), step("b", field()))
    with pytest.raises(ValidationError, match="card id 'c' is used twice"):
        workflow(step("a", card="c"), step("b", card="c"))


def test_a_card_can_be_submitted_unless_it_says_otherwise() -> None:
    assert CardDefinition(id="c").actions == ("submit",)
    with pytest.raises(ValidationError, match="actions"):
        CardDefinition(id="c", actions=())


def test_the_position_is_the_first_step_that_misses_something_required() -> None:
    flow = workflow(
        step("a", field(name="x"), field(name="y", required=False)), step("intro"), step("b", field(name="z"), card="c")
    )
    assert [flow.position(data) for data in ({}, {"z": 1}, {"x": 1}, {"x": 1, "z": 1})] == [0, 0, 2, 3]
    assert [missing.name for missing in flow.steps[0].missing({})] == ["x"]
    assert list(flow.by_name) == ["x", "y", "z"]
    assert list(flow.cards) == ["c"]


def test_it_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        workflow(step("a")).title = "other"  # type: ignore[misc]


def test_a_field_without_a_label_is_called_by_its_name() -> None:
    assert field(name="affected_users").title == "affected users"
    assert field(label="People affected").title == "People affected"


@pytest.mark.parametrize("name", ["action", "cardId", "reply", "nextAction", "data"])
def test_a_field_may_not_have_a_name_that_means_something_else(name: str) -> None:
    with pytest.raises(ValueError, match="is reserved for what agents send"):
        FieldDefinition(name=name)


@pytest.mark.parametrize("name", ["confirm", "completed"])
def test_a_step_may_not_be_named_like_a_phase(name: str) -> None:
    with pytest.raises(ValueError, match="name of a phase"):
        StepDefinition(id=name, title="t", prompt="p")
