"""No turn runs while another service holds the conversation: by `shares=`, and by a lock of one's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio

from inturn import ConversationLock, InTurn
from inturn.errors import (
    AgentUnavailable,
    ConversationLockError,
    LaneBusy,
    LaneTimeout,
    SettingsError,
    StoreUnavailable,
)
from inturn.settings import Settings
from inturn.workflows import WorkflowOrchestrator
from inturn.workflows.config import OrchestratorConfig
from inturn.workflows.state import BusyTurn
from tests.conftest import PATIENT_S
from tests.lanes.plain_key import Plain, on_redis
from tests.lanes.workbench import Gate
from tests.servers import PrivateRedis
from tests.waiting import until, until_waiting
from tests.workflows.conftest import ADA, MakeOrchestrator, begin, stored
from tests.workflows.scripted import DEFINITION, Scripted

SHARES = {"shares": True}


async def key_of(client: redis.asyncio.Redis, conversation: str) -> Plain:
    return Plain(client, f"lock:conv:{conversation}")


class InMemory:
    """A lock of one's own. `held` refuses; `away` is what it raises instead; `on_release` is raised by the release."""

    def __init__(self) -> None:
        self.held = False
        self.away: Exception | None = None
        self.on_release: Exception | None = None
        self.seen: list[str] = []

    async def acquire(self, conversation_id: str) -> Callable[[], Awaitable[bool]]:
        if self.away is not None:
            raise self.away
        if self.held:
            self.seen.append("refused")
            raise ConversationLockError(conversation_id)
        self.seen.append("acquired")

        async def release() -> bool:
            self.seen.append("released")
            if self.on_release is not None:
                raise self.on_release
            return True

        return release


# -- shares= -------------------------------------------------------------------------------------------------------


@on_redis
async def test_a_turn_holds_the_plain_key_while_it_runs(
    make: MakeOrchestrator, agent: Scripted, client: redis.asyncio.Redis
) -> None:
    flow = make(parts=SHARES)
    conversation = await begin(flow)
    key = await key_of(client, conversation)
    gate = agent.gate = Gate()
    running = asyncio.create_task(flow.process_turn(conversation, "name=Ada"))
    await gate.reached.wait()
    assert await key.take() is None
    gate.opened.set()
    await running
    lock_id = await key.take()
    assert lock_id is not None, "it is given back with the commit"
    assert await key.drop(lock_id)


@on_redis
@pytest.mark.parametrize("call", ["turn", "card", "complete", "end"])
async def test_nothing_changes_while_another_service_holds_the_conversation(
    make: MakeOrchestrator, agent: Scripted, client: redis.asyncio.Redis, call: str
) -> None:
    flow = make(parts=SHARES)
    conversation = await begin(flow)
    key = await key_of(client, conversation)
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "turn": lambda: flow.process_turn(conversation, "name=Ada", owner=ADA),
        "card": lambda: flow.process_card_action(conversation, "details_card", {"count": 3}, owner=ADA),
        "complete": lambda: flow.complete_session(conversation, owner=ADA),
        "end": lambda: flow.end_session(conversation, owner=ADA),
    }
    lock_id = await key.take()
    assert lock_id is not None
    before = await stored(flow, conversation)
    with pytest.raises(LaneBusy):
        await calls[call]()
    assert agent.asked == []
    assert await stored(flow, conversation) == before
    assert await key.holder() == lock_id
    assert await key.drop(lock_id)
    await calls[call]()


@on_redis
@pytest.mark.parametrize("policy", ["queue", "merge"])
async def test_turns_that_may_wait_wait_for_the_other_service(
    make: MakeOrchestrator, agent: Scripted, client: redis.asyncio.Redis, policy: str
) -> None:
    flow = make(busy=policy, parts=SHARES)
    conversation = await begin(flow)
    key = await key_of(client, conversation)
    lock_id = await key.take()
    assert lock_id is not None
    waiting = asyncio.create_task(flow.process_turn(conversation, "name=Ada"))
    await until_waiting(flow.app, f"conversation:{conversation}", 1)
    assert agent.asked == []
    assert await key.drop(lock_id)
    assert (await waiting).workflow_state.collected_data == {"name": "Ada"}


