"""Whole conversations with the shipped support intake."""

from __future__ import annotations

import pytest

from inturn.agents.activity import signature_of
from inturn.workflows.definition.model import WorkflowDefinition
from tests.agents.offline.talk import EVERYTHING, Talk


async def test_a_whole_intake_one_answer_at_a_time() -> None:
    talk = Talk()
    opening = await talk.say("")
    assert opening.startswith("Hello!")
    assert opening.endswith("What is your name?")
    for said, asked_next in [
        ("I'm Ada Lovelace", "What is your e-mail address?"),
        ("ada@example.com", "Which product is it about?"),
        ("mobile", "What kind of problem is it?"),
        ("it crashed", "What happened? A sentence or two is enough."),
        ("It crashes.", "How much does it hold you up?"),
        ("nobody", "Since when has it been happening?"),
        ("yesterday", "How many people are affected?"),
        ("about twelve", "Do you know of a workaround? (You may skip this.)"),
        ("not really", "How would you like to hear from us?"),
        ("phone", "Do you agree that we store this request until it is closed?"),
    ]:
        assert (await talk.say(said)).endswith(asked_next)
        assert talk.value["nextAction"] == "ask"
        assert talk.value["prompt"] == asked_next
    summary = await talk.say("yep")
    assert talk.value["nextAction"] == "confirm"
    assert "- Workaround known: no" in summary
    assert summary.endswith(talk.definition.confirm)
    assert talk.collected == EVERYTHING
    assert await talk.say("yes") == talk.definition.done
    assert talk.value == {"data": {}, "nextAction": "complete", "prompt": "", "choices": [], "inputType": ""}


async def test_a_whole_intake_in_one_message() -> None:
    talk = Talk()
    await talk.say(
        "Hi, I'm Ada Lovelace, ada@example.com. The Mobile app closes when I open the calendar, it's an error or crash."
        " Nobody can work since yesterday, 12 people are affected, no workaround. Please contact me by phone, and yes, "
        "I consent."
    )
    assert talk.value["nextAction"] == "confirm"
    description = "The Mobile app closes when I open the calendar"
    assert talk.collected == {**EVERYTHING, "description": description}
    await talk.say("looks good")
    assert talk.value["nextAction"] == "complete"


async def test_fields_of_later_steps_are_not_asked_for_again() -> None:
    talk = Talk()
    await talk.say("my name is Ada, my email is ada@example.com, product: API")
    assert talk.text.endswith("What kind of problem is it?")
    assert list(talk.collected) == ["name", "email", "product"]


async def test_a_question_is_answered_and_the_pending_one_asked_again() -> None:
    talk = Talk()
    await talk.say("")
    answer = await talk.say("what do you do with my data?")
    assert "delete it 90 days after" in answer
    assert answer.endswith("What is your name?")
    assert talk.value["data"] == {}
    assert "about three minutes" in await talk.say("How long does it take?")
    assert "A person reads every request" in await talk.say("I want to talk to a human")
    assert talk.definition.about in await talk.say("help")
    unknown = await talk.say("Who won the world cup in 1954?")
    assert unknown.startswith("I do not know the answer to that. You can ask me about: what this is,")


async def test_an_answer_and_a_question_in_one_message() -> None:
    talk = Talk()
    answer = await talk.say("My name is Ada. What are your opening hours?")
    assert talk.collected == {"name": "Ada"}
    assert "9:00 to 17:00" in answer
    assert answer.endswith("What is your e-mail address?")


async def test_a_question_may_be_the_description() -> None:
    talk = Talk(memory={"asked": "description"})
    await talk.say("Why does my invoice have two positions?")
    assert talk.value["data"] == {"description": "Why does my invoice have two positions?"}


async def test_what_is_not_understood_is_said_with_the_choices() -> None:
    talk = Talk(collected={"name": "Ada", "email": "a@b.co"})
    answer = await talk.say("qwertz")
    assert answer.startswith("I did not understand “qwertz”. You can choose from: Mobile app, Website, Desktop app,")
    assert talk.suggested == ["Mobile app", "Website", "Desktop app", "API"]
    assert talk.value["choices"] == ["Mobile app", "Website", "Desktop app", "API"]
    assert talk.value["inputType"] == "choice"


async def test_a_value_that_does_not_fit_is_told_with_the_reason() -> None:
    talk = Talk(memory={"asked": "since"})
    assert "could be 2026-03-04 or 2026-04-03: which one?" in await talk.say("3/4/2026")
    assert "it must be a date such as 2026-11-30" in await talk.say("banana")
    assert talk.collected == {}


