"""What a user says when a field was asked for, and which fields are found in it."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.agents.offline.extraction import read_message
from inturn.agents.reading.place import Place
from inturn.workflows.definition.model import FieldDefinition, StepDefinition, WorkflowDefinition
from tests.agents.offline.talk import TODAY, read


@pytest.mark.parametrize(
    ("asked", "said", "found"),
    [
        ("name", "Ada", {"name": "Ada"}),
        ("name", "my name is Ada Lovelace", {"name": "Ada Lovelace"}),
        ("name", "hello, this is Bob", {"name": "Bob"}),
        ("name", "bob here", {"name": "bob"}),
        ("name", "Dr. Ada King", {"name": "Dr. Ada King"}),
        ("name", "Jean-Luc van der Berg", {"name": "Jean-Luc van der Berg"}),
        ("name", "李小龙", {"name": "李小龙"}),
        ("name", "Ada Lovelace, ada@x.org", {"name": "Ada Lovelace", "email": "ada@x.org"}),
        ("name", "I'm Ada and my email is ada@x.org", {"name": "Ada", "email": "ada@x.org"}),
        ("name", "name: Ada; email: ada@x.org; product: API", {"name": "Ada", "email": "ada@x.org", "product": "API"}),
        ("name", "It's Ada, and I use the API", {"name": "Ada", "product": "API"}),
        ("name", "ada@example.com", {"email": "ada@example.com"}),
        ("name", "yes", {}),
        ("name", "no", {}),
        ("name", "hello", {}),
        ("name", "I'm having trouble logging in", {}),
        ("email", "sure, it's ada@x.org.", {"email": "ada@x.org"}),
        ("email", "you can reach me at ada@x.org", {"email": "ada@x.org"}),
        ("email", "ada@x.org and it's about the websiet", {"email": "ada@x.org", "product": "Website"}),
        ("product", "I use your api", {"product": "API"}),
        ("category", "I can't login", {"category": "Cannot log in"}),
        ("category", "it crashed", {"category": "Error or crash"}),
        ("description", "The app hangs. Error 500.", {"description": "The app hangs. Error 500."}),
        ("description", "It hangs. My email is a@b.co", {"description": "It hangs.", "email": "a@b.co"}),
        ("description", "yes", {}),
        ("impact", "nuisance", {"impact": "It is only a nuisance"}),
        ("since", "12 people since 2026-11-01", {"since": "2026-11-01", "affected_users": 12}),
        ("affected_users", "12 people since yesterday", {"since": "2026-11-15", "affected_users": 12}),
        ("affected_users", "about 1,200", {"affected_users": 1200}),
        ("affected_users", "yes", {}),
        ("workaround", "not really", {"workaround": False}),
        ("workaround", "yes, restarting helps", {"workaround": True}),
        ("workaround", "we restart it", {}),
        ("contact_by", "email", {"contact_by": "By e-mail"}),
        ("contact_by", "by e-mail, and yes I consent", {"contact_by": "By e-mail", "consent": True}),
        ("consent", "go ahead", {"consent": True}),
        ("consent", "I do not agree", {"consent": False}),
    ],
)
def test_an_answer_is_read(asked: str, said: str, found: dict[str, Any]) -> None:
    assert read(said, asked).found == found


def test_a_number_that_is_about_something_else_is_not_taken() -> None:
    assert "affected_users" not in read("Error 500 on page 12", "description").found


def test_a_number_beside_a_word_of_its_field_is_taken() -> None:
    found = read("We get error 500 for 12 people", "description").found
    assert found == {"description": "We get error 500 for 12 people", "affected_users": 12}


def test_an_address_in_a_description_stays_there_once_the_users_own_is_known() -> None:
    said = "mail from boss@x.org never arrives"
    assert read(said, "description", email="me@x.org").found == {"description": said}


def test_my_email_is_broken_is_no_address() -> None:
    reading = read("My email is broken", "description", email="me@x.org")
    assert reading.found == {"description": "My email is broken"}
    assert reading.refused == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("actually my email is b@c.de", {"email": "b@c.de"}),
        ("change the product to website", {"product": "Website"}),
        ("change my email from a@b.de to c@d.de", {"email": "c@d.de"}),
        ("could you change the product to Website?", {"product": "Website"}),
        ("set people affected to 30", {"affected_users": 30}),
        ("the name should be Ada King", {"name": "Ada King"}),
        ("consent: no", {"consent": False}),
        ("change since when to yesterday", {"since": "2026-11-15"}),
        ("my name is correct", {}),
    ],
)
def test_a_correction_is_read_at_any_time(said: str, found: dict[str, Any]) -> None:
    known: dict[str, Any] = {
        "name": "Ada",
        "email": "a@b.de",
        "product": "API",
        "affected_users": 3,
        "consent": True,
        "since": "x",
    }
    assert read(said, "contact_by", **known).found == found
    assert read(said, **known).found == found


def test_sorry_i_meant_is_about_the_last_field() -> None:
    assert read("sorry, I meant Bob", "email", last="name", name="Bpb").found == {"name": "Bob"}
    assert read("oops, desktop", "category", last="product", product="API").found == {"product": "Desktop app"}


@pytest.mark.parametrize(
    ("asked", "said", "why"),
    [
        ("email", "ada at x", "must be an e-mail address"),
        ("email", "a@b.co or c@d.co", "could be a@b.co or c@d.co: which one?"),
        ("product", "app", "could be Mobile app or Desktop app: which one?"),
        ("affected_users", "2.5", "must be a whole number"),
        ("affected_users", "5-10", "could be 5 or 10: which one?"),
        ("since", "30.2.2026", "is no date of the calendar"),
        ("consent", "banana", "must be yes or no"),
        ("description", "?!", "must be a sentence or two"),
        ("description", "x" * 5000, "must have 1 to 4000 characters"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(asked: str, said: str, why: str) -> None:
    reading = read(said, asked)
    assert reading.found == {}
    assert [(each.field.name, each.why) for each in reading.refused] == [(asked, why)]


def test_a_bad_correction_is_told() -> None:
    reading = read("change the product to banana", "since", product="API")
    assert [each.field.name for each in reading.refused] == ["product"]


def test_a_long_message_that_says_wrong_changes_nothing() -> None:
    said = "It says my password is wrong. I tried to reset it but the email never arrives."
    assert read(said, "impact", email="a@b.co").found == {}


def test_a_labelled_text_goes_on_to_the_end_of_its_sentence() -> None:
    street = FieldDefinition(name="address", prompt="Where to?")
    step = StepDefinition(id="s", title="S", prompt="S.", fields=(street, FieldDefinition(name="name")))
    place = Place(WorkflowDefinition(id="w", title="W", steps=(step,)), {}, street, None, TODAY)
    reading = read_message("my address is 1 Park Lane, London. My name is Ada", place)
    assert reading.found == {"address": "1 Park Lane, London", "name": "Ada"}


def test_questions_are_set_aside() -> None:
    reading = read("My name is Ada. What do you do with my data?", "name")
    assert reading.found == {"name": "Ada"}
    assert reading.questions == ["What do you do with my data?"]
