"""A conversation is its owner's: to everybody else it does not exist, whatever they try and whatever it is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inturn.errors import LaneBusy, UnknownConversation
from inturn.workflows import Owner, WorkflowOrchestrator
from tests.lanes.workbench import Gate, counted
from tests.workflows.conftest import ADA, MakeOrchestrator, begin, stored
from tests.workflows.scripted import Scripted

MALLORY = Owner(user_id="mallory", tenant_id="acme")
OTHERS = [
    Owner(user_id="bob", tenant_id="acme"),
    Owner(user_id="ada", tenant_id="other"),
    Owner(user_id="", tenant_id=""),
    Owner(user_id="acme", tenant_id="ada"),
]

Call = Callable[[WorkflowOrchestrator, str, Owner], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "process_turn": lambda flow, name, owner: flow.process_turn(name, "name=Mallory", owner=owner),
    "a repeat": lambda flow, name, owner: flow.process_turn(name, "name=Mallory", "m1", owner=owner),
    "process_card_action": lambda flow, name, owner: flow.process_card_action(
        name, "details_card", {"count": 1}, owner=owner
    ),
    "an unlisted card": lambda flow, name, owner: flow.process_card_action(name, "no_card", {}, owner=owner),
    "get_session": lambda flow, name, owner: flow.get_session(name, owner=owner),
    "complete_session": lambda flow, name, owner: flow.complete_session(name, owner=owner),
    "end_session": lambda flow, name, owner: flow.end_session(name, owner=owner),
}


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Call:
    return CALLS[request.param]


async def test_no_method_tells_another_user_or_tenant_anything(flow: WorkflowOrchestrator, call: Call) -> None:
    conversation = await begin(flow)
    await flow.process_turn(conversation, "name=Ada", "m1", owner=ADA)
    before = await stored(flow, conversation)
    for other in OTHERS:
        with pytest.raises(UnknownConversation) as told:
            await call(flow, conversation, other)
        with pytest.raises(UnknownConversation) as never_there:
            await call(flow, "0" * 32, other)
        assert str(told.value).replace(conversation, "") == str(never_there.value).replace("0" * 32, "")
    assert await stored(flow, conversation) == before


@pytest.mark.parametrize("policy", ["reject", "queue", "merge"])
async def test_no_method_tells_it_while_the_conversation_is_busy(
    flow: WorkflowOrchestrator, agent: Scripted, call: Call, policy: str
) -> None:
    conversation = await begin(flow, busy=policy)
    gate = agent.gate = Gate()
    running = asyncio.create_task(flow.process_turn(conversation, "name=Ada", "m1", owner=ADA))
    await gate.reached.wait()
    counted_before = counted("inturn_conversation_contentions_total", policy=policy)
    try:
        for other in OTHERS[:2]:
            # they are told at once: having to wait would tell them that it is there
            async with asyncio.timeout(10):
                with pytest.raises(UnknownConversation):
                    await call(flow, conversation, other)
        assert not running.done()
        assert counted("inturn_conversation_contentions_total", policy=policy) == counted_before
    finally:
        gate.opened.set()
        assert (await running).workflow_state.collected_data == {"name": "Ada"}
    assert len(agent.asked) == 1


async def test_the_words_of_another_are_not_in_the_burst_of_the_owner(make: MakeOrchestrator, agent: Scripted) -> None:
    flow = make(busy="merge")
    conversation = await begin(flow)
    gate = agent.gate = Gate()
    first = asyncio.create_task(flow.process_turn(conversation, "one", owner=ADA))
    await gate.reached.wait()
    others = [
        flow.process_turn(conversation, "evil", owner=OTHERS[0]),
        flow.process_turn(conversation, "two", owner=ADA),
    ]
    waiting = asyncio.gather(*others, return_exceptions=True)
    gate.opened.set()
    told, _ = await waiting
    assert isinstance(told, UnknownConversation)
    await first
    assert agent.texts == ["one", "two"]


@pytest.mark.parametrize("name", ["", "a>b", "x" * 1000, "\x00", "\ud83d", "../x", "🙂"])
async def test_a_name_that_no_conversation_can_have_is_unknown(
    flow: WorkflowOrchestrator, call: Call, name: str
) -> None:
    with pytest.raises(UnknownConversation):
        await call(flow, name, ADA)


async def test_who_gives_no_owner_is_trusted(flow: WorkflowOrchestrator) -> None:
    conversation = await begin(flow)
    assert (await flow.process_turn(conversation, "name=Ada")).turn_meta.turn_number == 1


async def test_the_owner_of_a_busy_conversation_is_told_that_it_is_busy(
    flow: WorkflowOrchestrator, agent: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "inturn.workflows")
    conversation = await begin(flow)
    before = counted("inturn_conversation_contentions_total", policy="reject")
    gate = agent.gate = Gate()
    running = asyncio.create_task(flow.process_turn(conversation, "name=Ada", owner=ADA))
    await gate.reached.wait()
    calls = [call for name, call in CALLS.items() if name != "get_session"]
    for call in calls:
        with pytest.raises(LaneBusy):
            await call(flow, conversation, ADA)
    gate.opened.set()
    await running
    assert counted("inturn_conversation_contentions_total", policy="reject") == before + len(calls)
    assert f"busy conversation={conversation} policy=reject" in caplog.text


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
