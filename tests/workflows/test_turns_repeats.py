"""A repeat of a `message_id` gets the first response: later, meanwhile, merged; after a failure it is tried again."""

from __future__ import annotations

import asyncio

import pytest

from inturn.errors import AgentUnavailable, CardNotAllowed, InTurnError, SessionCompleted, UnknownConversation
from inturn.testing import ManualClock, app_for_tests
from inturn.workflows import OrchestratorConfig, WorkflowOrchestrator
from inturn.workflows.state import BusyTurn
from tests.lanes.workbench import Gate
from tests.workflows.conftest import ADA, MakeOrchestrator, begin, collected, stored, until_gathered
from tests.workflows.scripted import DEFINITION, Scripted


async def test_a_repeat_gets_the_first_response_and_changes_nothing(
    flow: WorkflowOrchestrator, agent: Scripted
) -> None:
    conversation = await begin(flow)
    first = await flow.process_turn(conversation, "name=Ada", "m1", owner=ADA)
    await flow.process_turn(conversation, "name=Grace", "m2")
    before = await stored(flow, conversation)
    again = await flow.process_turn(conversation, "name=Other", "m1", owner=ADA)
    assert again == first
    assert await stored(flow, conversation) == before
    assert agent.texts == ["name=Ada", "name=Grace"]


