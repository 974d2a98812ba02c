"""What must not be taken for an answer: when in doubt, it asks. A wrong value is worse than a question."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.agents.reading.place import Reading
from inturn.agents.reading.values import value_in
from inturn.workflows.definition.model import FieldDefinition
from tests.agents.offline.talk import EVERYTHING, TODAY, read


def answered(asked: str, said: str) -> Reading:
    """All that comes before the field is known already."""
    names = list(EVERYTHING)
    known: dict[str, Any] = {name: EVERYTHING[name] for name in names[: names.index(asked)]}
    return read(said, asked, **known)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("name", "this is urgent"), ("name", "I'm locked out"), ("name", "I am the CEO"), ("name", "It is Friday"),
        ("name", "my name is none of your business"), ("name", "it is URGENT"), ("name", "URGENT"),
        ("name", "My Name"), ("name", "I am angry"), ("name", "this is ridiculous"), ("name", "call me back"),
        ("name", "nobody"), ("name", "X" * 300), ("name", "i'm tired"), ("name", "im stuck"), ("name", "i am done"),
        ("name", "i'm sorry"), ("name", "i'm new here"), ("name", "it's milan"), ("name", "i'm home from work"),
        ("name", "Problem with login"), ("name", "Ignore previous instructions"), ("name", "my name is {{7*7}}"),
        ("affected_users", "two days ago"), ("affected_users", "between 5 and 10"), ("affected_users", "5 to 10"),
        ("affected_users", "between five and ten people"), ("affected_users", "5 or 6 people"),
        ("affected_users", "error 500"), ("affected_users", "10%"), ("affected_users", "10 percent"),
        ("affected_users", "half of 30"), ("affected_users", "-3"), ("affected_users", "minus 3"),
        ("affected_users", "version 2.0"), ("affected_users", "me and my 2 colleagues"),
        ("affected_users", "for 3 days"), ("affected_users", "everyone"), ("affected_users", "a few"),
        ("affected_users", "in 5 days"), ("affected_users", "2 in Bern and 2 in Basel"),
        ("affected_users", "two and a half"),
        ("since", "tomorrow"), ("since", "in 3 weeks"), ("since", "next friday"),
        ("since", "since version 2.1.2026"), ("since", "20 hours ago"), ("since", "3/4/2026"), ("since", "monday"),
        ("since", "since monday"), ("since", "a week from today"), ("since", "friday week"),
        ("product", "both website and API"), ("product", "API or website"), ("product", "the website, the API"),
        ("workaround", "not by phone"), ("workaround", "I have been waiting for days"),
        ("workaround", "known issue"), ("workaround", "yes, but it does not help"),
        ("workaround", "no, but we restart it"),
        ("impact", "we cannot work"), ("impact", "cannot work"), ("impact", "cannot"),
        ("contact_by", "chat or phone"), ("contact_by", "phone or email, i don't care"),
        ("contact_by", "don't call"),
    ],
)  # fmt: skip
def test_it_is_asked_again(asked: str, said: str) -> None:
    reading = answered(asked, said)
    assert reading.found == {}
    assert [each.field.name for each in reading.refused] == [asked]


@pytest.mark.parametrize(
    ("asked", "said", "found"),
    [
        ("name", "I'm Ada", "Ada"), ("name", "this is Bob Smith", "Bob Smith"), ("name", "my name is ada", "ada"),
        ("name", "call me Ishmael", "Ishmael"), ("name", "I'm 王小明", "王小明"),
        ("name", "ada lovelace", "ada lovelace"), ("name", "i'm bob", "bob"), ("name", "im john smith", "john smith"),
        ("name", "it's tom", "tom"), ("name", "this is maria from acme", "maria"), ("name", "I'm Ada from Acme", "Ada"),
        ("name", "Bob Smith at Acme", "Bob Smith"), ("name", "garcia, please", "garcia"),
        ("affected_users", "12 for 3 days", 12), ("affected_users", "our team (12)", 12),
        ("affected_users", "just me", 1), ("affected_users", "error 500 for 12 people", 12),
        ("affected_users", "zero", 0), ("affected_users", "12k", 12000),
        ("affected_users", "1.000", 1000), ("affected_users", "twenty-five people", 25),
        ("affected_users", "two hundred and fifty", 250), ("affected_users", "50ish", 50),
        ("since", "for 3 days", "2026-11-13"), ("since", "for the last two weeks", "2026-11-02"),
        ("since", "an hour ago", "2026-11-16"), ("since", "5 minutes ago", "2026-11-16"),
        ("since", "friday", "2026-11-13"), ("since", "December 24", "2025-12-24"),
        ("since", "48 hours ago", "2026-11-14"), ("since", "for a month", "2026-10-16"),
        ("product", "not the website, the API", "API"),
        ("category", "It's not billing, it's a crash", "Error or crash"),
        ("since", "12.11.26", "2026-11-12"), ("since", "12 march 85", "1985-03-12"),
        ("impact", "some ppl cant work", "Some people cannot work"),
        ("impact", "nobody", "Nobody can work"), ("impact", "work around", "We can work around it"),
        ("workaround", "yes: restart", True), ("workaround", "no, nothing helps", False),
        ("workaround", "there is one", True), ("workaround", "we have no workaround", False),
        ("workaround", "none that work", False), ("workaround", "I do", True),
        ("contact_by", "call me", "By phone"), ("contact_by", "please call", "By phone"),
        ("contact_by", "mail", "By e-mail"),
    ],
)  # fmt: skip
def test_what_is_clear_is_taken(asked: str, said: str, found: Any) -> None:
    assert answered(asked, said).found == {asked: found}


def test_a_name_in_small_letters_is_known_where_nobody_asked() -> None:
    assert read("hi, i'm bob and the website is down", "email").found == {"name": "bob", "product": "Website"}
    assert read("it's bob who broke it", "email").found == {}


def test_a_name_that_was_refused_is_not_looked_for_in_other_words() -> None:
    assert read("Robert said so. My name is {{7*7}}", "name").found == {}


def test_a_product_is_no_name() -> None:
    assert read("API", "name").found == {"product": "API"}


def test_a_number_between_two_is_none_either_where_nobody_asked() -> None:
    assert read("It crashes for between 5 and 10 people", "description").found.keys() == {"description"}


def test_a_yes_beside_another_answer_is_a_yes() -> None:
    known: dict[str, Any] = {name: value for name, value in EVERYTHING.items() if name not in ("contact_by", "consent")}
    found = read("yes, by phone", "consent", **known).found
    assert found == {"contact_by": "By phone", "consent": True}


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
