"""What reviews with fresh eyes have found, so that it stays found."""

from __future__ import annotations

import asyncio

import pytest

from inturn.agents.activity import Activity
from inturn.conversations import Owner, WorkflowOrchestrator, normalize_activities, parse_turn
from inturn.conversations.gathering import Gathering
from inturn.errors import AgentRejected, LaneBusy, UnknownConversation
from inturn.workflows.definition.model import FieldDefinition, StepDefinition
from tests.workflows.conftest import ADA, MakeOrchestrator, begin, collected, stored, until_gathered
from tests.workflows.scripted import Scripted, saying
from tests.lanes.conftest import Gate, counted

MALLORY = Owner(user_id="mallory", tenant_id="acme")


async def test_a_stranger_never_holds_the_lane_of_a_conversation(make: MakeOrchestrator) -> None:
    owners, elsewhere = make(), make()
    conversation = await begin(owners)
    for flow in (owners, elsewhere, elsewhere):
        before = counted("inturn_turns_total", outcome="rolled back")
        with pytest.raises(UnknownConversation):
            await flow.process_turn(conversation, "x", owner=MALLORY)
        with pytest.raises(UnknownConversation):
            await flow.end_session(conversation, owner=MALLORY)
        assert counted("inturn_turns_total", outcome="rolled back") == before
    assert (await elsewhere.process_turn(conversation, "name=Ada", owner=ADA)).turn_meta.turn_number == 1


async def test_what_a_card_says_stays_if_the_agent_makes_nonsense_of_it(
    flow: WorkflowOrchestrator, agent: Scripted
) -> None:
    conversation = await begin(flow)
    agent.answer = saying(Activity.said("noted", value={"data": {"count": "many", "urgent": None}}))
    response = await flow.process_card_action(conversation, "details_card", {"count": 3, "urgent": True})
    assert await collected(flow, conversation) == {"count": 3, "urgent": True}
    assert response.parsed_turn.errors == ["count: must be a number"]


async def test_an_agent_that_finds_another_lane_busy_has_failed_and_is_not_asked_twice(
    flow: WorkflowOrchestrator, agent: Scripted
) -> None:
    conversation = await begin(flow, busy="queue")
    agent.error = busy = LaneBusy("repo:acme", None, 0.0, 1)
    with pytest.raises(LaneBusy) as raised:
        await flow.process_turn(conversation, "x")
    assert raised.value is busy
    assert len(agent.asked) == 1


async def test_an_answer_without_end_is_refused(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    silent = [Activity(type="typing")] * 100_001  # no time limit can end what never waits for anything
    for endless in ([Activity.said("x")] * 501, [Activity.piece("x" * 1_000_000)] * 5, silent):
        agent.answer = saying(*endless)
        with pytest.raises(AgentRejected, match="without end"):
            await flow.process_turn(conversation, "x")
    assert await stored(flow, conversation) == before


async def test_a_turn_that_cannot_be_written_gives_the_lane_back_at_once(
    flow: WorkflowOrchestrator, agent: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = await begin(flow)
    monkeypatch.setattr("inturn.lanes.text.MAX_RESULT", 100)
    with pytest.raises(ValueError, match="the result is"):
        await flow.process_turn(conversation, "name=Ada", "m1")
    monkeypatch.undo()
    assert (await flow.process_turn(conversation, "name=Ada", "m1")).turn_meta.turn_number == 1


async def test_a_burst_has_a_limit_and_who_comes_then_is_in_the_next(
    flow: WorkflowOrchestrator, agent: Scripted
) -> None:
    flow._turns._gathering = Gathering(2)
    conversation = await begin(flow, busy="merge")
    gate = agent.gate = Gate()
    first = asyncio.create_task(flow.process_turn(conversation, "a=1"))
    await gate.reached.wait()
    others = []
    for text, count in (("b=1", 1), ("c=1", 2)):
        others.append(asyncio.create_task(flow.process_turn(conversation, text)))
        await until_gathered(flow, count)
    others.append(asyncio.create_task(flow.process_turn(conversation, "d=1")))
    await until_gathered(flow, 1)
    gate.opened.set()
    await asyncio.gather(first, *others)
    assert agent.texts == ["a=1", "b=1\nc=1", "d=1"]


def test_structured_output_is_kept_before_what_is_only_to_be_shown() -> None:
    many = [Activity.said(f"{number}") for number in range(60)]
    turn = parse_turn(normalize_activities([*many, Activity.said("last", value={"nextAction": "complete"})]))
    assert turn.next_action == "complete"
    assert [message.text for message in turn.messages] == [*map(str, range(49)), "last"]


def test_a_value_that_cannot_be_kept_is_told() -> None:
    turn = parse_turn(normalize_activities([Activity.said("words", value={"data": {"x": "y" * 40_000}})]))
    assert turn.kind == "parse_error"
    assert turn.errors == ["message a1: its structured part cannot be kept: it is more than 32768 bytes long"]
    assert [message.text for message in turn.messages] == ["words"]


def test_a_number_too_large_for_a_store_is_kept_as_text() -> None:
    turn = parse_turn(normalize_activities([Activity.said("words", value={"data": {"id": 2**64}})]))
    assert turn.data == {"id": str(2**64)}


@pytest.mark.parametrize("name", ["action", "cardId", "reply", "nextAction", "data"])
def test_a_field_may_not_have_a_name_that_means_something_else(name: str) -> None:
    with pytest.raises(ValueError, match="means something else"):
        FieldDefinition(name=name)


@pytest.mark.parametrize("name", ["confirm", "completed"])
def test_a_step_may_not_be_named_like_a_phase(name: str) -> None:
    with pytest.raises(ValueError, match="name of a phase"):
        StepDefinition(id=name, title="t", prompt="p")
