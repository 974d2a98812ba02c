"""Where somebody is asked to confirm or to agree, only a message that is nothing but a yes is a yes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.offline.talk import EVERYTHING, Talk

UNSENT = "Nothing was sent"


def at_the_end(**other: Any) -> Talk:
    return Talk(collected={**EVERYTHING, "product": "API", **other}, memory={"asked": "(confirm)"})


@pytest.mark.parametrize(
    "said",
    [
        "yes", "Yes.", "YES!", "yes please", "yep, looks good", "that's all correct, thanks", "ok send it", "👍",
        "👍🏽", "✅ thanks", "yes, thank you", "looks good to me", "go ahead and send it", "everything is correct",
        "it's all right", "the summary is correct, please send it", "yes it is", "yes, that is right", "all good",
        "sure, why not?", "I confirm", "yes, all good", "no problem", "submit", "perfect", "yes 🙂", "I agree",
    ],
)  # fmt: skip
async def test_a_yes_completes(said: str) -> None:
    talk = at_the_end()
    assert await talk.say(said) == talk.definition.done
    assert talk.value["nextAction"] == "complete"


@pytest.mark.parametrize(
    "said",
    [
        "no", "nope, not yet", "no thanks", "👎", "not really", "I don't think so", "it is not right",
        "that's not correct", "it is all wrong", "not yes", "please don't send it", "correct it please",
        "change it",
    ],
)  # fmt: skip
async def test_a_no_asks_what_to_change(said: str) -> None:
    talk = at_the_end()
    assert await talk.say(said) == "What should I change?"
    assert talk.value["data"] == {}


@pytest.mark.parametrize(
    "said",
    [
        "sure, cancel the whole thing", "go ahead and cancel", "ok stop", "submit nothing yet",
        "okay, hold on a second", "done with this, forget it", "yes I don't agree", "yeah no", "👍 no wait",
        "I am unsure", "never mind", "yes / no", "fine, whatever, delete my data",
        "right now I want to stop and delete everything", "I am not finished", "I agree it is wrong",
        "no problem with the API, the website is broken", "I withdraw my consent",
    ],
)  # fmt: skip
async def test_what_smells_of_a_no_hears_that_nothing_was_sent(said: str) -> None:
    talk = at_the_end()
    assert (await talk.say(said)).startswith(UNSENT)
    assert talk.value["nextAction"] in ("ask", "confirm")
    assert talk.value["data"] == {}


@pytest.mark.parametrize(
    "said",
    [
        "it is 7", "i am Bob actually", "perfect nonsense", "right after lunch I will check",
        "true story: I hate this", "great, now what", "👍👎", "yes 🛑", "yes and", "yes but", "I know",
        "there is one", "purple",
    ],
)  # fmt: skip
async def test_what_only_begins_like_a_yes_is_asked_back(said: str) -> None:
    talk = at_the_end()
    assert "Please say yes or no." in await talk.say(said)
    assert talk.value["nextAction"] == "confirm"
    assert talk.value["data"] == {}


@pytest.mark.parametrize(
    ("said", "changed"),
    [
        ("yes, but the product is Website", {"product": "Website"}),
        ("it is 7 people actually", {"affected_users": 7}),
        ("Yes, but it is 6 people", {"affected_users": 6}),
        ("no wait, it's 5 people", {"affected_users": 5}),
        ("since 2026-11-01 actually", {"since": "2026-11-01"}),
        ("my e-mail is bob@x.org", {"email": "bob@x.org"}),
        ("make it Website please", {"product": "Website"}),
        ("I don't consent to this", {"consent": False}),
        ("no consent", {"consent": False}),
    ],
)
async def test_a_correction_is_taken_and_shown_once_more(said: str, changed: dict[str, Any]) -> None:
    talk = at_the_end()
    assert (await talk.say(said)).startswith("I changed ")
    assert talk.value["data"] == changed
    assert talk.value["nextAction"] == "confirm"


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("yes, I want to add that it also affects the website", "product"),
        ("yes, and the website too", "product"),
        ("great, but not the API", "product"),
        ("no problem with the API, the website is broken", "product"),
        ("I do have a different e-mail now", "email"),
        ("right, the email is wrong", "email"),
        ("yes, except the e-mail", "email"),
        ("I withdraw my consent", "consent"),
    ],
)
async def test_a_field_that_is_only_doubted_is_asked_for_again_and_keeps_its_value(said: str, asked: str) -> None:
    talk = at_the_end()
    assert "(So far: " in await talk.say(said)
    assert talk.memory["asked"] == asked
    assert talk.value["data"] == {}


async def test_i_agree_completes_nothing_where_the_agreement_says_no() -> None:
    talk = at_the_end(consent=False)
    assert "Do you agree that we store this request" in await talk.say("I agree")
    assert talk.value["nextAction"] == "ask"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("yes", True), ("sure", True), ("yes, I agree", True), ("I consent to that", True), ("I don't mind", True),
        ("no problem", True), ("of course", True), ("I give my consent", True),
        ("no", False), ("I do not agree", False), ("of course not", False), ("I don't consent", False),
        ("I do mind", None), ("I am a lawyer", None), ("sure but only 30 days", None), ("yes, only for 30 days", None),
        ("if I must", None), ("I'd rather not, but ok", None), ("yes, restarting helps", None), ("yes?", None),
        ("yes, unless you share it", None), ("sure, but not my name", None),
        ("I have", None), ("there is one", None), ("you may not", None), ("👍 no wait", None),
    ],
)  # fmt: skip
async def test_consent_is_a_whole_answer(said: str, found: bool | None) -> None:
    talk = Talk(
        collected={name: value for name, value in EVERYTHING.items() if name != "consent"}, memory={"asked": "consent"}
    )
    await talk.say(said)
    assert talk.value["data"] == ({} if found is None else {"consent": found})