async def test_a_statement_is_no_question_about_a_topic() -> None:
    talk = Talk(memory={"asked": "affected_users"})
    assert (await talk.say("everything is correct")).startswith("I cannot use “everything is correct” for People")


async def test_naming_a_field_to_change_asks_for_it() -> None:
    talk = Talk(collected={"name": "Ada", "email": "a@b.co"})
    assert (await talk.say("my email is wrong")) == "What is your e-mail address? (So far: a@b.co)"
    long = "It says my password is wrong. I tried to reset it but the email never arrives."
    assert (await Talk(collected={"name": "Ada", "email": "a@b.co"}).say(long)).startswith("I did not understand")


async def test_back_asks_for_the_last_answer_again_and_it_is_changed() -> None:
    talk = Talk(collected={"name": "Ada", "email": "a@b.co"})
    assert (await talk.say("back")).endswith("What is your e-mail address? (So far: a@b.co)")
    assert (await talk.say("c@d.co")).startswith("I changed E-mail address to c@d.co.")
    assert talk.collected["email"] == "c@d.co"
    assert talk.text.endswith("Which product is it about?")
    assert "This is where it begins." in await Talk().say("back")


async def test_only_an_optional_field_can_be_skipped() -> None:
    required = Talk()
    assert (await required.say("skip")).startswith("I need this one to go on.")
    known = {name: value for name, value in EVERYTHING.items() if name not in ("workaround", "consent")}
    optional = Talk(collected=known)
    assert (await optional.say("")).endswith("Do you know of a workaround? (You may skip this.)")
    assert optional.suggested == ["Yes", "No", "Skip"]
    assert (await optional.say("skip")).endswith("Do you agree that we store this request until it is closed?")
    await optional.say("sure")
    assert optional.value["nextAction"] == "confirm"
    assert "workaround" not in optional.collected


async def test_no_at_the_end_goes_back_to_collecting() -> None:
    talk = Talk(collected=dict(EVERYTHING))
    await talk.say("")
    assert talk.value["nextAction"] == "confirm"
    assert await talk.say("no") == "What should I change?"
    assert talk.value["nextAction"] == "ask"
    assert (await talk.say("the e-mail address")).startswith("What is your e-mail address? (So far: ada@example.com)")
    assert (await talk.say("ada@new.org")).startswith("I changed E-mail address to ada@new.org.")
    assert talk.value["nextAction"] == "confirm"
    await talk.say("yes")
    assert talk.value["nextAction"] == "complete"
    assert talk.collected == {**EVERYTHING, "email": "ada@new.org"}


@pytest.mark.parametrize(
    "said", ["no, change the product to Website", "yes, but the product should be Website", "make it Website please"]
)
async def test_a_correction_at_the_end_is_shown_once_more(said: str) -> None:
    talk = Talk(collected=dict(EVERYTHING), memory={"asked": "(confirm)"})
    await talk.say(said)
    assert talk.collected["product"] == "Website"
    assert talk.value["nextAction"] == "confirm"


async def test_gibberish_at_the_end_completes_nothing() -> None:
    talk = Talk(collected=dict(EVERYTHING), memory={"asked": "(confirm)"})
    assert "Please say yes or no." in await talk.say("purple")
    assert talk.value["nextAction"] == "confirm"


async def test_a_lost_memory_is_made_up_for_by_the_phase() -> None:
    known = {name: value for name, value in EVERYTHING.items() if name != "workaround"}
    talk = Talk(collected=known, phase="confirm")
    await talk.say("yes")
    assert talk.value["nextAction"] == "complete"


async def test_a_greeting_is_no_name_and_is_answered_once() -> None:
    talk = Talk()
    assert (await talk.say("hi")).startswith("Hello! I take down")
    assert (await talk.say("hi")).startswith("Hello again!")
    assert talk.collected == {}


async def test_a_steps_card_comes_when_the_step_is_entered_and_only_then() -> None:
    talk = Talk(collected={"name": "Ada"}, memory={"asked": "email", "entered": ["about_you"]})
    await talk.say("a@b.co")
    assert [card["id"] for card in talk.cards] == ["problem_card"]
    assert len(talk.messages) == 2
    await talk.say("website")
    assert talk.cards == []


async def test_a_submitted_card_fills_its_fields() -> None:
    talk = Talk(collected={"name": "Ada", "email": "a@b.co"})
    await talk.submit("problem_card", product="API", category="Billing", description="Twice.", action="submit")
    assert talk.value["data"] == {"product": "API", "category": "Billing", "description": "Twice."}
    assert talk.text.endswith("How much does it hold you up?")


