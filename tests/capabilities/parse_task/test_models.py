"""What parse-task takes: bounded, trimmed, and a config that does not contradict itself."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from inturn.capabilities.parse_task.models import ParsedTask, ParseTaskAnswer, ParseTaskConfig, ParseTaskInput

TASK: dict[str, Any] = {
    "title": "Buy milk",
    "due_date": "2024-01-16",
    "category": "errand",
    "priority": {"level": "high", "score": 7, "reason": "It is due tomorrow."},
    "subtasks": None,
}


def level(name: str, low: int, high: int) -> dict[str, Any]:
    return {"level": name, "low": low, "high": high}


def test_the_text_is_trimmed_and_has_1_to_255_characters() -> None:
    assert ParseTaskInput(natural_language="  buy milk \n").natural_language == "buy milk"
    assert len(ParseTaskInput(natural_language=" " + "x" * 255 + " ").natural_language) == 255
    for text in ("", "   ", "x" * 256):
        with pytest.raises(ValidationError, match="natural_language"):
            ParseTaskInput(natural_language=text)


def test_the_defaults_are_those_of_the_service() -> None:
    config = ParseTaskInput(natural_language="x").config
    assert config.categories == ("work", "personal", "health", "finance", "errand")
    assert [(each.level, each.low, each.high) for each in config.priority_levels] == [
        ("low", 0, 3), ("medium", 4, 6), ("high", 7, 8), ("critical", 9, 10),
    ]  # fmt: skip


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "", "../etc/passwd", "/etc/localtime", "Europe", "x" * 65, "a\0b"])
def test_a_time_zone_must_be_known(zone: str) -> None:
    with pytest.raises(ValidationError, match="time_zone"):
        ParseTaskInput(natural_language="x", time_zone=zone)


def test_today_is_the_users() -> None:
    late = datetime(2024, 1, 15, 23, 30, tzinfo=UTC)
    assert ParseTaskInput(natural_language="x").today(late) == date(2024, 1, 15)
    assert ParseTaskInput(natural_language="x", time_zone="Europe/Berlin").today(late) == date(2024, 1, 16)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"categories": []}, "at least 1"),
        ({"categories": [f"c{number}" for number in range(21)]}, "at most 20"),
        ({"categories": ["work", "Work"]}, "twice"),
        ({"categories": ["x" * 41]}, "pattern"),
        ({"categories": ["a\nb"]}, "pattern"),
        ({"categories": ['a", "b']}, "pattern"),
        ({"priority_levels": []}, "at least 1"),
        ({"priority_levels": [level(f"l{number}", 0, 0) for number in range(11)]}, "at most 10"),
        ({"priority_levels": [level("low", 0, 3), level("LOW", 4, 5)]}, "twice"),
        ({"priority_levels": [level("low", 3, 0)]}, "low must not be greater"),
        ({"priority_levels": [level("low", 0, 3), level("high", 3, 5)]}, "overlap"),
        ({"priority_levels": [level("high", 3, 5), level("low", 0, 9)]}, "overlap"),
        ({"priority_levels": [level("low", 0, 11)]}, "not inside"),
        ({"priority_levels": [level("low", -1, 3)]}, "not inside"),
        ({"score_range": {"low": 5, "high": 1}}, "low must not be greater"),
        ({"score_range": {"low": 0, "high": 5}}, "not inside"),
        ({"score_range": {"low": 0, "high": 10**7}}, "less than or equal"),
        ({"colours": ["red"]}, "Extra inputs"),
    ],
)
def test_a_config_that_contradicts_itself_is_refused(config: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ParseTaskConfig.model_validate(config)


def test_an_own_config_is_taken() -> None:
    config = ParseTaskConfig.model_validate(
        {
            "categories": ["R&D", "Haus-Garten"],
            "priority_levels": [level("later", 0, 50), level("now", 51, 100)],
            "score_range": {"low": 0, "high": 100},
        }
    )
    assert [each.level for each in config.priority_levels] == ["later", "now"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"category": "play"}, "category 'play' is none of work"),
        ({"priority": {"level": "huge", "score": 7, "reason": "x"}}, "level 'huge' is none of low"),
        ({"priority": {"level": "high", "score": 9, "reason": "x"}}, r"score 9 is outside of level 'high' \(7 to 8\)"),
        ({"priority": {"level": "high", "score": 6, "reason": "x"}}, "score 6 is outside"),
    ],
)
def test_a_task_outside_of_the_config_does_not_fit(change: dict[str, Any], why: str) -> None:
    ParsedTask.model_validate(TASK).fits(ParseTaskConfig())
    with pytest.raises(ValueError, match=why):
        ParsedTask.model_validate({**TASK, **change}).fits(ParseTaskConfig())


@pytest.mark.parametrize("due", [0, 1705363200, 1705363200.0, "1705363200", True, "", "Friday", "2024-02-30"])
def test_a_due_date_is_written_as_a_day(due: object) -> None:
    assert ParsedTask.model_validate({**TASK, "due_date": date(2024, 1, 16)}).due_date == date(2024, 1, 16)
    with pytest.raises(ValidationError, match="due_date"):
        ParsedTask.model_validate({**TASK, "due_date": due})


def test_true_is_no_score() -> None:
    with pytest.raises(ValidationError, match="score"):
        ParsedTask.model_validate({**TASK, "priority": {"level": "low", "score": True, "reason": "x"}})


@pytest.mark.parametrize("count", [0, 1, 2, 8])
def test_subtasks_are_none_or_3_to_7(count: int) -> None:
    for good in (None, ["a"] * 3, ["a"] * 7):
        ParsedTask.model_validate({**TASK, "subtasks": good})
    with pytest.raises(ValidationError, match="subtasks"):
        ParsedTask.model_validate({**TASK, "subtasks": ["a"] * count})


def test_an_answer_is_a_task_or_vague_and_never_both_or_neither() -> None:
    vague = {"reason": "What?", "suggestions": ["Buy milk"]}
    ParseTaskAnswer.model_validate({"task": TASK, "vague": None})
    ParseTaskAnswer.model_validate({"task": None, "vague": vague})
    for answer in ({"task": TASK, "vague": vague}, {"task": None, "vague": None}):
        with pytest.raises(ValidationError, match="exactly one"):
            ParseTaskAnswer.model_validate(answer)


def test_the_schema_of_an_answer_requires_every_field() -> None:
    """Strict structured output needs it so: all required, nothing besides."""
    schema = ParseTaskAnswer.model_json_schema()
    for model in (schema, *schema["$defs"].values()):
        assert set(model["required"]) == set(model["properties"])
        assert model["additionalProperties"] is False
