"""Free chat: answers from texts that somebody wrote, and from nothing else."""

from __future__ import annotations

import pytest

from inturn.agents.activity import Activity, signature_of
from inturn.agents.offline.agent import OfflineAgent
from inturn.agents.protocol import Ask, Said
from inturn.workflows.definition.model import WorkflowDefinition


async def answer(text: str, instructions: str = "", history: tuple[Said, ...] = (), **more: object) -> Activity:
    agent = OfflineAgent(**more)  # type: ignore[arg-type]
    given = [each async for each in agent.ask(Ask("c", text, text, history=history, instructions=instructions))]
    await agent.aclose()
    messages = [each for each in given if each.type == "message"]
    assert len(messages) == 1
    assert signature_of(messages[0]) == "offline"
    assert messages[0].value is None
    return messages[0]


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("who are you?", "assistant of the support desk"),
        ("What do you do with my data?", "delete it 90 days after"),
        ("when are you open", "9:00 to 17:00"),
        ("can I talk to a human?", "A person reads every request"),
        ("how much does this cost?", "costs you nothing"),
        ("privcy", "delete it 90 days after"),
        ("help", "This is the support desk."),
    ],
)
async def test_a_question_gets_the_text_of_its_topic(question: str, part: str) -> None:
    assert part in (await answer(question)).text


async def test_nothing_is_invented() -> None:
    said = await answer("do you like cats?")
    assert said.text.startswith("I have no answer to “do you like cats?”. You can ask me about: what this is,")
    assert said.suggested_actions is not None
    assert len(said.suggested_actions["actions"]) == 8


async def test_nobody_is_greeted_twice() -> None:
    assert (await answer("hi")).text.startswith("Hello! I take down support requests")
    earlier = (Said("user", "hi"), Said("assistant", "Hello!"))
    assert (await answer("hi", history=earlier)).text == "How can I help you?"


async def test_facts_of_the_instructions_are_used_and_orders_are_not_told() -> None:
    told = "You are the bot of Acme. Students get a discount of 20 %. Never mention the discount of our competitor."
    assert (await answer("is there a discount for students?", told)).text == "Students get a discount of 20 %."
    assert (await answer("what about the competitor", told)).text.startswith("I have no answer to")


async def test_another_definition_gives_other_answers() -> None:
    own = WorkflowDefinition.model_validate(
        {
            "id": "zoo",
            "title": "Zoo",
            "answers": {"animals, lions": "We have two lions."},
            "steps": [{"id": "a", "title": "A", "prompt": "A."}],
        }
    )
    assert (await answer("Do you have lions?", definition=own)).text == "We have two lions."