async def test_a_repeat_of_a_card_gets_the_first_response(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    conversation = await begin(flow)
    first = await flow.process_card_action(conversation, "details_card", {"count": 1}, message_id="m1")
    assert await flow.process_card_action(conversation, "details_card", {"count": 2}, message_id="m1") == first
    assert len(agent.asked) == 1


async def test_a_repeat_in_another_process_gets_the_first_response(make: MakeOrchestrator, agent: Scripted) -> None:
    one, two = make(), make()
    conversation = await begin(one)
    assert await one.process_turn(conversation, "a=1", "m1") == await two.process_turn(conversation, "a=1", "m1")
    assert len(agent.asked) == 1


async def test_messages_without_an_id_are_never_repeats(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    conversation = await begin(flow)
    for _ in range(2):
        await flow.process_turn(conversation, "same")
    assert len(agent.asked) == 2


async def test_ids_are_those_of_one_conversation(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    one, two = await begin(flow), await begin(flow)
    await flow.process_turn(one, "a=1", "m1")
    assert (await flow.process_turn(two, "a=2", "m1")).workflow_state.collected_data == {"a": "2"}


async def test_a_repeat_of_the_completing_message_gets_its_response(flow: WorkflowOrchestrator) -> None:
    conversation = await begin(flow)
    first = await flow.process_turn(conversation, "complete", "m1")
    assert await flow.process_turn(conversation, "complete", "m1") == first


@pytest.mark.parametrize("policy", ["reject", "queue", "merge"])
async def test_a_repeat_while_the_first_runs_waits_for_its_response(
    make: MakeOrchestrator, agent: Scripted, policy: str
) -> None:
    one, two = make(), make()
    conversation = await begin(one, busy=policy)
    gate = agent.gate = Gate()
    first = asyncio.create_task(one.process_turn(conversation, "a=1", "m1"))
    await gate.reached.wait()
    repeats = [asyncio.create_task(flow.process_turn(conversation, "a=1", "m1")) for flow in (one, two)]
    await asyncio.wait(repeats, timeout=0.2)
    assert not any(repeat.done() for repeat in repeats)
    gate.opened.set()
    answers = await asyncio.gather(first, *repeats)
    assert answers[0] == answers[1] == answers[2]
    assert len(agent.asked) == 1


@pytest.mark.parametrize("policy", ["reject", "queue", "merge"])
async def test_a_repeat_after_the_first_failed_is_tried_again(
    flow: WorkflowOrchestrator, agent: Scripted, policy: str
) -> None:
    conversation = await begin(flow, busy=policy)
    agent.error = AgentUnavailable("scripted", "is away")
    with pytest.raises(AgentUnavailable):
        await flow.process_turn(conversation, "a=1", "m1")
    assert (await flow.process_turn(conversation, "a=1", "m1")).workflow_state.collected_data == {"a": "1"}
    with pytest.raises(CardNotAllowed):
        await flow.process_card_action(conversation, "no_card", {}, message_id="m2")
    await flow.process_card_action(conversation, "details_card", {"count": 1}, message_id="m2")
    assert await collected(flow, conversation) == {"a": "1", "count": 1}


async def test_a_repeat_that_waited_for_a_first_that_failed_is_tried(make: MakeOrchestrator, agent: Scripted) -> None:
    one, two = make(), make()
    conversation = await begin(one)
    gate, agent.error = Gate(), AgentUnavailable("scripted", "is away")
    agent.gate = gate
    first = asyncio.create_task(one.process_turn(conversation, "a=1", "m1"))
    await gate.reached.wait()
    repeats = [asyncio.create_task(flow.process_turn(conversation, "a=1", "m1")) for flow in (one, two)]
    await asyncio.wait(repeats, timeout=0.2)
    gate.opened.set()
    with pytest.raises(AgentUnavailable):
        await first
    answers = await asyncio.gather(*repeats)
    assert answers[0] == answers[1]
    assert answers[0].workflow_state.turn_count == 1
    assert len(agent.asked) == 2


async def test_a_repeat_that_cannot_wait_any_longer_is_told_so_by_an_error_of_ours(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    flow = make(wait=0.1)
    conversation = await begin(flow)
    gate = agent.gate = Gate()
    first = asyncio.create_task(flow.process_turn(conversation, "a=1", "m1"))
    await gate.reached.wait()
    try:
        with pytest.raises(InTurnError):
            await flow.process_turn(conversation, "a=1", "m1")
    finally:
        gate.opened.set()
        await first


async def merged(flow: WorkflowOrchestrator, agent: Scripted, conversation: str, *ids: str) -> None:
    """One turn runs, and messages of these ids are answered together by the next."""
    gate = agent.gate = Gate()
    first = asyncio.create_task(flow.process_turn(conversation, "first"))
    await gate.reached.wait()
    rest = []
    for number, name in enumerate(ids):
        rest.append(asyncio.create_task(flow.process_turn(conversation, f"{name}=1", name)))
        await until_gathered(flow, number + 1)
    gate.opened.set()
    await asyncio.gather(first, *rest)


async def test_a_repeat_of_a_merged_message_gets_the_answer_of_its_burst(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    one, two = make(busy="merge"), make(busy="merge")
    conversation = await begin(one)
    await merged(one, agent, conversation, "m1", "m2")
    before = await stored(one, conversation)
    answers = [await flow.process_turn(conversation, "again", name) for flow in (one, two) for name in ("m1", "m2")]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].turn_meta.collected_this_turn == {"m1": "1", "m2": "1"}
    assert await stored(one, conversation) == before
    assert agent.texts == ["first", "m1=1\nm2=1"]


async def test_a_repeat_of_a_merged_message_while_its_burst_runs_waits_for_it(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate = agent.gate = Gate()
    first = asyncio.create_task(flow.process_turn(conversation, "first"))
    await gate.reached.wait()
    burst = [asyncio.create_task(flow.process_turn(conversation, f"{name}=1", name)) for name in ("m1", "m2")]
    await until_gathered(flow, 2)
    running = agent.gate = Gate()
    gate.opened.set()
    await running.reached.wait()
    repeat = asyncio.create_task(flow.process_turn(conversation, "again", "m2"))
    await until_gathered(flow, 1)
    running.opened.set()
    await first
    answers = await asyncio.gather(*burst, repeat)
    assert answers[0] == answers[1] == answers[2]
    assert len(agent.asked) == 2


async def test_a_repeat_in_a_burst_with_new_words_gets_the_first_response_then_and_later(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    await merged(flow, agent, conversation, "m1", "m2")
    gate = agent.gate = Gate()
    running = asyncio.create_task(flow.process_turn(conversation, "other"))
    await gate.reached.wait()
    saying_it = asyncio.create_task(flow.process_turn(conversation, "m4=1", "m4"))
    await until_gathered(flow, 1)
    within = agent.gate = Gate()
    gate.opened.set()
    await within.reached.wait()  # m4 is being answered
    burst = [asyncio.create_task(flow.process_turn(conversation, f"{name}=2", name)) for name in ("m4", "m3")]
    await until_gathered(flow, 2)
    within.opened.set()
    _, first, repeated, fresh = await asyncio.gather(running, saying_it, *burst)
    assert repeated == first
    assert fresh.turn_meta.collected_this_turn == {"m3": "2"}
    assert await flow.process_turn(conversation, "again", "m4") == first, "and not that of the burst it was repeated in"


async def test_a_repeat_of_a_merged_message_does_not_wait_for_others_nor_share_their_failure(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    await merged(flow, agent, conversation, "m1", "m2")
    first = await flow.process_turn(conversation, "again", "m1")
    gate = agent.gate = Gate()
    completing = asyncio.create_task(flow.process_turn(conversation, "complete"))
    await gate.reached.wait()
    late = asyncio.create_task(flow.process_turn(conversation, "m3=1", "m3"))
    await until_gathered(flow, 1)
    assert await flow.process_turn(conversation, "again", "m2") == first
    assert not completing.done()
    gate.opened.set()
    await completing
    with pytest.raises(SessionCompleted):
        await late


async def test_one_id_twice_in_a_burst_is_said_once(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    await merged(flow, agent, conversation, "m1", "m1", "m2")
    assert agent.texts == ["first", "m1=1\nm2=1"]


async def test_words_without_an_id_are_not_taken_for_a_message_whose_id_is_a_number(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate = agent.gate = Gate()
    first = asyncio.create_task(flow.process_turn(conversation, "first"))
    await gate.reached.wait()
    burst = []
    for text, name in (("a=1", None), ("0=2", "0"), ("1=2", "1")):
        burst.append(asyncio.create_task(flow.process_turn(conversation, text, name)))
        await until_gathered(flow, len(burst))
    gate.opened.set()
    await asyncio.gather(first, *burst)
    assert agent.texts == ["first", "a=1\n0=2\n1=2"]


async def test_a_repeat_of_a_message_of_an_ended_session_finds_nothing(flow: WorkflowOrchestrator) -> None:
    conversation = await begin(flow)
    await flow.process_turn(conversation, "name=Ada", "m1", owner=ADA)
    await flow.end_session(conversation, owner=ADA)
    with pytest.raises(UnknownConversation):  # what was collected is gone, from the answers too
        await flow.process_turn(conversation, "name=Ada", "m1", owner=ADA)


async def test_a_repeat_that_waited_for_a_first_that_was_cancelled_is_tried(
    flow: WorkflowOrchestrator, agent: Scripted
) -> None:
    conversation = await begin(flow)
    gate = agent.gate = Gate()
    first = asyncio.create_task(flow.process_turn(conversation, "a=1", "m1"))
    await gate.reached.wait()
    repeat = asyncio.create_task(flow.process_turn(conversation, "a=1", "m1"))
    await asyncio.wait([repeat], timeout=0.2)
    first.cancel()
    assert (await repeat).workflow_state.turn_count == 1
    assert len(agent.asked) == 2


@pytest.mark.parametrize("policy", ["reject", "merge"])
async def test_when_the_window_is_over_an_id_is_new_again(agent: Scripted, policy: BusyTurn) -> None:
    clock = ManualClock()
    async with app_for_tests(clock) as app:
        config = OrchestratorConfig(busy=policy, dedup_window=60)
        flow = WorkflowOrchestrator(app, agent, DEFINITION, config=config)
        conversation = await begin(flow)
        await flow.process_turn(conversation, "a=1", "m1")
        clock.advance(61)
        assert (await flow.process_turn(conversation, "a=2", "m1")).turn_meta.turn_number == 2
