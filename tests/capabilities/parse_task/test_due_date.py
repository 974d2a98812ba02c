"""When a task is due, by the examples that must hold and on a corpus beside a library."""

from __future__ import annotations

from datetime import date

import pytest

from benchmarks.corpora.dates import measure_dates, ours
from inturn.capabilities.parse_task.due_date import due_date_in
from tests.capabilities.date_sentences import HELD_BACK, TUNED, Sentence

MONDAY = date(2024, 1, 15)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Buy milk tomorrow", date(2024, 1, 16)),
        ("Submit the report next Friday", date(2024, 1, 19)),
        ("Visit the dentist next month", date(2024, 2, 15)),
        ("Pay the rent at the end of the month", date(2024, 1, 31)),
        ("Team call every Monday at 9am", None),
        ("Clean the oven soon", None),
    ],
)
def test_the_examples_hold(text: str, day: date | None) -> None:
    assert due_date_in(text, MONDAY).day == day


@pytest.mark.parametrize("sentence", TUNED, ids=lambda sentence: sentence.text)
def test_every_sentence_of_the_tuned_part_gets_its_day(sentence: Sentence) -> None:
    assert ours(sentence) == sentence.due


def test_the_part_held_back_is_read_as_measured_and_better_than_by_a_library() -> None:
    held_back = measure_dates()["held_back"]
    assert held_back["inturn"]["right"] >= 99
    assert held_back["inturn"]["wrong"] <= 1
    for library in ("dateparser", "dateparser_once_only"):
        assert held_back["inturn"]["right"] > held_back[library]["right"]
        assert held_back["inturn"]["wrong"] < held_back[library]["wrong"]


def test_the_corpus_is_large_and_a_third_is_held_back() -> None:
    assert len(TUNED) + len(HELD_BACK) >= 250
    assert len(HELD_BACK) * 3 >= len(TUNED) + len(HELD_BACK) - 2
    assert not {each.text for each in TUNED} & {each.text for each in HELD_BACK if each.time_zone == "UTC"}


def test_the_words_that_name_the_day_are_found() -> None:
    due = due_date_in("Call Anna on Friday at 3pm", MONDAY)
    assert "Call Anna on Friday at 3pm"[due.start : due.end] == "Friday"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Pay the rent by 12/31/2025", date(2025, 12, 31)),
        ("File the form on 1/25/26", date(2026, 1, 25)),
        ("Hand it in, due 25/1/2026", date(2026, 1, 25)),
        ("Hand in the form by 1/25.", date(2024, 1, 25)),
    ],
)
def test_a_year_counts_whatever_stands_before_the_day(text: str, day: date) -> None:
    due = due_date_in(text, MONDAY)
    assert due.day == day
    assert text[due.end :] in ("", ".")


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Pay the rent by Friday 26 January", date(2024, 1, 26)),
        ("Meet Ann on Friday, Jan 26", date(2024, 1, 26)),
        ("Meet Ann on Friday (2024-01-26) at noon", date(2024, 1, 26)),
        ("Meet Ann on Friday the 26th", date(2024, 1, 26)),
        ("Meet Ann by Friday, 26th", date(2024, 1, 26)),
        ("Meet Ann on Friday the 26th of April", date(2024, 4, 26)),
        ("Meet Ann on Thursday the 26th", None),
        ("Meet Ann on Thursday, January 26", None),
        ("Pay by Friday 26 January 2025", None),
        ("Bring 3 cakes on Friday", date(2024, 1, 19)),
    ],
)
def test_a_weekday_beside_a_day_says_the_same_day_or_there_is_none(text: str, day: date | None) -> None:
    assert due_date_in(text, MONDAY).day == day


def test_what_recurs_is_known_as_such() -> None:
    assert due_date_in("Yoga every Monday", MONDAY).is_recurring
    assert not due_date_in("Yoga on Monday", MONDAY).is_recurring


@pytest.mark.parametrize("weekday", range(7))
@pytest.mark.parametrize("text", ["on Friday", "this weekend", "by the end of the week", "next week", "on the 31st"])
def test_a_day_is_never_in_the_past(text: str, weekday: int) -> None:
    today = date(2024, 2, 26 + weekday) if weekday < 4 else date(2024, 3, weekday - 3)
    day = due_date_in(f"Call Anna {text}", today).day
    assert day is not None
    assert day >= today


@pytest.mark.parametrize(
    ("text", "today", "day"),
    [
        ("Pay on the 31st", date(2024, 2, 1), date(2024, 3, 31)),
        ("Pay on the 30th", date(2025, 1, 31), date(2025, 3, 30)),
        ("Pay by the end of the month", date(2024, 12, 5), date(2024, 12, 31)),
        ("Pay by the end of next month", date(2024, 12, 5), date(2025, 1, 31)),
        ("Pay by the end of the quarter", date(2024, 11, 5), date(2024, 12, 31)),
        ("Pay at the beginning of next year", date(2024, 11, 5), date(2025, 1, 1)),
        ("Pay by the end of February", date(2024, 3, 5), date(2025, 2, 28)),
        ("Pay on the first of January", date(2024, 1, 1), date(2024, 1, 1)),
        ("Pay on the first of January", date(2024, 1, 2), date(2025, 1, 1)),
        ("Pay by 1/14", date(2024, 1, 15), date(2025, 1, 14)),
        ("Pay by 2/30", date(2024, 1, 15), None),
        ("Pay next weekend", date(2024, 1, 15), None),
        ("Pay in 9999 years", date(2024, 1, 15), None),
    ],
)
def test_edges_of_months_and_years(text: str, today: date, day: date | None) -> None:
    assert due_date_in(text, today).day == day
