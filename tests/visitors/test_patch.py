"""Metadata merged by field: what was given is laid over, what others wrote survives."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inturn.visitors.patch import is_same, largest_change, merged

names = st.sampled_from(["a", "b", "c", "workflow_state"])
leaves = st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.text(max_size=2)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3))
metadata = st.dictionaries(names, values, max_size=3)


@given(metadata, metadata)
def test_what_was_given_is_in_it_and_neither_is_touched(before: dict[str, Any], fields: dict[str, Any]) -> None:
    kept = deepcopy((before, fields))
    after = merged(before, fields)
    assert is_same(merged(after, fields), after)
    assert is_same({name: after[name] for name in before if name not in fields},
                   {name: before[name] for name in before if name not in fields})  # fmt: skip
    assert is_same(list(kept), [before, fields])


@given(metadata)
def test_no_fields_change_nothing(before: dict[str, Any]) -> None:
    assert is_same(merged(before, {}), before)
    assert largest_change(before, deepcopy(before)) == ""


def test_a_nested_field_of_someone_else_survives() -> None:
    now = {"workflow_state": {"node": "a", "fields": {"name": "Ada", "city": "London"}}, "crm": 1}
    assert merged(now, {"workflow_state": {"node": "b", "fields": {"age": 36}}}) == {
        "workflow_state": {"node": "b", "fields": {"name": "Ada", "city": "London", "age": 36}},
        "crm": 1,
    }


def test_none_removes_a_field_and_its_neighbour_stays() -> None:
    assert merged({"a": {"x": 5, "z": 3}, "b": 1}, {"a": {"x": None}, "c": None}) == {"a": {"z": 3}, "b": 1}


def test_the_field_that_grew_most_is_named() -> None:
    before = {"notes": "x" * 100, "state": {"fields": {"n": 1}}}
    after = {"notes": "x" * 100, "state": {"fields": {"n": 2, "got": "y" * 50}}, "crm": "anna"}
    assert largest_change(before, after) == "state.fields.got"


def test_true_is_not_one() -> None:
    assert merged({"a": 1}, {"a": True})["a"] is True
    assert not is_same({"a": [1]}, {"a": [True]})
