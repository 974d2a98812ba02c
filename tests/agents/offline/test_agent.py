"""Whatever is written gets an answer, soon, and what was found fits its fields."""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inturn.agents.offline.agent import OfflineAgent
from inturn.agents.offline.workflow import walk
from inturn.agents.protocol import Ask, Situation
from inturn.workflows.definition.load import default_definition
from inturn.workflows.definition.model import WorkflowDefinition
from tests.agents.offline.talk import EVERYTHING, TODAY

NAMES = [*default_definition().by_name, "(confirm)", "(change)", "nonsense", ""]
WORDS = [
    "my", "name", "is", "email", "a@b.co", "change", "to", "product", "website", "not", "no", "yes", "and", ",", ".",
    "12", "3/4/2026", "30.11.2026", "monday", "last", "in", "99999 days", "ago", "since", "people", "affected", "skip",
    "back", "help", "actually", "sorry", "i'm", "Ada", ":", "=", "\n", "the", "2", "nobody", "\ud800", "\x00", "👍",
    "'", "-", "?",
]  # fmt: skip
ODD = WorkflowDefinition.model_validate(
    {
        "id": "odd",
        "title": "Odd",
        "answers": {",": "Comma.", "yes": "No."},
        "steps": [
            {"id": "a", "title": "A", "prompt": "A.", "card": {"id": "c"}},
            {
                "id": "b",
                "title": "B",
                "prompt": "B.",
                "fields": [
                    {"name": "is", "type": "choice", "choices": ["Yes", "No", "Other", "2", "?", "the"]},
                    {"name": "to", "type": "number", "required": False, "label": "(.*"},
                    {"name": "code", "pattern": "[A-Z]{2}[0-9]*"},
                    {"name": "other_email", "type": "email"},
                    {"name": "email", "type": "email", "required": False},
                    {"name": "last_name", "label": "?"},
                    {"name": "comment", "required": False},
                ],
                "card": {"id": "d"},
            },
        ],
    }
)
TEXTS = st.one_of(
    st.text(st.characters(), max_size=200),
    st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


async def answered(
    text: str,
    memory: dict[str, Any],
    known: dict[str, Any],
    card: dict[str, Any] | None = None,
    definition: WorkflowDefinition | None = None,
) -> None:
    definition = definition or default_definition()
    ask = Ask("c", text, text, card, situation=Situation(definition, 0, "", known), memory=memory)
    activities = [each async for each in OfflineAgent(today=lambda: TODAY).ask(ask)]
    messages = [each for each in activities if each.type == "message"]
    assert messages[0].text
    messages[0].text.encode()
    value = messages[0].value
    assert value["nextAction"] in ("ask", "confirm", "complete")
    for name, found in value["data"].items():
        assert definition.by_name[name].check(found) == found
    if value["nextAction"] != "ask":
        assert not any(step.missing({**known, **value["data"]}) for step in definition.steps)


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.sampled_from(NAMES), st.sets(st.sampled_from(list(EVERYTHING))))
def test_any_text_gets_an_answer(text: str, asked: str, known: set[str]) -> None:
    collected = {name: EVERYTHING[name] for name in known}
    asyncio.run(answered(text, {"asked": asked, "last": "name"}, collected))


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.sampled_from([*ODD.by_name, "(confirm)", ""]), st.sets(st.sampled_from(list(ODD.by_name))))
def test_any_text_gets_an_answer_in_an_odd_workflow(text: str, asked: str, known: set[str]) -> None:
    good = {"is": "No", "to": 1.5, "code": "AB1", "other_email": "a@b.co", "email": "c@d.co", "last_name": "X"}
    collected = {name: good.get(name, "x") for name in known}
    asyncio.run(answered(text, {"asked": asked, "skipped": ["comment"]}, collected, definition=ODD))


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from([*EVERYTHING, "cardId", "action"]), JSON),
    st.sets(st.sampled_from(list(EVERYTHING))),
)
def test_any_card_gets_an_answer(card: dict[str, Any], known: set[str]) -> None:
    asyncio.run(answered("", {}, {name: EVERYTHING[name] for name in known}, card))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["asked", "last", "skipped", "entered", "x"]), JSON))
def test_any_memory_is_read_as_far_as_it_fits(memory: dict[str, Any]) -> None:
    asyncio.run(answered("hello", memory, {}))


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_any_chat_gets_an_answer(text: str, instructions: str) -> None:
    async def run() -> None:
        ask = Ask("c", text, text, instructions=instructions)
        assert [each async for each in OfflineAgent().ask(ask) if each.type == "message" and each.text]

    asyncio.run(run())


@pytest.mark.parametrize("asked", ["name", "email", "product", "description", "since", "affected_users", "consent"])
def test_a_mebibyte_of_anything_is_answered_soon(asked: str) -> None:
    for part in (
        "a",
        "- ",
        "a, ",
        "name is ",
        "a@b.c ",
        "1 111,",
        "\n",
        "yes ",
        "monday ",
        "email: ",
        "mobile app ",
        "? ",
    ):
        began = time.monotonic()
        asyncio.run(answered((part * 2**20)[: 2**20] + "x", {"asked": asked}, {}))
        assert time.monotonic() - began < 10, part


@pytest.mark.parametrize("asked", ["name", "product", "description", "since", "affected_users", "consent", "(confirm)"])
def test_no_message_keeps_the_event_loop_busy(asked: str) -> None:
    """Counted in calls, since seconds depend on the machine: half a million take some 50 ms."""
    known = dict(EVERYTHING) if asked == "(confirm)" else {}
    different = ", ".join(f"websi{number}" for number in range(4000))
    for part in (
        "well, ",
        "no, ",
        "a, ",
        "a\n",
        "Is it? ",
        "1 2 ",
        "in 5 days ",
        "websiet. ",
        "wor, nob, sme, ",
        different,
    ):
        text = (part * 16_000)[:16_000]
        ask = Ask("c", text, text, situation=Situation(default_definition(), 0, "", known), memory={"asked": asked})
        profile = cProfile.Profile()
        assert ask.situation is not None
        profile.runcall(walk, ask, ask.situation, TODAY)
        assert pstats.Stats(profile).total_calls < 500_000, part[:20]  # type: ignore[attr-defined]


async def test_the_pace_streams_word_by_word() -> None:
    agent = OfflineAgent(pace_s=0.0001)
    given = [each async for each in agent.ask(Ask("c", "thanks", "thanks"))]
    assert [each.text for each in given] == ["You ", "are ", "welcome.", "You are welcome."]


def test_a_pace_that_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="pace_s=-1"):
        OfflineAgent(pace_s=-1)