@on_redis
async def test_a_turn_whose_key_is_taken_away_commits_nothing(
    make: MakeOrchestrator, agent: Scripted, client: redis.asyncio.Redis
) -> None:
    flow = make(parts=SHARES)
    conversation = await begin(flow)
    key, before = await key_of(client, conversation), await stored(flow, conversation)
    gate = agent.gate = Gate()
    running = asyncio.create_task(flow.process_turn(conversation, "name=Ada"))
    await gate.reached.wait()
    await key.steal()
    gate.opened.set()
    with pytest.raises(Exception, match="lost"):
        await running
    assert await stored(flow, conversation) == before
    await key.delete()


async def test_sharing_is_refused_where_there_are_no_plain_keys(sqlite_url: str, agent: Scripted) -> None:
    async with InTurn(sqlite_url) as app:
        with pytest.raises(SettingsError, match="needs Redis"):
            WorkflowOrchestrator(app, agent, DEFINITION, shares=True)


async def test_a_store_that_is_away_is_not_a_conversation_that_is_held(
    fresh_redis: PrivateRedis, agent: Scripted
) -> None:
    policies: tuple[BusyTurn, ...] = ("reject", "queue", "merge")
    async with InTurn(fresh_redis.url, settings=Settings(store_timeout=4)) as app:
        flows = [
            WorkflowOrchestrator(app, agent, DEFINITION, config=OrchestratorConfig(busy=policy), shares=True)
            for policy in policies
        ]
        conversations = [await begin(flow) for flow in flows]
        fresh_redis.kill()
        turns = (flow.process_turn(each, "name=Ada") for flow, each in zip(flows, conversations, strict=True))
        told = await asyncio.gather(*turns, return_exceptions=True)  # each takes as long as the store may
        assert [type(error) for error in told] == [StoreUnavailable] * len(policies)
        fresh_redis.start()
    assert agent.asked == []


# -- lock= ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def lock() -> InMemory:
    return InMemory()


async def test_a_lock_of_ones_own_is_held_until_the_turn_is_committed(
    make: MakeOrchestrator, agent: Scripted, lock: InMemory
) -> None:
    flow = make(parts={"lock": lock})
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    lock.seen.clear()

    class Looking(InMemory):
        """Sees what is stored when it is released."""

        state: bytes | None = None

        async def acquire(self, conversation_id: str) -> Callable[[], Awaitable[bool]]:
            async def release() -> bool:
                self.state = await stored(flow, conversation)
                return True

            return release

    looking = flow.sessions._lock = Looking()
    await flow.process_turn(conversation, "name=Ada")
    assert looking.state not in (before, None)
    assert looking.state == await stored(flow, conversation)


async def test_a_turn_is_refused_while_the_lock_is_held(
    make: MakeOrchestrator, agent: Scripted, lock: InMemory
) -> None:
    flow = make(parts={"lock": lock})
    conversation = await begin(flow)
    before = await stored(flow, conversation)
    lock.seen.clear()
    lock.held = True
    for call in (flow.process_turn(conversation, "x"), flow.complete_session(conversation)):
        with pytest.raises(ConversationLockError):
            await call
    with pytest.raises(ConversationLockError):
        await flow.end_session(conversation)
    assert lock.seen == ["refused"] * 3, "asked once each"
    assert agent.asked == []
    assert await stored(flow, conversation) == before
    lock.held = False
    assert (await flow.process_turn(conversation, "name=Ada")).workflow_state.turn_count == 1


