"""parse-task by rules: real sentences, nothing invented."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.capabilities.parse_task.models import ParsedTask, ParseTaskAnswer, ParseTaskConfig, ParseTaskInput
from inturn.capabilities.parse_task.rules import parse
from tests.capabilities import everyday

MONDAY = date(2024, 1, 15)


def answer(text: str, **config: Any) -> ParseTaskAnswer:
    return parse(ParseTaskInput(natural_language=text, config=ParseTaskConfig.model_validate(config)), MONDAY)


def task(text: str, **config: Any) -> ParsedTask:
    found = answer(text, **config).task
    assert found is not None, text
    return found


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("please remind me to buy milk tomorrow, thanks!", "Buy milk"),
        ("Could you please remind me to call Anna on Friday at 3pm?", "Call Anna"),
        ("Don't forget to pay the rent by the end of the month", "Pay the rent"),
        ("I need to finish the report before Thursday noon", "Finish the report"),
        ("Tomorrow I have to call the tax office", "Call the tax office"),
        ("FRIDAY: deploy the site", "Deploy the site"),
        ("Deadline 2024-03-05: grant application", "Grant application"),
        ("Prepare the slides for Friday's meeting", "Prepare the slides for Friday's meeting"),
        ("Order the gift tomorrow for the party on January 27", "Order the gift for the party on January 27"),
        ("Pay the rent by Friday, January 26", "Pay the rent"),
        ("Pay the rent by 12/31/2025", "Pay the rent"),
        ("urgent: fix the login page", "Fix the login page"),
        ("Water the plants every Tuesday", "Water the plants every Tuesday"),
        ("Is the oven off?", "Is the oven off?"),
        ("купить молоко", "Купить молоко"),
    ],
)
def test_a_title_says_what_to_do_without_date_and_politeness(text: str, title: str) -> None:
    assert task(text).title == title


@pytest.mark.parametrize(
    "text", ["do it " * 42, "plan something " * 17, "check it and " * 19 + "fix it", "stuff " * 42]
)
def test_a_long_text_that_says_nothing_is_vague_too(text: str) -> None:
    vague = answer(text).vague
    assert vague is not None
    assert 1 <= len(vague.suggestions) <= 3


def test_a_title_is_never_longer_than_the_text_may_be() -> None:
    assert task("ß" * 255).title == "SS" + "ß" * 253


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Finish the report for the client", "work"),
        ("Pay the electricity bill", "finance"),
        ("Dentist on Thursday", "health"),
        ("Buy milk and bread", "errand"),
        ("Call mom on her birthday", "personal"),
        ("Xyzzy the frobnicator", "personal"),
        ("Sort the work papers of mom", "work"),
    ],
)
def test_a_category_is_known_by_its_words(text: str, category: str) -> None:
    assert task(text).category == category


def test_a_category_comes_from_the_config() -> None:
    assert task("Buy milk", categories=["Home", "Shopping"]).category == "Shopping"
    assert task("Feed the boat", categories=["Boat", "Home"]).category == "Boat"
    assert task("Xyzzy the frobnicator", categories=["Blue", "Red"]).category == "Blue"
    assert task("Xyzzy the frobnicator", categories=["Blue", "Other"]).category == "Other"


@pytest.mark.parametrize(
    ("text", "level", "score"),
    [
        ("Fix the login page asap", "critical", 9),
        ("Fix the login page today, urgent", "critical", 10),
        ("Important: renew the passport", "high", 7),
        ("Important: renew the passport tomorrow", "critical", 9),
        ("Buy milk today", "high", 8),
        ("Buy milk tomorrow", "high", 7),
        ("Buy milk on Friday", "medium", 6),
        ("Buy milk in two weeks", "medium", 5),
        ("Buy milk", "medium", 4),
        ("Renew the passport in six months", "low", 3),
        ("Learn the guitar someday", "low", 2),
        ("Sort the photos, not urgent", "low", 2),
        ("Sort the photos today, low priority", "low", 1),
        ("Sort the photos, priority: critical", "critical", 9),
    ],
)
def test_a_priority_follows_the_words_and_the_due_date(text: str, level: str, score: int) -> None:
    found = task(text).priority
    assert (found.level, found.score) == (level, score)
    assert found.reason.endswith(".")


def test_a_priority_fits_any_config() -> None:
    for levels in (
        [("only", 5, 5)],
        [("later", 0, 10), ("now", 11, 100)],
        [("a", 0, 0), ("b", 1, 1), ("c", 2, 2), ("d", 3, 3), ("e", 4, 4), ("f", 5, 5)],
    ):
        config = {
            "priority_levels": [{"level": name, "low": low, "high": high} for name, low, high in levels],
            "score_range": {"low": 0, "high": 100},
        }
        for text in ("Buy milk", "Buy milk today", "Fix the tap asap", "Learn the guitar someday"):
            task(text, **config).fits(ParseTaskConfig.model_validate(config))
        assert task("Fix the tap asap", **config).priority.level == levels[-1][0]


def test_steps_that_are_listed_become_subtasks() -> None:
    found = task("Plan the party: invite friends, buy food, book the band")
    assert found.title == "Plan the party"
    assert found.subtasks == ["Invite friends", "Buy food", "Book the band"]


def test_the_last_step_may_follow_an_and_and_name_the_day() -> None:
    found = task("Move out: pack the boxes, rent a van and return the keys by Friday")
    assert found.subtasks == ["Pack the boxes", "Rent a van", "Return the keys"]
    assert found.due_date == date(2024, 1, 19)


@pytest.mark.parametrize(
    "text",
    [
        "Plan the party",
        "Plan the party: invite friends, buy food",
        "Invite Anna, Ben and Carl",
        "Meet Anna at 10:30, 11:30, 12:30",
        "Pack: a, b, c, d, e, f, g, h",
        "Call Ben: he wants the car",
    ],
)
def test_subtasks_are_never_invented(text: str) -> None:
    assert task(text).subtasks is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Do stuff", "do"), ("Fix it", "fix"), ("Plan something soon", "plan"), ("Fix it tomorrow", "tomorrow"),
        ("please handle this", "handle"), ("work on it", "work on"), ("Call", "call"), ("do something about it", "do"),
        ("make it better", "make"), ("finish everything by Friday", "by friday"), ("I need to do things", "do"),
    ],
)  # fmt: skip
def test_a_vague_text_gets_suggestions_in_its_own_words(text: str, word: str) -> None:
    vague = answer(text).vague
    assert vague is not None
    for suggestion in vague.suggestions:
        assert word in suggestion.casefold()
        task(suggestion)  # a suggestion is not vague itself


@pytest.mark.parametrize("text", ["???", "123", "it", "stuff", "...", "tomorrow"])
def test_a_text_that_says_nothing_gets_suggestions_all_the_same(text: str) -> None:
    vague = answer(text).vague
    assert vague is not None
    for suggestion in vague.suggestions:
        task(suggestion)


def test_everyday_sentences_are_not_vague() -> None:
    assert [text for text in everyday.TUNED if answer(text).vague] == []


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=255).filter(
        str.strip
    )
)
def test_any_text_gives_a_task_that_fits_or_is_vague(text: str) -> None:
    found = answer(text)
    if found.task is not None:
        found.task.fits(ParseTaskConfig())
