"""Whatever an agent says, and however much of it: it can be answered, kept and repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from inturn.agents.activity import Activity, card_attachment
from inturn.agents.protocol import Ask
from tests.workflows.conftest import MakeOrchestrator, begin
from tests.workflows.scripted import Scripted

LARGE = {
    "long texts": [Activity.said("漢" * 20_000) for _ in range(100)],
    "large payloads": [Activity.said("x" * 8000, value={"data": {f"f{n}": "x" * 31_000}}) for n in range(10)],
    "large cards": [
        Activity.said("x", attachments=[card_attachment({"id": "c", "text": "😀" * 7000})] * 3) for _ in range(10)
    ],
    "many citations": [
        Activity.said(
            "x",
            entities=[{"type": "https://schema.org/Message", "citation": [{"appearance": {"name": "n" * 500}}] * 20}],
        )
    ]
    * 60,
    "half characters": [Activity.said("\ud83d", value={"data": {"\ud83d": "\ud83d"}, "prompt": "\ud83d"})],
    "a long piece": [Activity.piece("漢" * 100_000), Activity.said("x")],
    "a piece that is long when it is written": [Activity.piece("\x01" * 20_000), Activity.said("x")],
    "a piece with half a character": [Activity.piece("\ud83d"), Activity.said("x")],
    "a signature that is none": [
        Activity.said("x", entities=[{"type": "https://inturn/agent", "name": "\ud83d" * 300_000}])
    ],
}


@pytest.mark.parametrize("what", LARGE)
async def test_whatever_an_agent_says_can_be_answered_and_kept(make: MakeOrchestrator, what: str) -> None:
    async def says(ask: Ask) -> AsyncIterator[Activity]:
        for activity in LARGE[what]:
            yield activity.model_copy(deep=True)

    flow = make(Scripted(says))
    conversation = await begin(flow)
    for number in range(3):
        response = await flow.process_turn(conversation, "x", f"m{number}")
        assert response.messages, "something of it is shown"
        response.model_dump_json().encode()
    assert await flow.process_turn(conversation, "x", "m2") == response


async def test_a_response_fits_beside_all_that_was_collected_before(make: MakeOrchestrator, agent: Scripted) -> None:
    async def says(ask: Ask) -> AsyncIterator[Activity]:
        data = {f"turn{len(agent.asked)}": "x" * 15_500}
        for _ in range(3):
            yield Activity.said("more", value={"data": data, "pad": "x" * 16_000})

    agent.answer = says
    flow = make()
    conversation = await begin(flow)
    for number in range(3):
        response = await flow.process_turn(conversation, "x", f"m{number}")
    assert len(response.workflow_state.collected_data) == 3
    assert await flow.process_turn(conversation, "x", "m2") == response


async def test_the_largest_answer_with_the_most_that_can_be_cited_and_collected_can_be_repeated(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    cited = {
        "type": "https://schema.org/Message",
        "citation": [{"appearance": {"name": "n" * 60, "url": "u" * 200}}] * 14,
    }

    async def says(ask: Ask) -> AsyncIterator[Activity]:
        if ask.text == "first":
            yield Activity.said("x", value={"data": {"old": "x" * 16_500}})
            return
        yield Activity.said("x", value={"data": {"new": "x" * 32_000}, "nextAction": "漢" * 100}, entities=[cited])
        for _ in range(20):
            yield Activity.said("x", entities=[cited])

    agent.answer = says
    flow = make()
    conversation = await begin(flow)
    await flow.process_turn(conversation, "first", "m1")
    response = await flow.process_turn(conversation, "x", "m2")
    assert list(response.turn_meta.collected_this_turn) == ["new"]
    assert len(response.parsed_turn.citations) > 20
    assert await flow.process_turn(conversation, "x", "m2") == response
