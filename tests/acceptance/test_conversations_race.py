"""The race itself: 50 turns of one conversation at once, from several processes."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from redis.asyncio import Redis

from inturn import InTurn
from inturn.workflows.orchestrator import WorkflowOrchestrator
from inturn.workflows.plain_state import RedisWorkflowStateStore
from inturn.workflows.state import Owner, WorkflowState
from tests.acceptance.looks import PATIENT
from tests.acceptance.processes import Child, Processes
from tests.acceptance.talker import PROCESSES, TURNS, WORDS, NotingAgent, talkers


def all_at_once(children: list[Child], do: Literal["turns", "unguarded"], conversation: str) -> dict[str, str]:
    for number, child in enumerate(children):
        child.tell(do, conversation=conversation, words=WORDS[number::PROCESSES])
    ended: dict[str, str] = {}
    for child in children:
        ended |= child.hears(do, within=60)["ended"]
    assert set(ended) == set(WORDS)
    return ended


async def raced(
    processes: Processes, url: str, namespace: str, busy: Literal["reject", "queue", "merge"]
) -> tuple[dict[str, str], set[str], int]:
    """How each turn ended, what is in the state, and how many turns that took."""
    async with InTurn(url, namespace=namespace, settings=PATIENT) as app:
        orchestrator = WorkflowOrchestrator(app, NotingAgent())
        started = await orchestrator.start_session("ada", "acme", busy=busy)
        ended = all_at_once(talkers(processes, url, namespace), "turns", started.conversation_id)
        state = (await orchestrator.get_session(started.conversation_id)).workflow_state
        return ended, set(state.collected_data), state.turn_count


async def test_under_reject_exactly_the_answered_turns_are_in_the_state(
    processes: Processes, store_url: str, namespace: str
) -> None:
    ended, collected, turns = await raced(processes, store_url, namespace, "reject")
    assert set(ended.values()) == {"answered", "LaneBusy"}
    answered = {word for word, how in ended.items() if how == "answered"}
    assert collected == answered
    assert turns == len(answered)


async def test_under_queue_all_turns_are_in_the_state_each_by_itself(
    processes: Processes, store_url: str, namespace: str
) -> None:
    ended, collected, turns = await raced(processes, store_url, namespace, "queue")
    assert Counter(ended.values()) == {"answered": TURNS}
    assert collected == set(WORDS)
    assert turns == TURNS


async def test_under_merge_all_turns_are_in_the_state_in_fewer_turns(
    processes: Processes, store_url: str, namespace: str
) -> None:
    ended, collected, turns = await raced(processes, store_url, namespace, "merge")
    assert Counter(ended.values()) == {"answered": TURNS}
    assert collected == set(WORDS)
    assert turns < TURNS


async def test_the_unguarded_version_of_the_same_loop_loses_updates_under_the_same_load(
    processes: Processes, redis_url: str, namespace: str
) -> None:
    async with Redis.from_url(redis_url) as client:
        store = RedisWorkflowStateStore(client, ttl_seconds=60)
        owner = Owner(user_id="ada", tenant_id="acme")
        state = WorkflowState(conversation_id=namespace, definition="support_intake", owner=owner)
        await store.set(namespace, state)
        ended = all_at_once(talkers(processes, redis_url, namespace), "unguarded", namespace)
        left = await store.get(namespace)
        await store.delete(namespace)
    assert Counter(ended.values()) == {"answered": TURNS}
    assert left is not None
    assert len(left.collected_data) < TURNS
