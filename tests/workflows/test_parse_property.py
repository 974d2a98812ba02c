"""Parsing never raises, and what it answers can be stored: hypothesis and the fuzzer say so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inturn.agents.activity import CARD, Activity
from inturn.agents.protocol import Ask
from inturn.testing import app_for_tests
from inturn.workflows import WorkflowOrchestrator, messages
from tests.workflows import fuzz_parse
from tests.workflows.scripted import DEFINITION, Scripted
from tests.workflows.sound import must_be_sound

texts = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["\ud83d", "a\udc00", "{", '{"a": 1}', "```json\n{}\n```"]
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.integers(2**62, 2**70) | st.floats() | texts | st.binary(max_size=5)
    | st.builds(object) | st.just(10**40)
)  # fmt: skip
names = (
    texts
    | st.sampled_from(["data", "nextAction", "errors", "choices", "citations", "prompt", "type"])
    | st.integers()
    | st.none()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=15
)
fields = ["type", "id", "from", "text", "attachments", "value", "entities", "suggestedActions"]
attachments = st.lists(st.fixed_dictionaries({"contentType": st.just(CARD), "content": values}), max_size=2)
mostly = st.fixed_dictionaries(
    {"type": st.just("message"), "text": texts},
    optional={
        "value": values,
        "entities": st.lists(values, max_size=3),
        "attachments": attachments | values,
        "from": values,
    },
)
activities = st.lists(mostly | st.dictionaries(st.sampled_from(fields), values) | values, max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)
slow = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(activities)
@slow
def test_whatever_comes_is_parsed_into_something_sound(given: list[Any]) -> None:
    must_be_sound(given)


@given(st.dictionaries(st.text(max_size=8), json_values, min_size=1, max_size=5), st.booleans(), texts, texts)
@slow
def test_an_object_in_a_text_is_sound_wherever_it_stands(
    said: dict[str, Any], fenced: bool, before: str, after: str
) -> None:
    written = json.dumps(said)
    text = before + (f"\n```json\n{written}\n```\n" if fenced else written) + after
    turn = must_be_sound([{"type": "message", "text": text}])
    if not before and not after:
        assert turn.kind == "structured"


@pytest.mark.parametrize("depth", [10, 100, 900, 1100, 100_000])
def test_no_depth_is_too_deep_for_it(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = {"a": [value]}
    must_be_sound([{"type": "message", "text": "x", "value": value, "entities": [value], "attachments": [value]}])
    must_be_sound([{"type": "message", "text": '{"a":' * depth}, {"type": "message", "text": "[" * depth}])
    must_be_sound([{"type": "message", "text": "```json\n" + '{"a":[' * depth + "]}" * depth + "\n```"}])


def test_a_short_run_of_the_fuzzer_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status = fuzz_parse.main(["--rounds", "1500", "--seed", "1"])
    out = capsys.readouterr()
    assert status == 0, out.out + out.err[-2000:]


def test_the_fuzzer_reaches_every_kind_of_turn() -> None:
    kinds = set()
    for seed in range(1500):
        try:
            kinds.add(must_be_sound(fuzz_parse.make(seed)).kind)
        except Exception:  # noqa: BLE001 - another test is about that
            continue
    assert kinds == {"structured", "passthrough", "parse_error"}


def test_the_fuzzer_finds_a_parser_that_raises_and_tells_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raises(*_: Any) -> Any:
        raise KeyError("citation")

    monkeypatch.setattr(messages, "_citations", raises)
    assert fuzz_parse.main(["--seconds", "5", "--seed", "10"]) == 1
    said = capsys.readouterr().out
    assert "python -m tests.workflows.fuzz_parse --seed 1" in said


async def test_whatever_the_fuzzer_makes_an_agent_say_is_answered_and_kept() -> None:
    said: list[Any] = []

    async def says(ask: Ask) -> AsyncIterator[Activity]:
        for activity in said:
            yield activity  # an agent of one's own may yield anything

    async with app_for_tests() as app:
        flow = WorkflowOrchestrator(app, Scripted(says), DEFINITION)
        failed = {}
        for seed in range(200):
            conversation = (await flow.start_session("u", "t")).conversation_id
            said[:] = fuzz_parse.make(seed)
            try:
                response = await flow.process_turn(conversation, "x", "m1")
                assert await flow.process_turn(conversation, "x", "m1") == response
            except Exception as error:  # noqa: BLE001 - whatever it raises is what we look for
                failed[seed] = repr(error)[:200]
    assert failed == {}