async def test_a_card_with_a_bad_and_an_empty_value_keeps_the_good_ones() -> None:
    talk = Talk(collected={"name": "Ada", "email": "a@b.co"})
    answer = await talk.submit("problem_card", product="Banana", category="Billing", description="", evil={"a": 1})
    assert talk.value["data"] == {"category": "Billing"}
    assert "I cannot use “Banana” for Product: it must be one of Mobile app" in answer
    assert answer.endswith("Which product is it about?")


async def test_a_card_sends_texts_for_numbers_and_toggles() -> None:
    known = {name: EVERYTHING[name] for name in ("name", "email", "product", "category", "description")}
    talk = Talk(collected=known)
    await talk.submit(
        "x", impact="Nobody can work", since="2026-11-01", affected_users="12", workaround="", consent="true"
    )
    assert talk.value["data"] == {
        "impact": "Nobody can work", "since": "2026-11-01", "affected_users": 12, "consent": True,
    }  # fmt: skip
    assert talk.text.endswith("How would you like to hear from us?"), "what the card left empty is not asked for again"


async def test_every_message_is_signed_and_the_pieces_make_the_text() -> None:
    talk = Talk(collected={"name": "Ada"})
    await talk.say("a@b.co")
    assert [signature_of(each) for each in talk.messages] == ["offline", "offline"]
    pieces = [each.text for each in talk.activities if each.type == "typing"]
    assert len(pieces) > 1
    assert "".join(pieces) == talk.text


async def test_a_workflow_of_almost_nothing_works() -> None:
    bare = WorkflowDefinition.model_validate(
        {
            "id": "bare",
            "title": "Bare",
            "steps": [
                {"id": "hint", "title": "Hint", "prompt": "Mind the gap."},
                {"id": "one", "title": "One", "prompt": "One thing.", "fields": [{"name": "colour"}]},
                {"id": "two", "title": "Two", "prompt": "More.", "fields": [{"name": "notes", "required": False}]},
            ],
        }
    )
    talk = Talk(bare)
    assert await talk.say("") == "Mind the gap. One thing. Colour?"
    assert await talk.say("dark red") == "Thank you. More. Notes? (You may skip this.)"
    assert (await talk.say("no")).endswith("Is all of this right?")
    assert await talk.say("yes") == "Thank you, that is all."
    assert talk.collected == {"colour": "dark red"}


@pytest.mark.parametrize("said", ["idk", "dunno", "whatever", "no clue", "i forgot"])
async def test_who_does_not_know_leaves_it_out_and_no_field_is_filled_with_that(said: str) -> None:
    optional = Talk(memory={"asked": "workaround"})
    assert (await optional.say(said)).startswith("All right, we will leave that out.")
    needed = Talk(memory={"asked": "name"})
    assert (await needed.say(said)).startswith("I need this one to go on.")
    assert needed.collected == {}


TABLE = WorkflowDefinition.model_validate(
    {
        "id": "table",
        "title": "A table",
        "steps": [
            {
                "id": "a",
                "title": "A",
                "prompt": "A table, then.",
                "fields": [
                    {"name": "guest_name", "label": "Your name"},
                    {"name": "day", "type": "date", "prompt": "For which day?"},
                    {"name": "phone", "pattern": "[0-9 ]{6,20}"},
                    {"name": "wishes", "label": "Special wishes", "required": False},
                ],
            }
        ],
    }
)


async def test_the_only_day_ahead_is_the_one_that_the_workflow_needs() -> None:
    talk = Talk(TABLE)
    await talk.say("a table for next friday, name's maria garcia")
    assert talk.collected == {"guest_name": "maria garcia", "day": "2026-11-20"}
    for said in ("we called yesterday, i'm bob", "friday or saturday, i'm bob", "i'm bob"):
        talk = Talk(TABLE)
        await talk.say(said)
        assert talk.collected == {"guest_name": "bob"}


async def test_no_wishes_are_no_text() -> None:
    talk = Talk(TABLE, memory={"asked": "wishes"})
    await talk.say("no special wishes")
    assert talk.collected == {}
    talk = Talk(TABLE, memory={"asked": "wishes"})
    await talk.say("no nuts")
    assert talk.collected == {"wishes": "no nuts"}


async def test_a_pattern_is_not_shown_to_people() -> None:
    talk = Talk(TABLE, memory={"asked": "phone"})
    assert "it is not in the required format." in await talk.say("ask my wife")
