"""Metadata merged by field: what was changed is laid over, what others changed survives."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inturn.visitors.patch import apply, difference, is_same

names = st.sampled_from(["a", "b", "c", "workflow_state"])
leaves = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.text(max_size=2)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3))
metadata = st.dictionaries(names, values, max_size=3)


@given(metadata, metadata)
def test_what_was_changed_is_what_comes_out(before: dict[str, Any], after: dict[str, Any]) -> None:
    kept = deepcopy((before, after))
    assert is_same(apply(difference(before, after), before), after)
    assert is_same(list(kept), [before, after]), "neither is touched"


@given(metadata)
def test_no_change_is_an_empty_patch(before: dict[str, Any]) -> None:
    assert difference(before, deepcopy(before)) == ()


@given(metadata, metadata, values)
def test_a_field_that_someone_else_adds_survives(before: dict[str, Any], after: dict[str, Any], added: Any) -> None:
    now = deepcopy(before) | {"theirs": added}
    assert is_same(apply(difference(before, after), now), after | {"theirs": added})


@given(metadata, metadata, metadata)
def test_whatever_is_there_by_now_every_change_is_in_it(
    before: dict[str, Any], after: dict[str, Any], now: dict[str, Any]
) -> None:
    patch = difference(before, after)
    patched = apply(patch, now)
    for change in patch:
        place: Any = patched
        for name in change.path[:-1]:
            place = place.get(name) if isinstance(place, dict) else None
        if change.how == "remove":
            assert not isinstance(place, dict) or change.path[-1] not in place
        elif change.how == "make":
            assert isinstance(place[change.path[-1]], dict)
        else:
            assert is_same(place[change.path[-1]], change.value)


def test_a_nested_field_of_someone_else_survives() -> None:
    before = {"workflow_state": {"node": "a", "fields": {"name": "Ada"}}}
    after = {"workflow_state": {"node": "b", "fields": {"name": "Ada", "age": 36}}}
    now = {"workflow_state": {"node": "a", "fields": {"name": "Countess", "city": "London"}}, "crm": 1}
    assert apply(difference(before, after), now) == {
        "workflow_state": {"node": "b", "fields": {"name": "Countess", "city": "London", "age": 36}},
        "crm": 1,
    }


def test_an_object_that_both_made_has_the_fields_of_both() -> None:
    assert apply(difference({}, {"a": {"x": 1}, "b": {}}), {"a": {"y": 2}, "b": {"z": 3}}) == {
        "a": {"x": 1, "y": 2},
        "b": {"z": 3},
    }


def test_true_is_not_one() -> None:
    assert apply(difference({"a": 1}, {"a": True}), {"a": 1})["a"] is True


def test_a_removed_field_is_removed_and_its_neighbour_is_not() -> None:
    assert apply(difference({"a": {"x": 1, "y": 2}}, {"a": {"y": 2}}), {"a": {"x": 5, "z": 3}}) == {"a": {"z": 3}}
