"""What happens to a turn of a busy conversation: refused at once, in order, or together with the others that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import AgentUnavailable, LaneBusy, LaneTimeout
from inturn.workflows import WorkflowOrchestrator, WorkflowResponse
from inturn.workflows.turns import Bursts
from tests.lanes.workbench import Gate
from tests.waiting import until, until_status, until_waiting
from tests.workflows.conftest import MakeOrchestrator, begin, collected, stored, until_gathered
from tests.workflows.scripted import Scripted

Task = asyncio.Task[WorkflowResponse]


async def held(flow: WorkflowOrchestrator, agent: Scripted, conversation: str) -> tuple[Gate, Task]:
    """A turn that runs until its gate is opened."""
    gate = agent.gate = Gate()
    running = asyncio.create_task(flow.process_turn(conversation, "first"))
    await gate.reached.wait()
    return gate, running


async def gathered(flow: WorkflowOrchestrator, conversation: str, *texts: str) -> list[Task]:
    """Turns that wait in one burst, in this order."""
    tasks = []
    for number, text in enumerate(texts):
        tasks.append(asyncio.create_task(flow.process_turn(conversation, text, f"m{number}")))
        await until_gathered(flow, number + 1)
    await until_waiting(flow.app, f"conversation:{conversation}", 1)
    return tasks


async def test_by_default_a_second_turn_is_refused_at_once(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    conversation = await begin(flow)
    gate, running = await held(flow, agent, conversation)
    with pytest.raises(LaneBusy) as busy:
        await flow.process_turn(conversation, "name=Bob", "m1")
    assert (busy.value.waiting, busy.value.stopped) == (0, "")
    assert (await flow.get_session(conversation)).workflow_state.turn_count == 0, "looking at it is not refused"
    gate.opened.set()
    await running
    assert (await flow.process_turn(conversation, "name=Bob", "m1")).workflow_state.turn_count == 2
    assert agent.texts == ["first", "name=Bob"]


async def test_another_process_is_refused_too(make: MakeOrchestrator, agent: Scripted) -> None:
    one, two = make(), make()
    conversation = await begin(one)
    gate, running = await held(one, agent, conversation)
    for refused in (two.process_turn(conversation, "x"), two.complete_session(conversation)):
        with pytest.raises(LaneBusy):
            await refused
    with pytest.raises(LaneBusy):
        await two.end_session(conversation)
    gate.opened.set()
    await running


async def test_other_conversations_are_not_held_up(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    gate, running = await held(flow, agent, await begin(flow))
    other = await begin(flow)
    assert (await flow.process_turn(other, "name=Bob")).workflow_state.turn_count == 1
    assert not running.done()
    gate.opened.set()
    await running


async def test_queued_turns_run_one_after_the_other_in_order(make: MakeOrchestrator, agent: Scripted) -> None:
    flows = make(busy="queue"), make(busy="queue")
    conversation = await begin(flows[0])
    gate, running = await held(flows[0], agent, conversation)
    tasks = []
    for number in range(6):
        tasks.append(asyncio.create_task(flows[number % 2].process_turn(conversation, f"n{number}={number}")))
        await until_waiting(flows[0].app, f"conversation:{conversation}", number + 1)
    gate.opened.set()
    await running
    answers = await asyncio.gather(*tasks)
    assert [answer.turn_meta.turn_number for answer in answers] == [2, 3, 4, 5, 6, 7]
    assert agent.texts == ["first", *(f"n{number}={number}" for number in range(6))]
    assert await collected(flows[0], conversation) == {f"n{number}": str(number) for number in range(6)}


async def test_the_policy_of_a_session_is_its_own_wherever_its_turns_run(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    rejecting, other = make(busy="reject"), make(busy="merge")
    queued, rejected = await begin(rejecting, busy="queue"), await begin(rejecting)
    gate, running = await held(rejecting, agent, queued)
    waiting = asyncio.create_task(rejecting.process_turn(queued, "a=1"))
    await until_waiting(rejecting.app, f"conversation:{queued}", 1)
    gate.opened.set()
    await asyncio.gather(running, waiting)
    gate, running = await held(other, agent, rejected)
    with pytest.raises(LaneBusy):
        await other.process_turn(rejected, "a=1")
    gate.opened.set()
    await running
    with pytest.raises(ValueError, match="busy="):
        await begin(rejecting, busy="drop")


async def test_a_turn_waits_no_longer_than_was_set(make: MakeOrchestrator, agent: Scripted) -> None:
    for policy in ("queue", "merge"):
        flow = make(busy=policy, wait=0.1)
        conversation = await begin(flow)
        gate, running = await held(flow, agent, conversation)
        with pytest.raises(LaneTimeout):
            await flow.process_turn(conversation, "a=1")
        gate.opened.set()
        await running
        assert await collected(flow, conversation) == {}


async def test_a_burst_has_one_answer_that_has_seen_all_its_words_in_order(
    make: MakeOrchestrator, agent: Scripted
) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate, running = await held(flow, agent, conversation)
    tasks = await gathered(flow, conversation, "a=1", "b=2 {x} %s", "a=3")
    gate.opened.set()
    first = await running
    answers = await asyncio.gather(*tasks)
    assert answers[0] == answers[1] == answers[2] != first
    assert agent.texts == ["first", "a=1\nb=2 {x} %s\na=3"]
    assert agent.asked[1].query.endswith("\n\na=1\nb=2 {x} %s\na=3")
    assert answers[0].turn_meta.turn_number == 2
    assert await collected(flow, conversation) == {"b": "2", "a": "3"}


async def test_a_lone_turn_of_a_merging_conversation_does_not_wait(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    await flow.process_turn(conversation, "a=1")
    assert agent.texts == ["a=1"]


async def test_bursts_of_two_processes_queue_and_nothing_is_lost(make: MakeOrchestrator, agent: Scripted) -> None:
    flows = make(busy="merge"), make(busy="merge")
    conversation = await begin(flows[0])
    gate, running = await held(flows[0], agent, conversation)
    tasks = [asyncio.create_task(flows[n % 2].process_turn(conversation, f"n{n}={n}")) for n in range(20)]
    for flow in flows:
        await until_gathered(flow, 10)
    await until_waiting(flows[0].app, f"conversation:{conversation}", 2)
    gate.opened.set()
    await asyncio.gather(running, *tasks)
    assert await collected(flows[0], conversation) == {f"n{n}": str(n) for n in range(20)}
    assert len(agent.asked) == 3, "the first, and a burst of each process"


async def test_a_card_is_not_merged_but_takes_its_turn(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate, running = await held(flow, agent, conversation)
    card = asyncio.create_task(flow.process_card_action(conversation, "details_card", {"count": 3}))
    await until_waiting(flow.app, f"conversation:{conversation}", 1)
    text = asyncio.create_task(flow.process_turn(conversation, "name=Ada"))
    await until_waiting(flow.app, f"conversation:{conversation}", 2)
    gate.opened.set()
    await asyncio.gather(running, card, text)
    assert [(ask.text, ask.card is None) for ask in agent.asked] == [("first", True), ("", False), ("name=Ada", True)]


async def test_who_leaves_a_burst_before_it_began_is_not_in_it(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate, running = await held(flow, agent, conversation)
    tasks = await gathered(flow, conversation, "a=1", "b=2", "c=3")
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    gate.opened.set()
    await asyncio.gather(running, *tasks[1:])
    assert agent.texts == ["first", "b=2\nc=3"]
    assert await collected(flow, conversation) == {"b": "2", "c": "3"}


async def test_a_burst_that_all_have_left_never_runs(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate, running = await held(flow, agent, conversation)
    tasks = await gathered(flow, conversation, "a=1", "b=2")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await until_waiting(flow.app, f"conversation:{conversation}", 0)
    gate.opened.set()
    await running
    assert agent.texts == ["first"]


async def test_who_leaves_a_burst_after_it_began_does_not_stop_it(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate, running = await held(flow, agent, conversation)
    tasks = await gathered(flow, conversation, "a=1", "b=2")
    within = agent.gate = Gate()
    gate.opened.set()
    await within.reached.wait()
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    within.opened.set()
    await asyncio.gather(running, tasks[1])
    assert await collected(flow, conversation) == {"a": "1", "b": "2"}
    repeated = await flow.process_turn(conversation, "again", "m0")
    assert repeated == tasks[1].result(), "whoever has left may still ask for the answer"


async def test_a_burst_that_fails_tells_all_and_saves_nothing(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate, running = await held(flow, agent, conversation)
    tasks = await gathered(flow, conversation, "a=1", "b=2")
    within, agent.error = Gate(), None
    agent.gate = within
    gate.opened.set()
    await within.reached.wait()
    before = await stored(flow, conversation)
    agent.error = AgentUnavailable("scripted", "is away")
    within.opened.set()
    await running
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in told] == [AgentUnavailable] * 2
    assert await stored(flow, conversation) == before
    answer = await flow.process_turn(conversation, "a=1", "m0")
    assert answer.workflow_state.collected_data == {"a": "1"}, "and may be said again"


async def test_everybody_in_a_burst_hears_it_being_answered(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate, running = await held(flow, agent, conversation)
    heard: list[list[str]] = [[], []]

    def ear(number: int) -> asyncio.Task[WorkflowResponse]:
        def hear(activity: Activity) -> None:
            heard[number].append(activity.text)

        return asyncio.create_task(flow.process_turn(conversation, f"n{number}=1", on_activity=hear))

    tasks = []
    for number in range(2):
        tasks.append(ear(number))
        await until_gathered(flow, number + 1)
    gate.opened.set()
    await asyncio.gather(running, *tasks)
    assert heard == [["noted: n0=1\nn1=1"]] * 2


async def test_a_cancelled_turn_leaves_the_conversation_free(flow: WorkflowOrchestrator, agent: Scripted) -> None:
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    _, running = await held(flow, agent, conversation)
    running.cancel()
    await asyncio.wait([running])
    await until_status(flow.app, f"conversation:{conversation}", "idle")
    assert await stored(flow, conversation) == before

    async def works() -> bool:
        return (await flow.process_turn(conversation, "a=1")).workflow_state.turn_count == 1

    await until(works)


async def test_a_burst_has_a_limit_and_who_comes_then_is_in_the_next(
    flow: WorkflowOrchestrator, agent: Scripted
) -> None:
    flow._turns._bursts = Bursts(2)
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


@pytest.mark.parametrize("joins", [False, True], ids=["it leads its burst", "it joins another's burst"])
async def test_agents_that_ask_for_each_others_conversations_do_not_wait_for_ever(
    make: MakeOrchestrator, agent: Scripted, joins: bool
) -> None:
    """Requests that are merged wait in one task, which holds up the turn of each of them."""
    flow = make(busy="merge", wait=600)
    ids = [await begin(flow), await begin(flow)]
    both, has_joined = asyncio.Barrier(2), asyncio.Event()

    async def answer(ask: Ask) -> AsyncIterator[Activity]:
        if ask.text == "cross":
            await both.wait()
            if joins and ask.conversation_id == ids[0]:
                await has_joined.wait()
            await flow.process_turn(ids[1 - ids.index(ask.conversation_id)], "leaf")
        yield Activity.said("done")

    agent.answer = answer
    crossing = [asyncio.create_task(flow.process_turn(each, "cross")) for each in ids]
    waiting = []
    if joins:  # a request of nobody's turn waits first
        await until_status(flow.app, f"conversation:{ids[1]}", "running")
        waiting.append(asyncio.create_task(flow.process_turn(ids[1], "before")))
        await until_waiting(flow.app, f"conversation:{ids[1]}", 1)
        has_joined.set()
    async with asyncio.timeout(60):
        ended = await asyncio.gather(*crossing, return_exceptions=True)
        await asyncio.gather(*waiting, return_exceptions=True)
    assert "DeadlockDetected" in {type(each).__name__ for each in ended}
