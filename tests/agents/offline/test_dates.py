"""Dates as people write them: read, or refused with what they could mean."""

from __future__ import annotations

from datetime import date

import pytest

from inturn.agents.offline.dates import dates_in
from inturn.agents.offline.values import value_in
from inturn.workflows.definition.model import FieldDefinition
from tests.agents.offline.talk import TODAY


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-11-30", "2026-11-30"),
        ("2026/11/3", "2026-11-03"),
        ("30.11.2026", "2026-11-30"),
        ("3. 11. 2026", "2026-11-03"),
        ("11/30/2026", "2026-11-30"),
        ("30/11/2026", "2026-11-30"),
        ("4/4/2026", "2026-04-04"),
        ("today", "2026-11-16"),
        ("this morning", "2026-11-16"),
        ("since yesterday, I think", "2026-11-15"),
        ("the day before yesterday", "2026-11-14"),
        ("tomorrow", "2026-11-17"),
        ("last monday", "2026-11-09"),
        ("since Friday", "2026-11-13"),
        ("next friday", "2026-11-20"),
        ("in 3 days", "2026-11-19"),
        ("3 days ago", "2026-11-13"),
        ("two weeks ago", "2026-11-02"),
        ("a month ago", "2026-10-16"),
        ("in a year", "2027-11-16"),
        ("November 30", "2026-11-30"),
        ("Nov 30th, 2027", "2027-11-30"),
        ("the 3rd of November", "2026-11-03"),
        ("3 January", "2027-01-03"),
        ("since 3 January", "2026-01-03"),
    ],
)
def test_a_date_is_read(said: str, meant: str) -> None:
    assert value_in(FieldDefinition(name="since", type="date"), said, TODAY) == meant


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("3/4/2026", "could be 2026-03-04 or 2026-04-03: which one?"),
        ("monday", "could be 2026-11-09 or 2026-11-23: which one?"),
        ("May 5", "could be 2026-05-05 or 2027-05-05: which one?"),
        ("2026-11-01 or 2026-11-02", "could be 2026-11-01 or 2026-11-02: which one?"),
        ("31.02.2026", "is not a calendar date"),
        ("in 9999 years", "is not a calendar date"),
        ("last week", "must be a date such as 2026-11-30"),
        ("version 2.3.1", "must be a date such as 2026-11-30"),
    ],
)
def test_what_is_no_single_date_is_refused_with_the_reason(said: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("?", r"\?")):
        value_in(FieldDefinition(name="since", type="date"), said, TODAY)


def test_a_month_ago_ends_with_the_month() -> None:
    found = dates_in("a month ago", date(2026, 3, 31))
    assert [each.value for each in found] == [date(2026, 2, 28)]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("next week", date(2026, 11, 23)),
        ("next month", date(2026, 12, 16)),
        ("end of the month", date(2026, 11, 30)),
        ("end of the week", date(2026, 11, 20)),
        ("this weekend", date(2026, 11, 21)),
        ("on Monday", date(2026, 11, 23)),
        ("by the 20th", date(2026, 11, 20)),
        ("Fri", date(2026, 11, 20)),
    ],
)
def test_a_due_day_has_words_that_a_field_of_a_workflow_asks_about_instead(said: str, meant: date) -> None:
    assert [each.value for each in dates_in(said, TODAY, is_due=True)] == [meant]
    assert meant not in [each.value for each in dates_in(said, TODAY, is_coming=True)]
