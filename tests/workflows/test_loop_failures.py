"""Whatever fails, nothing was saved; and an agent that is only slow keeps its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from inturn import InTurn, arguments
from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import (
    AgentRejected,
    AgentTimeout,
    AgentUnavailable,
    DefinitionMissing,
    InTurnError,
    LaneBusy,
    StoreUnavailable,
    UnknownConversation,
)
from inturn.settings import Settings
from inturn.workflows import OrchestratorConfig, WorkflowOrchestrator, WorkflowResponse
from tests.lanes.workbench import Gate
from tests.servers import PrivateRedis
from tests.waiting import until
from tests.workflows.conftest import MakeOrchestrator, begin, stored
from tests.workflows.scripted import DEFINITION, Scripted, collecting, saying


@pytest.mark.parametrize(
    "error",
    [
        AgentUnavailable("scripted", "is away"),
        AgentRejected("scripted", "refuses"),
        AgentTimeout("scripted", "is slow"),
    ],
)
async def test_a_failing_agent_leaves_the_stored_state_byte_for_byte(
    flow: WorkflowOrchestrator, agent: Scripted, error: Exception
) -> None:
    conversation = await begin(flow)
    await flow.process_turn(conversation, "name=Ada", "m1")
    before = await stored(flow, conversation)
    assert before is not None
    agent.error = error
    with pytest.raises(type(error)) as raised:
        await flow.process_turn(conversation, "name=Bob", "m2")
    assert raised.value is error
    agent.error = error
    with pytest.raises(type(error)):
        await flow.process_card_action(conversation, "details_card", {"count": 3})
    assert await stored(flow, conversation) == before
    assert (await flow.process_turn(conversation, "name=Bob", "m2")).workflow_state.turn_count == 2


async def test_a_bad_argument_that_the_agent_passes_is_no_fault_of_the_request(make: MakeOrchestrator) -> None:
    """It would be told to the client as a field of its own request, and kept for an `Idempotency-Key`."""

    async def misuses(ask: Ask) -> AsyncIterator[Activity]:
        arguments.name("")
        yield Activity(type="message", text="never")

    flow = make(Scripted(misuses))
    with pytest.raises(AgentUnavailable, match="failed with ArgumentError"):
        await flow.process_turn(await begin(flow), "hello")


async def test_an_agent_that_breaks_off_in_the_middle_has_said_nothing(make: MakeOrchestrator) -> None:
    async def breaks(ask: Ask) -> AsyncIterator[Activity]:
        ask.memory["conversation"] = "at the provider"
        yield Activity.said("half", value={"data": {"name": "Ada"}})
        raise AgentUnavailable("scripted", "broke off")

    flow = make(Scripted(breaks))
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    with pytest.raises(AgentUnavailable):
        await flow.process_turn(conversation, "x")
    assert await stored(flow, conversation) == before


async def test_what_an_agent_remembers_comes_back_with_the_next_turn(make: MakeOrchestrator) -> None:
    async def counts(ask: Ask) -> AsyncIterator[Activity]:
        ask.memory["calls"] = ask.memory.get("calls", 0) + 1
        yield Activity.said(f"call {ask.memory['calls']}")

    flow = make(Scripted(counts))
    conversation = await begin(flow)
    answers = [await flow.process_turn(conversation, "x") for _ in range(3)]
    assert [answer.messages[0].text for answer in answers] == ["call 1", "call 2", "call 3"]


async def test_an_agent_that_takes_too_long_is_timed_out(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(agent_timeout=0.1)
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    agent.gate = Gate()
    with pytest.raises(AgentTimeout, match="scripted") as raised:
        await flow.process_turn(conversation, "x")
    assert raised.value.agent == "scripted"
    assert await stored(flow, conversation) == before
    assert (await make().process_turn(conversation, "x")).workflow_state.turn_count == 1


async def test_an_agent_that_says_a_little_now_and_then_is_timed_out_too(make: MakeOrchestrator) -> None:
    async def trickles(ask: Ask) -> AsyncIterator[Activity]:
        while True:
            await asyncio.sleep(0.01)
            yield Activity.piece("x")

    flow = make(Scripted(trickles), agent_timeout=0.2)
    with pytest.raises(AgentTimeout):
        await flow.process_turn(await begin(flow), "x")


async def test_an_agent_slower_than_the_lease_keeps_its_turn(make: MakeOrchestrator, agent: Scripted) -> None:
    async def slow(ask: Ask) -> AsyncIterator[Activity]:
        if ask.text.startswith("name"):
            await asyncio.sleep(12)
        async for activity in collecting(ask):
            yield activity

    agent.answer = slow
    # a lease that a process which gets no processor for eight seconds still keeps
    one, two = make(lease=10, busy="queue"), make(lease=10, busy="queue")
    conversation = await begin(one)
    running = asyncio.create_task(one.process_turn(conversation, "name=Ada"))
    await until(lambda: _is(len(agent.asked) == 1))
    behind = await two.process_turn(conversation, "count=3")
    # not whether `running` is done: the other process may hear of its commit before its own task does
    assert behind.turn_meta.turn_number == 2, "who came later has not passed it"
    assert (await running).turn_meta.turn_number == 1
    assert behind.workflow_state.collected_data == {"name": "Ada", "count": 3}


async def _is(so: bool) -> bool:
    return so


async def test_a_listener_that_raises_fails_its_turn_and_closes_the_agent(flow: WorkflowOrchestrator) -> None:
    closed = asyncio.Event()

    async def speaks(ask: Ask) -> AsyncIterator[Activity]:
        try:
            yield Activity.piece("x")
            yield Activity.said("y", value={"data": {"name": "Ada"}})
        finally:
            closed.set()

    def deaf(activity: Activity) -> None:
        raise ConnectionError("gone")

    agent = flow.agent
    assert isinstance(agent, Scripted)
    agent.answer = speaks
    conversation = await begin(flow)
    with pytest.raises(ConnectionError):
        await flow.process_turn(conversation, "x", on_activity=deaf)
    assert (await flow.get_session(conversation)).workflow_state.turn_count == 0


@pytest.mark.parametrize(
    ("error", "told"), [(RuntimeError("a bug"), AgentUnavailable), (TimeoutError("of its own"), AgentTimeout)]
)
async def test_whatever_an_agent_raises_is_a_failure_of_the_agent_and_changes_nothing(
    flow: WorkflowOrchestrator, agent: Scripted, error: Exception, told: type[Exception]
) -> None:
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    agent.error = error
    with pytest.raises(told) as raised:
        await flow.process_turn(conversation, "name=Bob", "m2")
    assert raised.value.__cause__ is error
    assert await stored(flow, conversation) == before
    assert (await flow.process_turn(conversation, "name=Bob", "m2")).turn_meta.turn_number == 1


async def test_memory_that_cannot_be_kept_fails_the_turn_as_the_agents_fault(make: MakeOrchestrator) -> None:
    async def hoards(ask: Ask) -> AsyncIterator[Activity]:
        ask.memory["all"] = "x" * 100_000
        yield Activity.said("x")

    flow = make(Scripted(hoards))
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        await flow.process_turn(conversation, "x")
    assert not isinstance(raised.value, ValueError), "the client is not to blame"
    assert await stored(flow, conversation) == before


async def test_a_session_of_a_definition_that_is_not_loaded_is_left_as_it_is(
    make: MakeOrchestrator, app: InTurn, agent: Scripted
) -> None:
    flow = make()
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    other = WorkflowOrchestrator(app, agent)
    with pytest.raises(DefinitionMissing, match="intake"):
        await other.process_turn(conversation, "x")
    assert await stored(flow, conversation) == before


async def test_without_its_store_every_call_says_so_and_nothing_is_kept_in_memory(
    fresh_redis: PrivateRedis, agent: Scripted, namespace: str
) -> None:
    async with InTurn(fresh_redis.url, namespace=namespace, settings=Settings(store_timeout=4)) as app:
        flow = WorkflowOrchestrator(app, agent, DEFINITION, config=OrchestratorConfig(busy="merge"))
        conversation = await begin(flow)
        await flow.process_turn(conversation, "name=Ada", "m1")
        fresh_redis.kill()
        told = await asyncio.gather(
            flow.start_session("ada", "acme"),
            flow.process_turn(conversation, "count=3"),
            flow.process_turn(conversation, "name=Ada", "m1"),
            flow.process_card_action(conversation, "details_card", {"count": 3}),
            flow.get_session(conversation),
            flow.complete_session(conversation),
            flow.end_session(conversation),
            return_exceptions=True,
        )
        assert [type(error) for error in told] == [StoreUnavailable] * 7
        assert len(agent.asked) == 1
        await asyncio.to_thread(fresh_redis.start)

        async def is_back() -> bool:
            try:
                await app.lanes.inspect("k")
            except StoreUnavailable:
                return False
            return True

        await until(is_back, 20)
        with pytest.raises(UnknownConversation):  # this Redis has kept nothing, and neither have we
            await flow.get_session(conversation)


async def test_a_session_goes_on_after_the_store_was_away(
    fresh_redis: PrivateRedis, agent: Scripted, namespace: str
) -> None:
    async with InTurn(fresh_redis.url, namespace=namespace, settings=Settings(store_timeout=4)) as app:
        flow = WorkflowOrchestrator(app, agent, DEFINITION)
        conversation = await begin(flow)
        await flow.process_turn(conversation, "name=Ada")
        await asyncio.to_thread(fresh_redis.restart, keep_data=True)
        answers: list[WorkflowResponse] = []

        async def answers_again() -> bool:
            try:
                answers.append(await flow.process_turn(conversation, "count=3", "m1"))
            except InTurnError:
                return False
            return True

        await until(answers_again, 30)
        assert answers[0].workflow_state.collected_data == {"name": "Ada", "count": 3}


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
    monkeypatch.setattr("inturn.lanes.codec.MAX_RESULT", 100)
    with pytest.raises(ValueError, match="the result is"):
        await flow.process_turn(conversation, "name=Ada", "m1")
    monkeypatch.undo()
    assert (await flow.process_turn(conversation, "name=Ada", "m1")).turn_meta.turn_number == 1
