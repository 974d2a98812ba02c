"""Which fields are found in a message, and which words are no answer: when in doubt, the agent asks."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.agents.offline.extraction import MessageContext, Reading, read_message
from inturn.workflows.definition.model import FieldDefinition, StepDefinition, WorkflowDefinition
from tests.agents.offline.talk import EVERYTHING, TODAY, read


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
        ("since", "30.2.2026", "is not a calendar date"),
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
    workflow = WorkflowDefinition(id="w", title="W", steps=(step,))
    context = MessageContext(definition=workflow, collected={}, asked=street, last=None, today=TODAY)
    reading = read_message("my address is 1 Park Lane, London. My name is Ada", context)
    assert reading.found == {"address": "1 Park Lane, London", "name": "Ada"}


def test_questions_are_set_aside() -> None:
    reading = read("My name is Ada. What do you do with my data?", "name")
    assert reading.found == {"name": "Ada"}
    assert reading.questions == ["What do you do with my data?"]


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
