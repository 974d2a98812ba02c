"""What people write for one field of each type, and what it is read as."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from inturn.agents.offline.choices import Ambiguous, choose
from inturn.agents.offline.dates import dates_in
from inturn.agents.reading.emails import emails_in
from inturn.agents.reading.numbers import numbers_in
from inturn.agents.reading.polarity import yes_or_no
from inturn.agents.reading.values import value_in
from inturn.workflows.definition.model import FieldDefinition
from tests.agents.offline.talk import TODAY

CHOICES = ("Mobile app", "Website", "Desktop app", "API")


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
        ("31.02.2026", "is no date of the calendar"),
        ("in 9999 years", "is no date of the calendar"),
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
        ("12", [12]),
        ("about 1,200 people", [1200]),
        ("1'000'000", [1000000]),
        ("1.234.567", [1234567]),
        ("1 000", [1000]),
        ("12.5", [12.5]),
        ("1,5", [1.5]),
        ("1.234", [1.234]),
        ("-5", [-5]),
        ("5k", [5000]),
        ("2 million", [2000000]),
        ("99%", [99]),
        ("twelve of us", [12]),
        ("half a dozen", [6]),
        ("just me", [1]),
        ("5-10", [5, 10]),
        ("v2.3, at 12:30, from 1.2.3.4, abc12", []),
    ],
)
def test_numbers_are_found(said: str, meant: list[Any]) -> None:
    assert [each.value for each in numbers_in(said)] == meant


def test_a_number_in_a_date_is_none_beside_another_number() -> None:
    assert value_in(FieldDefinition(name="n", type="integer"), "12 since 2026-11-01", TODAY) == 12


def test_a_fraction_is_no_whole_number() -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        value_in(FieldDefinition(name="n", type="integer"), "2.5", TODAY)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("yes", True), ("Yep!", True), ("sure, why not", True), ("of course", True), ("go ahead", True),
        ("well, yes", True), ("no problem", True), ("that would be fine", True), ("there is one", True), ("👍", True),
        ("no", False), ("nope", False), ("not really", False), ("No thanks.", False), ("I don't agree", False),
        ("we have not found one", False), ("not ok", False), ("certainly not", False), ("👎", False),
        ("I'm not sure", None), ("yes and no", None), ("maybe", None), ("banana", None), ("", None),
    ],
)  # fmt: skip
def test_yes_and_no_are_understood_in_many_wordings(said: str, meant: bool | None) -> None:
    assert yes_or_no(said) is meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("website", "Website"),
        ("2", "Website"),
        ("option 4", "API"),
        ("the third one", "Desktop app"),
        ("last", "API"),
        ("mobile", "Mobile app"),
        ("I think it's the desktop app", "Desktop app"),
        ("the websiet", "Website"),
        ("moble ap", "Mobile app"),
        ("not the mobile app, the website", "Website"),
        ("9", None),
        ("banana", None),
        ("not the website", None),
    ],
)
def test_a_choice_is_known_by_label_number_beginning_or_nearly_so(said: str, meant: str | None) -> None:
    assert choose(CHOICES, said) == meant


def test_a_choice_that_could_be_two_is_asked_about() -> None:
    with pytest.raises(Ambiguous, match=r"could be Mobile app or Desktop app: which one\?"):
        choose(CHOICES, "app")


def test_e_mail_addresses_are_found_among_words() -> None:
    text = "write to <ada@example.com>, or mailto:bob.o'neil+x@mail.example.co.uk. Not foo@bar."
    assert [each.text for each in emails_in(text)] == ["ada@example.com", "bob.o'neil+x@mail.example.co.uk"]


def test_a_text_with_a_pattern_is_found_among_words() -> None:
    field = FieldDefinition(name="order", pattern=r"[A-Z]{2}-\d{4}")
    assert value_in(field, "it is AB-1234, I think", TODAY) == "AB-1234"
    with pytest.raises(ValueError, match="must match"):
        value_in(field, "I do not have it", TODAY)