@pytest.mark.parametrize("policy", ["queue", "merge"])
async def test_a_turn_that_may_wait_waits_for_the_lock(
    make: MakeOrchestrator, agent: Scripted, lock: InMemory, policy: str
) -> None:
    flow = make(busy=policy, parts={"lock": lock})
    conversation = await begin(flow)
    lock.seen.clear()
    lock.held = True
    waiting = asyncio.create_task(flow.process_turn(conversation, "name=Ada"))

    async def has_asked_again() -> bool:
        return len(lock.seen) >= 3

    await until(has_asked_again)
    assert agent.asked == []
    lock.held = False
    assert (await waiting).workflow_state.collected_data == {"name": "Ada"}
    assert lock.seen[-2:] == ["acquired", "released"]


async def test_a_turn_waits_no_longer_than_it_may(make: MakeOrchestrator, agent: Scripted, lock: InMemory) -> None:
    flow = make(busy="queue", wait=0.2, parts={"lock": lock})
    conversation = await begin(flow)
    lock.held = True
    with pytest.raises((ConversationLockError, LaneTimeout)):
        await flow.process_turn(conversation, "name=Ada")
    assert agent.asked == []


@pytest.mark.parametrize("policy", ["reject", "queue", "merge"])
async def test_a_lock_whose_store_is_away_is_never_a_policy(
    make: MakeOrchestrator, agent: Scripted, lock: InMemory, policy: str
) -> None:
    flow = make(busy=policy, parts={"lock": lock})
    conversation = await begin(flow)
    lock.away = StoreUnavailable("the lock's store is away")
    with pytest.raises(StoreUnavailable):
        await flow.process_turn(conversation, "name=Ada")
    assert agent.asked == []


async def test_a_release_that_fails_is_logged_and_the_turn_stands(
    make: MakeOrchestrator, agent: Scripted, lock: InMemory, caplog: pytest.LogCaptureFixture
) -> None:
    flow = make(parts={"lock": lock})
    conversation = await begin(flow)
    lock.on_release = RuntimeError("gone")
    assert (await flow.process_turn(conversation, "name=Ada")).workflow_state.turn_count == 1
    assert any(record.levelno == logging.WARNING and conversation in record.message for record in caplog.records)
    agent.error = AgentUnavailable("scripted", "broke off")
    with pytest.raises(AgentUnavailable):
        await flow.process_turn(conversation, "x")


async def test_the_lock_is_given_back_when_the_turn_fails_or_is_cancelled(
    make: MakeOrchestrator, agent: Scripted, lock: InMemory
) -> None:
    flow = make(parts={"lock": lock})
    conversation = await begin(flow)
    lock.seen.clear()
    agent.error = AgentUnavailable("scripted", "broke off")
    with pytest.raises(AgentUnavailable):
        await flow.process_turn(conversation, "x")
    gate = agent.gate = Gate()
    running = asyncio.create_task(flow.process_turn(conversation, "x"))
    await gate.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert lock.seen == ["acquired", "released"] * 2


@pytest.fixture
async def foreign(redis_url: str, namespace: str) -> AsyncIterator[ConversationLock]:
    async with redis.asyncio.Redis.from_url(redis_url, socket_timeout=PATIENT_S) as client:
        yield ConversationLock(client)


@on_redis
async def test_services_with_the_ready_made_lock_and_ours_exclude_each_other(
    make: MakeOrchestrator, agent: Scripted, foreign: ConversationLock
) -> None:
    for parts in ({"shares": True}, {"lock": foreign}):
        flow = make(parts=parts)
        conversation = await begin(flow)
        release = await foreign.acquire(conversation)
        with pytest.raises((LaneBusy, ConversationLockError)):
            await flow.process_turn(conversation, "x")
        assert await release()
        gate = agent.gate = Gate()
        running = asyncio.create_task(flow.process_turn(conversation, "name=Ada"))
        await gate.reached.wait()
        with pytest.raises(ConversationLockError):
            await foreign.acquire(conversation)
        gate.opened.set()
        await running
        assert await (await foreign.acquire(conversation))()
