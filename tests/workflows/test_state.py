"""The state of a workflow: new answers over old ones, a position that the definition gives, bounds for every part."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.agents.storable import NotStorable
from inturn.lanes.codec import MAX_STATE
from inturn.workflows import Owner, WorkflowState
from inturn.workflows.response import Progress, StateView
from inturn.workflows.state import MAX_ANSWERED, MAX_COLLECTED, MAX_HISTORY, MAX_HISTORY_TEXT
from tests.workflows.scripted import DEFINITION


def fresh(**more: Any) -> WorkflowState:
    return WorkflowState(conversation_id="c", definition="intake", owner=Owner(user_id="u", tenant_id="t"), **more)


def test_new_data_is_laid_over_the_old_and_the_rest_stays() -> None:
    state = fresh()
    assert state.collect({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert state.collect({"b": 3, "c": 4}) == {"b": 3, "c": 4}
    assert state.collected_data == {"a": 1, "b": 3, "c": 4}
    assert state.collect({}) == {}
    assert state.collected_data == {"a": 1, "b": 3, "c": 4}


def test_what_was_answered_last_stands_at_the_end() -> None:
    state = fresh()
    state.collect({"a": 1, "b": 2, "c": 3})
    state.collect({"a": 9})
    assert list(state.collected_data.items()) == [("b", 2), ("c", 3), ("a", 9)]


def test_the_same_answer_again_is_nothing_new() -> None:
    state = fresh()
    state.collect({"a": [1, {"x": 2}]})
    assert state.collect({"a": [1, {"x": 2}]}) == {}


def test_objects_are_not_mixed_but_replaced() -> None:
    state = fresh()
    state.collect({"a": {"x": 1, "y": 2}})
    state.collect({"a": {"x": 3}})
    assert state.collected_data == {"a": {"x": 3}}


names = st.sampled_from("abcde")
answers = st.lists(st.dictionaries(names, st.integers(0, 3), max_size=4), max_size=6)


@given(answers)
def test_merging_is_the_same_as_asking_for_the_latest_answer_of_each_name(turns: list[dict[str, int]]) -> None:
    state, latest = fresh(), dict[str, int]()
    for data in turns:
        before = dict(state.collected_data)
        new = state.collect(data)
        assert new == {name: value for name, value in data.items() if before.get(name) != value}
        for name, value in data.items():
            latest.pop(name, None)
            latest[name] = value
    assert list(state.collected_data.items()) == list(latest.items())


def test_more_than_may_be_collected_is_refused_and_changes_nothing() -> None:
    state = fresh()
    state.collect({"a": "x" * 1000})
    with pytest.raises(NotStorable):
        state.collect({"b": "é" * (MAX_COLLECTED // 2)})
    with pytest.raises(NotStorable):
        state.collect({f"n{number}": 1 for number in range(3000)})
    assert list(state.collected_data) == ["a"]


def test_the_history_is_bounded_and_its_lines_are_too() -> None:
    state = fresh()
    for number in range(100):
        state.remember("user", f"{number} " + "x" * 5000)
    state.remember("assistant", "  \n")
    assert len(state.history) == MAX_HISTORY
    assert state.history[-1].text.startswith("99 ")
    assert all(len(line.text) <= MAX_HISTORY_TEXT for line in state.history)


def test_only_the_newest_answered_ids_are_kept() -> None:
    state = fresh()
    for number in range(MAX_ANSWERED + 50):
        state.mark_answered([f"m{number}"], "t")
    assert list(state.answered) == [f"m{number}" for number in range(50, MAX_ANSWERED + 50)]


def test_a_state_that_is_full_in_every_part_can_be_stored() -> None:
    state = fresh(
        choices=["\x01" * 200] * 50,
        last_recommendation="\x01" * 1000,
        memory={"a": "x" * (16 * 1024 - 10)},
        suggested_input_type="x" * 50,
    )
    state.collect({"a": "x" * (MAX_COLLECTED - 10)})
    for number in range(200):
        state.remember("user", "\x01" * 2000)
        state.mark_answered([f"{number:03d}" + "😀" * 127], "😀" * 128)
    assert len(state.model_dump_json().encode()) < MAX_STATE


@pytest.mark.parametrize(
    ("data", "step", "phase", "percent"),
    [
        ({}, 0, "about_you", 0),
        ({"name": "Ada"}, 0, "about_you", 33),
        ({"name": "Ada", "email": "a@b.c"}, 1, "details", 66),
        ({"count": 3}, 0, "about_you", 33),
        ({"urgent": True, "else": 1}, 0, "about_you", 0),
        ({"name": "Ada", "email": "a@b.c", "count": 3}, 2, "confirm", 99),
    ],
)
def test_the_position_and_the_progress_come_from_the_definition(
    data: dict[str, Any], step: int, phase: str, percent: int
) -> None:
    state = fresh(collected_data=data)
    state.stand_at(DEFINITION)
    assert (state.current_step, state.phase) == (step, phase)
    progress = Progress.of(state, DEFINITION)
    number = min(step + 1, 2)
    assert progress.model_dump() == {
        "current_step": number, "current_step_id": DEFINITION.steps[number - 1].id, "total_steps": 2,
        "percent_complete": percent,
    }  # fmt: skip
    view = StateView.of(state, DEFINITION)
    assert view.current_step == (None if step == 2 else DEFINITION.steps[step].id)
    assert (view.status, view.current_phase, view.collected_data, view.turn_count) == ("active", phase, data, 0)


def test_a_hundred_percent_is_for_what_is_completed_only() -> None:
    state = fresh(status="completed", collected_data={"name": "Ada"})
    state.stand_at(DEFINITION)
    assert state.phase == "completed"
    assert Progress.of(state, DEFINITION).percent_complete == 100


def test_the_steps_are_never_in_the_state() -> None:
    state = fresh(collected_data={"name": "Ada"})
    state.stand_at(DEFINITION)
    written = state.model_dump_json()
    assert "Who are you?" not in written
    assert "steps" not in json.loads(written)


def test_others_see_nothing_of_owner_memory_or_policy() -> None:
    state = fresh(memory={"secret": 1})
    state.stand_at(DEFINITION)
    assert set(StateView.of(state, DEFINITION).model_dump()) == {
        "status", "current_phase", "current_step", "collected_data", "turn_count", "suggested_input_type", "choices",
        "last_recommendation",
    }  # fmt: skip
