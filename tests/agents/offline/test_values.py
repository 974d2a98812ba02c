"""What is read as the value of one field, and what is refused: a wrong value is worse than a question."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.agents.offline.values import value_in
from inturn.workflows.definition.model import FieldDefinition
from tests.agents.offline.talk import TODAY


def test_a_number_in_a_date_is_none_beside_another_number() -> None:
    assert value_in(FieldDefinition(name="n", type="integer"), "12 since 2026-11-01", TODAY) == 12


def test_a_fraction_is_no_whole_number() -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        value_in(FieldDefinition(name="n", type="integer"), "2.5", TODAY)


def test_a_text_with_a_pattern_is_found_among_words() -> None:
    field = FieldDefinition(name="order", pattern=r"[A-Z]{2}-\d{4}")
    assert value_in(field, "it is AB-1234, I think", TODAY) == "AB-1234"
    with pytest.raises(ValueError, match="must match"):
        value_in(field, "I do not have it", TODAY)


@pytest.mark.parametrize(
    ("field", "said", "found"),
    [
        (FieldDefinition(name="day", type="date", label="Delivery"), "tomorrow", "2026-11-17"),
        (FieldDefinition(name="length", type="integer", prompt="For how many days?"), "for 3 days", 3),
        (FieldDefinition(name="code", type="integer", label="Error code"), "error 500", 500),
        (FieldDefinition(name="discount", type="number"), "10%", 10),
        (FieldDefinition(name="temperature", type="number"), "-3", -3),
        (FieldDefinition(name="company_name"), "3M", "3M"),
        (FieldDefinition(name="city"), "it's Köln, please", "Köln"),
        (FieldDefinition(name="city"), "thanks", "thanks"),
        (FieldDefinition(name="phone", pattern="[0-9 ]{6,20}"), "it's 555 123 4567, thanks", "555 123 4567"),
        (FieldDefinition(name="day", type="date", label="Day of the booking"), "saturday 8pm", "2026-11-21"),
        (FieldDefinition(name="day", type="date", prompt="When should we deliver?"), "May 5", "2027-05-05"),
        (FieldDefinition(name="day", type="date"), "a week from today", "2026-11-23"),
        (FieldDefinition(name="day", type="date"), "two weeks from friday", "2026-12-04"),
        (FieldDefinition(name="born", type="date", prompt="When were you born?"), "03.05.90", "1990-05-03"),
        (FieldDefinition(name="weight", type="number", label="Weight in kg"), "6kg", 6),
        (FieldDefinition(name="weight", type="number", label="Weight in kg"), "5,5 kilos", 5.5),
        (FieldDefinition(name="weight", type="number"), "500 grams", 500),
        (FieldDefinition(name="amount", type="number"), "ten grand", 10000),
        (FieldDefinition(name="amount", type="number"), "two thousand five hundred", 2500),
        (
            FieldDefinition(name="job", type="choice", choices=("Employed", "Self-employed")),
            "self employed",
            "Self-employed",
        ),
    ],
)
def test_a_field_that_is_about_it_takes_it(field: FieldDefinition, said: str, found: Any) -> None:
    assert value_in(field, said, TODAY) == found


@pytest.mark.parametrize(
    ("field", "said", "why"),
    [
        (FieldDefinition(name="weight", type="number", label="Weight in kg"), "2 pounds", "how much is it in kg"),
        (FieldDefinition(name="weight", type="number", label="Weight in kg"), "500g", "how much is it in kg"),
        (FieldDefinition(name="price", type="number", prompt="How much, in euros?"), "$500", "how much is it in euro"),
        (FieldDefinition(name="amount", type="number"), "€ 20.000", "could be 20 or 20000"),
        (FieldDefinition(name="amount", type="number"), "one and a half", "as one number"),
        (FieldDefinition(name="day", type="date", label="Delivery"), "monday", "could be 2026-11-16 or 2026-11-23"),
        (FieldDefinition(name="day", type="date", label="Day"), "5/3/90", "could be 1990-05-03 or 1990-03-05"),
        (FieldDefinition(name="day", type="date", prompt="When was it delivered?"), "friday", "could be"),
    ],
)
def test_what_it_could_be_besides_is_told(field: FieldDefinition, said: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        value_in(field, said, TODAY)


@pytest.mark.parametrize("said", ["10.0.0.12", "1.2.34.5", "five-star", "10m", "call 555-12-34-56"])
def test_what_only_looks_like_a_number_or_a_date_is_none(said: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        value_in(FieldDefinition(name="day", type="date"), said, TODAY)
    with pytest.raises(ValueError, match=r"must be|could be"):
        value_in(FieldDefinition(name="n", type="integer"), said, TODAY)
