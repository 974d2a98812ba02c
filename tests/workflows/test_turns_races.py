"""Fifty turns at once on one conversation: guarded, none is lost; unguarded, most are, so that this test can fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from inturn.agents.activity import Activity
from inturn.agents.protocol import Ask
from inturn.errors import LaneBusy
from inturn.workflows import RedisWorkflowStateStore, WorkflowOrchestrator, WorkflowState
from tests.conftest import PATIENT_S
from tests.workflows.conftest import ADA, MakeOrchestrator, begin
from tests.workflows.scripted import Scripted, collecting
from tests.workflows.unguarded import DictStates, States, Unguarded

TURNS = 50
ALL = {f"n{number}": str(number) for number in range(TURNS)}


@pytest.fixture
def agent() -> Scripted:
    async def takes_a_moment(ask: Ask) -> AsyncIterator[Activity]:
        await asyncio.sleep(0.002)
        async for activity in collecting(ask):
            yield activity

    return Scripted(takes_a_moment)


@pytest.mark.parametrize("where", ["dict", "redis"])
async def test_without_a_guard_updates_are_lost(agent: Scripted, where: str, redis_url: str, namespace: str) -> None:
    all_have_read = asyncio.Barrier(TURNS)

    async def answers_when_all_have_read(ask: Ask) -> AsyncIterator[Activity]:
        await all_have_read.wait()  # nobody has written yet, however they are scheduled
        async for activity in collecting(ask):
            yield activity

    agent.answer = answers_when_all_have_read
    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        states: States = DictStates() if where == "dict" else RedisWorkflowStateStore(client)
        await states.set(namespace, WorkflowState(conversation_id=namespace, definition="intake", owner=ADA))
        unguarded = Unguarded(agent, states)
        await asyncio.gather(*(unguarded.process_turn(namespace, f"n{n}={n}") for n in range(TURNS)))
        left = await states.get(namespace)
    assert left is not None
    assert len(agent.asked) == TURNS, "every one of them was answered"
    assert left.turn_count == 1, "every one of them went on from what was there before"
    assert left.collected_data != ALL


@pytest.mark.parametrize("policy", ["queue", "merge"])
async def test_with_queue_and_merge_none_is_lost(make: MakeOrchestrator, agent: Scripted, policy: str) -> None:
    flows: list[WorkflowOrchestrator] = [make(busy=policy) for _ in range(3)]
    conversation = await begin(flows[0])
    answers = await asyncio.gather(
        *(flows[n % 3].process_turn(conversation, f"n{n}={n}", f"m{n}") for n in range(TURNS))
    )
    state = (await flows[0].get_session(conversation)).workflow_state
    assert state.collected_data == ALL
    assert state.turn_count == len(agent.asked)
    for number, answer in enumerate(answers):
        assert answer.workflow_state.collected_data[f"n{number}"] == str(number)
    if policy == "queue":
        assert sorted(answer.turn_meta.turn_number for answer in answers) == list(range(1, TURNS + 1))
    repeats = await asyncio.gather(*(flows[n % 3].process_turn(conversation, "x", f"m{n}") for n in range(TURNS)))
    assert repeats == answers


async def test_with_reject_exactly_the_committed_ones_are_in_the_state(make: MakeOrchestrator, agent: Scripted) -> None:
    flows: list[WorkflowOrchestrator] = [make() for _ in range(3)]
    conversation = await begin(flows[0])
    calls = (flows[n % 3].process_turn(conversation, f"n{n}={n}") for n in range(TURNS))
    told = await asyncio.gather(*calls, return_exceptions=True)
    done = {f"n{n}": str(n) for n, answer in enumerate(told) if not isinstance(answer, BaseException)}
    assert all(isinstance(answer, LaneBusy) for answer in told if isinstance(answer, BaseException))
    assert 1 <= len(done) < TURNS
    state = (await flows[0].get_session(conversation)).workflow_state
    assert (state.collected_data, state.turn_count, len(agent.asked)) == (done, len(done), len(done))
