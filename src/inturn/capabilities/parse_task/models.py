"""What parse-task takes and gives. A task that fits these models may still contradict its config: `fits` says."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, tzinfo
from itertools import pairwise
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

MAX_TEXT = 255
MAX_CATEGORIES = 20
MAX_LEVELS = 10
MAX_SCORE = 1_000_000
MIN_SUBTASKS, MAX_SUBTASKS = 3, 7


def zone(name: str) -> tzinfo:
    """UTC needs no data base of time zones, which a small machine may lack."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _known_zone(name: str) -> str:
    try:
        zone(name)
    except (KeyError, ValueError, OSError):
        raise ValueError("must be an IANA time zone, such as Europe/Berlin") from None
    return name


# A name stands in the instructions, so it is a name and nothing else: no line breaks, no quotes, no brackets.
Name = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[^\W_][\w &/'-]{0,39}$")]


def _is_no_truth(value: Any) -> Any:
    """`true` is no score, although it can be read as 1."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _is_no_number(value: Any) -> Any:
    """A number would be read as seconds since 1970: 0 is no day that anybody means."""
    if not isinstance(value, str | date) or (isinstance(value, str) and not re.match(r"\d{4}-", value)):
        raise ValueError("must be a day, such as 2024-01-31")
    return value


def _can_be_kept(text: str) -> str:
    """Models do write it now and then, and PostgreSQL keeps no text that holds it."""
    if "\0" in text:
        raise ValueError("must not contain NUL characters")
    return text


Score = Annotated[int, Field(ge=-MAX_SCORE, le=MAX_SCORE), BeforeValidator(_is_no_truth)]
Day = Annotated[date, BeforeValidator(_is_no_number, json_schema_input_type=date)]
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEXT), AfterValidator(_can_be_kept)
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScoreRange(_Strict):
    """Both ends belong to it."""

    low: Score
    high: Score

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.low > self.high:
            raise ValueError("low must not be greater than high")
        return self


class PriorityLevel(ScoreRange):
    level: Name


class ParseTaskConfig(_Strict):
    """The categories, and the priority levels with their scores."""

    categories: tuple[Name, ...] = Field(
        default=("work", "personal", "health", "finance", "errand"), min_length=1, max_length=MAX_CATEGORIES
    )
    priority_levels: tuple[PriorityLevel, ...] = Field(
        default=(
            PriorityLevel(level="low", low=0, high=3),
            PriorityLevel(level="medium", low=4, high=6),
            PriorityLevel(level="high", low=7, high=8),
            PriorityLevel(level="critical", low=9, high=10),
        ),
        min_length=1,
        max_length=MAX_LEVELS,
    )
    score_range: ScoreRange = ScoreRange(low=0, high=10)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        _unique("categories", self.categories)
        _unique("priority_levels", [each.level for each in self.priority_levels])
        levels = sorted(self.priority_levels, key=lambda each: each.low)
        for each in levels:
            if not self.score_range.low <= each.low <= each.high <= self.score_range.high:
                raise ValueError(f"priority level {each.level!r} is not inside score_range")
        for lower, higher in pairwise(levels):
            if higher.low <= lower.high:
                raise ValueError(f"priority levels {lower.level!r} and {higher.level!r} overlap")
        return self


def _unique(field: str, names: tuple[str, ...] | list[str]) -> None:
    if len({name.casefold() for name in names}) < len(names):
        raise ValueError(f"{field} must not hold a name twice")


class ParseTaskInput(_Strict):
    natural_language: Text
    config: ParseTaskConfig = ParseTaskConfig()
    time_zone: Annotated[str, StringConstraints(max_length=64), AfterValidator(_known_zone)] = "UTC"

    def today(self, now: datetime) -> date:
        """The user's day, which may be another than the server's."""
        return now.astimezone(zone(self.time_zone)).date()


class Priority(_Strict):
    level: Name
    score: Score
    reason: Text


class ParsedTask(_Strict):
    """`due_date` is a day: what people write names days, and a day needs no time zone to be kept."""

    title: Text
    due_date: Day | None
    category: Name
    priority: Priority
    subtasks: Annotated[list[Text], Field(min_length=MIN_SUBTASKS, max_length=MAX_SUBTASKS)] | None

    def fits(self, config: ParseTaskConfig) -> None:
        """Raises `ValueError` for a category, level or score outside the config."""
        if self.category not in config.categories:
            raise ValueError(f"category {self.category!r} is none of {', '.join(config.categories)}")
        known = {each.level: each for each in config.priority_levels}
        level = known.get(self.priority.level)
        if level is None:
            raise ValueError(f"priority level {self.priority.level!r} is none of {', '.join(known)}")
        if not level.low <= self.priority.score <= level.high:
            raise ValueError(
                f"score {self.priority.score} is outside of level {level.level!r} ({level.low} to {level.high})"
            )


class Vague(_Strict):
    """Why a text does not say enough, and texts that would."""

    reason: Text
    suggestions: Annotated[list[Text], Field(min_length=1, max_length=3)]


class ParseTaskAnswer(_Strict):
    """What an agent answers: exactly one of the two. An object, because strict output has no union at its root."""

    task: ParsedTask | None
    vague: Vague | None

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if (self.task is None) == (self.vague is None):
            raise ValueError("exactly one of task and vague must be null")
        return self
